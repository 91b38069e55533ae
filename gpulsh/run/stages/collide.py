"""collide: a range of digests, all bands; who shares a bucket in it.

Makes `pairs` (i, j), all pairs of small buckets, i < j, lexicographic; `crowd` (document, band, bucket), the members of
large ones, a bucket going by its first document; `stars` (document, label, pairs), whom these connect. Pairs, which
may be a hundred times as many as digests, are made and written in runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.parts import in_part
from gpulsh.lsh.collisions import bucketed
from gpulsh.run.job.job import step_file, step_of
from gpulsh.run.job.placed import Placed
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.numbers import within
from gpulsh.run.records.stars import Star
from gpulsh.run.stages.sign import DIGESTS
from gpulsh.store.columns import MappedColumns, columns_file
from gpulsh.store.ranged import range_rows

PAIRS_AT_ONCE = 1 << 20  # made and written, counted in every band


def collide(place: Workplace, placed: Placed, copies: Sequence[Path], part: int, parts: int) -> Made:
    """Find who meets whom in one of `parts` equal ranges of digests; the `copies` in files of theirs do not."""
    bands = place.job.method.banding.bands
    digests = _Digests(place, placed, copies, part, parts)
    with place.ops.here():
        small, crowd = bucketed(digests, place.ops, lambda done: None)
        del digests
        star = Star(len(placed), place.ops)
        target = step_file(place.folder, step_of("collide", part), "pairs")
        with columns_file(target, pa.schema([("i", pa.int64()), ("j", pa.int64())])) as out:
            for pairs in small.pieces(PAIRS_AT_ONCE):
                columns = np.ascontiguousarray(pairs.T)
                star.add(pairs)
                star.count(columns[0])
                out.append(list(columns))
            written = out.finish()
        star.add(np.stack([crowd.bucket, crowd.document], axis=1))
    made = {target.name: written, **place.write(step_of("collide", part), crowd=crowd._asdict(), stars=star.columns())}
    place.progress.advance(bands)
    return Made(made, {"amount": bands, "memberships": len(crowd.document)})


class _Digests:
    """`lsh.collisions.Digests` of a range, all documents but copies."""

    ascending = False  # they come partition by partition, in order of their upper bits

    def __init__(self, place: Workplace, placed: Placed, copies: Sequence[Path], part: int, parts: int) -> None:
        self._part, self._parts, self._ops = part, parts, place.ops
        self.documents, self.bands = len(placed), place.job.method.banding.bands
        self._digests: list[list[NDArray[np.uint64]]] = [[] for _ in range(self.bands)]
        self._ids: list[list[Numbers]] = [[] for _ in range(self.bands)]
        known = [MappedColumns(path) for path in copies]
        for number, (start, stop) in enumerate(zip(placed.partitions, placed.partitions[1:], strict=False)):
            takes_part = np.ones(int(stop - start), bool)
            for file in known:
                documents = file.column("document")
                here = documents[slice(*np.searchsorted(documents, [start, stop]))]
                takes_part[within(place.folder, "documents", here, start, stop) - start] = False
            columns = MappedColumns(step_file(place.folder, step_of("sign", number), "digests"))
            for at, batch in enumerate(columns.runs(DIGESTS)):
                rows = range_rows(batch["digest"], part, parts)
                numbers, digests = batch["row"][rows], batch["digest"][rows]
                within(place.folder, "documents", numbers, 0, len(takes_part))
                chosen = takes_part[numbers]
                if parts > 1:
                    chosen &= in_part(digests, part, parts)
                self._digests[at % self.bands].append(digests[chosen])
                self._ids[at % self.bands].append(numbers[chosen].astype(np.int64) + start)
                columns.let_go()  # what a search for the range looked at would add up

    def band(self, band: int, part: int, parts: int) -> tuple[Array, Array]:
        """The digests of a band in one of `parts` parts of the range, and the documents' numbers."""
        digests = np.concatenate([np.empty(0, np.uint64), *self._digests[band]])
        ids = np.concatenate([np.empty(0, np.int64), *self._ids[band]])
        if parts > 1:
            chosen = in_part(digests, self._part * parts + part, self._parts * parts)
            digests, ids = digests[chosen], ids[chosen]
        return self._ops.asarray(digests), self._ops.asarray(ids)
