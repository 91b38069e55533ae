"""copies: a range of exact hashes; the later copies in it and the first one of each. Makes COPIES, and TWINS."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.backends.parts import in_part
from gpulsh.decide.copies import first_copies
from gpulsh.run.job.layout import Layout
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.documents import ranks_of
from gpulsh.run.records.numbers import within
from gpulsh.run.records.tables import COPIES, EXACT, TWINS, Copies
from gpulsh.store.ranged import range_rows


def copies(place: Workplace, layout: Layout, part: int, parts: int) -> Made:
    """Find the copies whose hashes lie in one of `parts` equal ranges."""
    hashes, positions = [np.empty((0, 2), np.uint64)], [np.empty(0, np.int64)]
    for number, (start, stop) in enumerate(pairwise(layout.partitions.tolist())):
        for run in EXACT.open(EXACT.path(place.folder, number)).runs():
            rows = range_rows(run.hash_0, part, parts)
            chosen = in_part(run.hash_0[rows], part, parts)
            hashes.append(np.stack([half[rows][chosen] for half in (run.hash_0, run.hash_1)], axis=1))
            known = within(place.folder, "documents", run.row[rows][chosen], 0, stop - start)
            positions.append(known.astype(np.int64) + start)
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
