"""Connects candidate pairs into components, and forms the groups that are decided together.

group        all files of FOREST and of COPIES -> MEMBERS, whole components together, and SHARES

A forest connects each document with the least document of its component. One task merges the forests of all ranges: it
holds 28 bytes for each connected document, and pieces of files. Rejected: a tree of merges, which does the same work
again at each level.

A group is larger than `Cut.group` only where a single component is. Then its candidate pairs are compared in shares:
the pairs whose first document is in a range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.ragged import cuts, sorted_distinct
from gpulsh.run.job import Layout, Made, Workplace
from gpulsh.run.records.documents import sizes_of
from gpulsh.run.records.forest import NO_PAIR, Forest, merged, pieces
from gpulsh.run.records.tables import CONNECT, MEMBERS, SHARES, Members, Places, Ranges, Shares
from gpulsh.store.columns import Column

DOCUMENT_COST = 256  # bytes that a document in memory costs besides its text
PAIR_COST = 96


def group(place: Workplace, layout: Layout, ranges: Ranges) -> Made:
    """Merge all forests, and put whole components into groups."""
    found, most = merged(place.ops, place.folder, ranges), place.job.cut.group

    def to_decide(rows: slice) -> Numbers:
        """int64 [rows]: bytes that some documents cost, with their pairs; texts of copies are not read."""
        pairs = found.pairs[rows].astype(np.int64)
        cost, meets = DOCUMENT_COST + PAIR_COST * np.maximum(pairs, 0), pairs != NO_PAIR
        cost[meets] += sizes_of(found.document[rows][meets], place.folder, layout)
        return cost

    def to_compare(places: Numbers, second: int) -> Numbers:
        """int64 [places]: bytes that the pairs of first documents cost, with `second` for each second one."""
        document = DOCUMENT_COST + sizes_of(found.document[places], place.folder, layout)
        return document + found.pairs[places].astype(np.int64) * (PAIR_COST + second)

    groups, oversized = _grouped(found, to_decide, most)
    compared = oversized if place.job.method.verify != "none" else []
    shares, pairs = _shares(found, groups, compared, to_compare, most, len(layout))
    meets = found.pairs != NO_PAIR
    facts = {
        "documents": len(groups),
        "meeting": int(meets.sum()),
        "groups": int(groups.max(initial=-1)) + 1,
        "shares": len(shares.group),
        "pairs": pairs,
    }
    members = MEMBERS.write(place.folder, CONNECT, Members(found.document, groups, meets))
    return Made({**members, **SHARES.write(place.folder, CONNECT, shares)}, facts)


def _grouped(forest: Forest, cost: Callable[[slice], Numbers], most: int) -> tuple[Places, Sequence[int]]:
    """Groups [m] of whole components, which overwrite their labels, in the same order; and the numbers of groups larger
    than `most`, which are single components.
    """
    label = forest.label
    growing = Column(label.dtype)
    for rows in pieces(len(label)):
        some = rows.start + np.flatnonzero(label[rows] == np.arange(rows.start, rows.stop))
        growing.append(some)
    roots = growing.whole()
    offset = np.zeros(len(roots) + 1, np.int64)  # of the components
    for rows in pieces(len(label)):
        label[rows] = np.searchsorted(roots, label[rows])
        np.add.at(offset[1:], label[rows], cost(rows))
    np.cumsum(offset, out=offset)
    del growing, roots
    of_component, oversized = np.empty(len(offset) - 1, label.dtype), []
    for number, (start, stop) in enumerate(cuts(offset, most)):
        of_component[start:stop] = number
        if offset[stop] - offset[start] > most:
            oversized.append(number)
    for rows in pieces(len(label)):
        label[rows] = of_component[label[rows]]
    return label, oversized


def _shares(
    forest: Forest,
    groups: Places,
    oversized: Sequence[int],
    to_compare: Callable[[Numbers, int], Numbers],
    most: int,
    documents: int,
) -> tuple[Shares, int]:
    """The shares of `oversized` groups: each costs at most `most` and a document, of `documents` that there are; and
    how many pairs they have together.
    """
    cost_before, share_before = dict.fromkeys(oversized, 0), dict.fromkeys(oversized, -1)
    room = {number: most - DOCUMENT_COST * _members(groups, number) for number in oversized}
    total = 0
    group, start = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for rows in pieces(len(groups)) if oversized else ():
        chosen = rows.start + np.flatnonzero(np.isin(groups[rows], oversized) & (forest.pairs[rows] > 0))
        for number in sorted_distinct(groups[chosen]).tolist():
            own = chosen[groups[chosen] == number]
            # The second documents of a share are all of the group at most: where these are many, one a pair.
            some = room[number] > most // 2
            cost = to_compare(own, 0 if some else DOCUMENT_COST)
            total += int(forest.pairs[own].sum())
            ends = cost_before[number] + np.cumsum(cost)
            share = (ends - cost) // (room[number] if some else most)
            begins = own[share != np.concatenate([[share_before[number]], share[:-1]])]
            group.append(np.full(len(begins), number))
            start.append(forest.document[begins])
            cost_before[number], share_before[number] = int(ends[-1]), int(share[-1])
    of, first = np.concatenate(group), np.concatenate(start)
    order = np.argsort(of, kind="stable")
    of, first = of[order], first[order]
    stop = np.append(first[1:], documents)[: len(first)]
    stop[:-1][of[1:] != of[:-1]] = documents
    return Shares(of, first, stop), total


def _members(groups: Places, number: int) -> int:
    return sum(int(np.count_nonzero(groups[rows] == number)) for rows in pieces(len(groups)))
