"""join: a range of fingerprints; of all documents those that have a fingerprint of another one's prefix.

Makes PAIRS, in runs that may share some, CROWD, which is empty, and STARS, as `collide` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.prefixes import least_share
from gpulsh.decide.compare.containment_join import Owners
from gpulsh.lsh.pairs import distinct, packed, renumbered, unpacked
from gpulsh.run.job.job import step_of
from gpulsh.run.job.layout import Layout
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.documents import ranks_of, set_sizes_of
from gpulsh.run.records.postings import Participants, postings_of
from gpulsh.run.records.stars import Star
from gpulsh.run.records.tables import CROWD, PAIRS, POSTINGS, PREFIXES, STARS, Pairs
from gpulsh.store.columns import ColumnsFile

PAIRS_AT_ONCE = 1 << 20  # held before they are written
POSTING_COST = 2  # digests that a posting of a prefix costs as much as


def join(place: Workplace, layout: Layout, copies: Sequence[Path], part: int, parts: int) -> Made:
    """Find who may contain whom by the fingerprints in one of `parts` equal ranges."""
    folder, step = place.folder, step_of("join", part)
    given = folder, layout, Participants(folder, layout, copies), part, parts
    prefixes = [(np.empty(0, np.uint64), np.empty(0, np.int64)), *postings_of(PREFIXES, *given)]
    owners = Owners(*map(np.concatenate, zip(*prefixes, strict=True)))
    del prefixes
    target = PAIRS.path(folder, step)
    with place.ops.here(), PAIRS.create(target) as out:
        found = _Found(out, Star(len(layout), place.ops))
        for fingerprints, holders in postings_of(POSTINGS, *given):
            for pairs in owners.met_by(fingerprints, holders):
                found.add(_possible(place, layout, *pairs))
        found.write()
        made = {target.name: out.finish()}
    made |= {**CROWD.write(folder, step, CROWD.empty()), **STARS.write(folder, step, found.star.columns())}
    place.progress.advance(1)
    return Made(made, {"amount": 1})


def _possible(place: Workplace, layout: Layout, holders: Numbers, owners: Numbers) -> NDArray[np.uint64]:
    """Packed pairs i < j, ascending, each once: those in which the holder comes first in decision order and has enough
    fingerprints to contain the owner.
    """
    job, others = place.job, holders != owners
    met = unpacked(distinct(packed(holders[others], owners[others])))
    documents, pairs = renumbered(met, len(layout))
    rank = ranks_of(documents, job.policy.keep == "first", place.folder, layout)
    size = set_sizes_of(documents, place.folder, layout)
    holder, owner = pairs.T
    may = (rank[holder] < rank[owner]) & (size[holder] >= least_share(job.method.threshold) * size[owner])
    return distinct(packed(*np.sort(met[may], axis=1).T))


class _Found:
    """Pairs on the way to a file, which holds them in ascending runs."""

    def __init__(self, out: ColumnsFile, star: Star) -> None:
        self.star, self._out = star, out
        self._held, self._count = [np.empty(0, np.uint64)], 0

    def add(self, pairs: NDArray[np.uint64]) -> None:
        self._held.append(pairs)
        self._count += len(pairs)
        if self._count >= PAIRS_AT_ONCE:
            self._held = [distinct(np.concatenate(self._held))]
            self._count = len(self._held[0])
            if self._count >= PAIRS_AT_ONCE // 2:
                self.write()

    def write(self) -> None:
        """All that are held."""
        pairs = unpacked(distinct(np.concatenate(self._held)))
        if len(pairs):
            self.star.add(pairs)
            self.star.count(pairs[:, 0])
            self._out.append(Pairs(*np.ascontiguousarray(pairs.T)))
        self._held, self._count = [np.empty(0, np.uint64)], 0
