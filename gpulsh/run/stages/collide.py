"""collide: a range of digests, in all bands; finds who shares a bucket in it.

Makes PAIRS, all of small buckets; CROWD, the members of large ones; STARS, whom these connect. Pairs, which may be a
hundred times as many as digests, are made and written in runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.parts import in_part
from gpulsh.lsh.collisions import bucketed
from gpulsh.run.job.layout import Layout
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.numbers import within
from gpulsh.run.records.postings import Participants
from gpulsh.run.records.stars import Star
from gpulsh.run.records.tables import CROWD, DIGESTS, PAIRS, STARS, Pairs
from gpulsh.store.ranged import range_rows

PAIRS_AT_ONCE = 1 << 20  # made and written, counted in every band


def collide(place: Workplace, layout: Layout, copies: Sequence[Path], part: int, parts: int) -> Made:
    """Find who meets whom in one of `parts` equal ranges of digests; the `copies` in files of theirs do not."""
    bands = place.job.method.banding.bands
    digests = _Digests(place, layout, copies, part, parts)
    with place.ops.here():
        small, crowd = bucketed(digests, place.ops, lambda done: None)
        del digests
        star = Star(len(layout), place.ops)
        target = PAIRS.path(place.folder, part)
        with PAIRS.create(target) as out:
            for pairs in small.pieces(PAIRS_AT_ONCE):
                columns = Pairs(*np.ascontiguousarray(pairs.T))
                star.add(pairs)
                star.count(columns.i)
                out.append(columns)
            written = out.finish()
        star.add(np.stack([crowd.bucket, crowd.document], axis=1))
    made = {**CROWD.write(place.folder, part, crowd), **STARS.write(place.folder, part, star.columns())}
    place.progress.advance(bands)
    return Made({target.name: written, **made}, {"amount": bands, "memberships": len(crowd.document)})


class _Digests:
    """`lsh.collisions.Digests` of a range, all documents but copies."""

    ascending = False  # they come partition by partition, in order of their upper bits

    def __init__(self, place: Workplace, layout: Layout, copies: Sequence[Path], part: int, parts: int) -> None:
        self._part, self._parts, self._ops = part, parts, place.ops
        self.documents, self.bands = len(layout), place.job.method.banding.bands
        self._digests: list[list[NDArray[np.uint64]]] = [[] for _ in range(self.bands)]
        self._ids: list[list[Numbers]] = [[] for _ in range(self.bands)]
        participants = Participants(place.folder, layout, copies)
        for number, start in enumerate(layout.partitions[:-1].tolist()):
            takes_part = participants.of(number)
            columns = DIGESTS.open(DIGESTS.path(place.folder, number))
            for at, run in enumerate(columns.runs()):
                rows = range_rows(run.digest, part, parts)
                numbers, digests = run.row[rows], run.digest[rows]
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
