"""Connects candidate pairs into components, and forms the groups that are decided together.

group        all files of FOREST and of COPIES -> MEMBERS, whole components together, and SHARES

A forest connects each document with the least document of its component. One task merges the forests of all ranges: it
holds 8 bytes for each connected document and 12 for each component, and pieces of files. Rejected: a tree of merges,
which does the same work again at each level.

A group is larger than `TaskSizes.group` only where a single component is. Then its candidate pairs are compared in
shares: the pairs whose first document is in a range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.ragged import merged_distinct, row_ranges, sorted_distinct, stable_order
from gpulsh.run.job import JobContext, Layout, TaskResult
from gpulsh.run.records.documents import sizes_of
from gpulsh.run.records.tables import CONNECT, FOREST, MEMBERS, SHARES, Members, Places, Ranges, Shares
from gpulsh.store.columns import Column, MappedColumns

Files = Sequence[MappedColumns[Any]]

ROWS_AT_ONCE = 1 << 18
NO_PAIR = -1  # of a document that is only a copy
DOCUMENT_COST = 256  # bytes that a document in memory costs besides its text
PAIR_COST = 96


def form_groups(context: JobContext, layout: Layout, ranges: Ranges) -> TaskResult:
    """Merge all forests, and put whole components into groups."""
    folder, most = context.folder, context.job.cut.group
    forests, copies = FOREST.open_all(folder, ranges.met), ranges.all_copies(folder)
    document = _connected_documents(forests, copies, folder)
    label, pairs = _components(document, forests, copies, context.ops)

    def costs(rows: slice) -> Numbers:
        """int64 [rows]: bytes that some documents cost, with their pairs; texts of copies are not read."""
        here = pairs[rows].astype(np.int64)
        cost, meets = DOCUMENT_COST + PAIR_COST * np.maximum(here, 0), here != NO_PAIR
        cost[meets] += sizes_of(document[rows][meets], folder, layout)
        return cost

    # Groups of whole components, which overwrite their labels; groups larger than `most` are single components.
    components = 0
    for rows in _row_slices(len(label)):
        here = label[rows]
        is_root = here == np.arange(rows.start, rows.stop)  # it comes before the others of its component
        count = int(np.count_nonzero(is_root))
        here[is_root] = np.arange(components, components + count)
        here[~is_root] = label[here[~is_root]]
        components += count
    offset = np.zeros(components + 1, np.int64)
    for rows in _row_slices(len(label)):
        np.add.at(offset[1:], label[rows], costs(rows))
    np.cumsum(offset, out=offset)
    of_component, oversized = np.empty(len(offset) - 1, label.dtype), []
    for number, (start, stop) in enumerate(row_ranges(offset, most)):
        of_component[start:stop] = number
        if offset[stop] - offset[start] > most:
            oversized.append(number)
    for rows in _row_slices(len(label)):
        label[rows] = of_component[label[rows]]

    compared = oversized if context.job.method.verify != "none" else []
    shares, in_shares = _shares(context, layout, document, label, pairs, compared)
    meets = pairs != NO_PAIR
    facts = {
        "documents": len(document),
        "meeting": int(meets.sum()),
        "groups": len(of_component) and int(of_component[-1]) + 1,
        "shares": len(shares.group),
        "pairs": in_shares,
    }
    members = MEMBERS.write(folder, CONNECT, Members(document, label, meets))
    return TaskResult({**members, **SHARES.write(folder, CONNECT, shares)}, facts)


def _row_slices(rows: int) -> Iterator[slice]:
    """All rows, some at a time."""
    for start in range(0, rows, ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, rows))


def _connected_documents(forests: Files, copies: Files, folder: Path) -> Numbers:
    """int64 [m], mapped: the documents of all files, ascending, each once."""
    columns, firsts, ends = [file.whole().document for file in (*forests, *copies)], Column(np.int64, folder), [0]
    for file in copies:
        first = sorted_distinct(file.whole().first)
        firsts.append(first)
        ends.append(ends[-1] + len(first))
    columns += np.split(firsts.whole(), ends[1:-1])
    each = max(1, ROWS_AT_ONCE // max(1, len(columns)))
    document = Column(np.int64, folder)
    while columns := [column for column in columns if len(column)]:
        last = min(column[:each][-1] for column in columns)
        stops = [int(np.searchsorted(column[:each], last, side="right")) for column in columns]
        document.append(merged_distinct(column[:stop] for column, stop in zip(columns, stops, strict=True)))
        columns = [column[stop:] for column, stop in zip(columns, stops, strict=True)]
        for file in (*forests, *copies):
            file.release()
    return document.whole()


def _components(document: Numbers, forests: Files, copies: Files, ops: Backend) -> tuple[Places, NDArray[np.int32]]:
    """Of each of `document` [m]: the place of the least document that the pairs of all files connect it with [m], and
    how often it is the first of a candidate pair [m].
    """
    parent: Places = np.arange(len(document), dtype=np.int32 if len(document) < 1 << 31 else np.int64)
    pairs = np.full(len(document), NO_PAIR, np.int32)
    with ops.use_device():
        for file in (*forests, *copies):
            first, second, *counts = file.whole()
            for rows in _row_slices(len(first)):
                edges = np.empty((rows.stop - rows.start, 2), np.int64)
                edges[:, 1] = np.searchsorted(document, first[rows])
                # Ascending numbers are found in a fraction of the time; the first ones ascend.
                order = stable_order(second[rows])
                edges[order, 0] = np.searchsorted(document, second[rows][order])
                for count in counts:
                    pairs[edges[:, 1]] = np.maximum(pairs[edges[:, 1]], 0) + count[rows]
                file.release()
                roots = _roots(parent, edges)
                apart = roots[roots[:, 0] != roots[:, 1]]
                known, ends = np.unique(apart, return_inverse=True)
                least = ops.asnumpy(ops.components(len(known), ops.asarray(ends.reshape(apart.shape))))
                parent[known] = known[least]  # the least of a tree is its root
                parent[edges] = parent[roots]
    for rows in _row_slices(len(parent)):  # parents come before their children
        parent[rows] = _roots(parent, parent[rows])
    return parent, pairs


def _roots(parent: Places, places: Places) -> Places:
    while bool(((above := parent[places]) != places).any()):
        places = above
    return places


def _shares(
    context: JobContext,
    layout: Layout,
    document: Numbers,
    groups: Places,
    pairs: NDArray[np.int32],
    oversized: Sequence[int],
) -> tuple[Shares, int]:
    """The shares of `oversized` groups, and how many pairs they have together. A share costs at most as much as a
    group may, and a document.
    """
    most, cost_before, share_before = context.job.cut.group, dict.fromkeys(oversized, 0), dict.fromkeys(oversized, -1)
    room = dict.fromkeys(oversized, most)
    for rows in _row_slices(len(groups)) if oversized else ():
        for number in oversized:
            room[number] -= DOCUMENT_COST * int(np.count_nonzero(groups[rows] == number))
    total, group, start = 0, [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for rows in _row_slices(len(groups)) if oversized else ():
        chosen = rows.start + np.flatnonzero(np.isin(groups[rows], oversized) & (pairs[rows] > 0))
        for number in sorted_distinct(groups[chosen]).tolist():
            own = chosen[groups[chosen] == number]
            of_each = pairs[own].astype(np.int64)
            # The second documents of a share are all of the group at most: where these are many, one a pair.
            some = room[number] > most // 2
            cost = DOCUMENT_COST + sizes_of(document[own], context.folder, layout)
            cost += of_each * (PAIR_COST + (0 if some else DOCUMENT_COST))
            total += int(of_each.sum())
            ends = cost_before[number] + np.cumsum(cost)
            share = (ends - cost) // (room[number] if some else most)
            begins = own[share != np.concatenate([[share_before[number]], share[:-1]])]
            group.append(np.full(len(begins), number))
            start.append(document[begins])
            cost_before[number], share_before[number] = int(ends[-1]), int(share[-1])
    of, first = np.concatenate(group), np.concatenate(start)
    order = np.argsort(of, kind="stable")
    of, first = of[order], first[order]
    stop = np.append(first[1:], len(layout))[: len(first)]
    stop[:-1][of[1:] != of[:-1]] = len(layout)
    return Shares(of, first, stop), total
