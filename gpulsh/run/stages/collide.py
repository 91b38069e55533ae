"""Find documents that are equal or share a bucket.

copies       a range of exact hashes: later copies and the first one of each -> COPIES, TWINS
collide      a range of digests, in all bands -> PAIRS of small buckets, MEMBERSHIPS (members of large ones), FOREST

Pairs may be a hundred times as many as digests, so they are made and written in runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.parts import in_part
from gpulsh.decide.copies import first_copies
from gpulsh.lsh.collisions import bucketed
from gpulsh.run.job import Layout, Made, Workplace
from gpulsh.run.records.documents import ranks_of
from gpulsh.run.records.forest import ForestBuilder
from gpulsh.run.records.ranges import Participants, rows_in_range
from gpulsh.run.records.tables import COPIES, DIGESTS, EXACT, FOREST, MEMBERSHIPS, PAIRS, TWINS, Copies, Pairs


def copies(place: Workplace, layout: Layout, part: int, parts: int) -> Made:
    """Find the copies whose hashes are in one of `parts` equal ranges."""
    hashes, positions = [np.empty((0, 2), np.uint64)], [np.empty(0, np.int64)]
    for _, halves, documents in rows_in_range(EXACT, place.folder, layout, part, parts):
        hashes.append(np.stack(halves, axis=1))
        positions.append(documents)
    exact, position = np.concatenate(hashes), np.concatenate(positions)

    def rank(rows: Numbers) -> Numbers:
        ascending = np.argsort(position[rows])
        ranks = np.empty(len(rows), np.int64)
        ranks[ascending] = ranks_of(position[rows][ascending], place.job.policy.keep == "first", place.folder, layout)
        return ranks

    source = (lambda rows: layout.source_of(position[rows])) if place.job.policy.by_source() else None
    ops = place.ops

    def ascending(later: Numbers, earlier: Numbers) -> Copies:
        order = np.argsort(position[later])
        return Copies(position[later][order], position[earlier][order])

    with ops.here():
        hashed, ids = ops.asarray(exact), ops.asarray(np.arange(len(exact)))
        found = first_copies(hashed, ids, rank, ops, source)
        made = COPIES.write(place.folder, part, ascending(*found))
        if source is not None:
            later, earlier = first_copies(hashed, ids, rank, ops)
            is_twin = ~np.isin(later, found[0])
            made |= TWINS.write(place.folder, part, ascending(later[is_twin], earlier[is_twin]))
    place.progress.advance(1)
    return Made(made, {"amount": 1})


PAIRS_AT_ONCE = 1 << 20  # made and written, counted in every band


def collide(place: Workplace, layout: Layout, copies: Sequence[Path], part: int, parts: int) -> Made:
    """Find documents that share a bucket in one of `parts` equal ranges of digests; later `copies` are left out."""
    bands = place.job.method.banding.bands
    digests = _Digests(place, layout, copies, part, parts)
    with place.ops.here():
        small, memberships = bucketed(digests, place.ops, lambda done: None)
        del digests
        forest = ForestBuilder(len(layout), place.ops)
        target = PAIRS.path(place.folder, part)
        with PAIRS.create(target) as out:
            for pairs in small.pieces(PAIRS_AT_ONCE):
                columns = Pairs(*np.ascontiguousarray(pairs.T))
                forest.add(pairs)
                forest.count(columns.i)
                out.append(columns)
            written = out.finish()
        forest.add(np.stack([memberships.bucket, memberships.document], axis=1))
    made = {**MEMBERSHIPS.write(place.folder, part, memberships), **FOREST.write(place.folder, part, forest.columns())}
    place.progress.advance(bands)
    return Made({target.name: written, **made}, {"amount": bands, "memberships": len(memberships.document)})


class _Digests:
    """`lsh.collisions.Digests` of a range, all documents but copies."""

    ascending = False  # they come partition by partition, in order of their upper bits

    def __init__(self, place: Workplace, layout: Layout, copies: Sequence[Path], part: int, parts: int) -> None:
        self._part, self._parts, self._ops = part, parts, place.ops
        self.documents, self.bands = len(layout), place.job.method.banding.bands
        self._digests: list[list[NDArray[np.uint64]]] = [[] for _ in range(self.bands)]
        self._ids: list[list[Numbers]] = [[] for _ in range(self.bands)]
        given = place.folder, layout, part, parts, Participants(layout, copies)
        for at, (digests,), documents in rows_in_range(DIGESTS, *given):
            self._digests[at % self.bands].append(digests)
            self._ids[at % self.bands].append(documents)

    def band(self, band: int, part: int, parts: int) -> tuple[Array, Array]:
        """The digests of a band in one of `parts` parts of the range, and the documents' numbers."""
        digests = np.concatenate([np.empty(0, np.uint64), *self._digests[band]])
        ids = np.concatenate([np.empty(0, np.int64), *self._ids[band]])
        if parts > 1:
            chosen = in_part(digests, self._part * parts + part, self._parts * parts)
            digests, ids = digests[chosen], ids[chosen]
        return self._ops.asarray(digests), self._ops.asarray(ids)
