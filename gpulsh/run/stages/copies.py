"""copies: a range of exact hashes; the later copies in it and the first one of each.

Makes `copies` (document, first), ascending by document.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.backends.parts import in_part
from gpulsh.decide.copies import first_copies
from gpulsh.run.job.job import step_file, step_of
from gpulsh.run.job.placed import Placed
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.documents import ranks_of
from gpulsh.run.records.numbers import within
from gpulsh.run.stages.sign import EXACT
from gpulsh.store.columns import MappedColumns
from gpulsh.store.ranged import range_rows


def copies(place: Workplace, placed: Placed, part: int, parts: int) -> Made:
    """Find the copies whose hashes lie in one of `parts` equal ranges."""
    hashes, positions = [np.empty((0, 2), np.uint64)], [np.empty(0, np.int64)]
    for number, (start, stop) in enumerate(pairwise(placed.partitions.tolist())):
        columns = MappedColumns(step_file(place.folder, step_of("sign", number), "exact"))
        for batch in columns.runs(EXACT):
            rows = range_rows(batch["hash_0"], part, parts)
            chosen = in_part(batch["hash_0"][rows], part, parts)
            hashes.append(np.stack([batch[name][rows][chosen] for name in ("hash_0", "hash_1")], axis=1))
            known = within(place.folder, "documents", batch["row"][rows][chosen], 0, stop - start)
            positions.append(known.astype(np.int64) + start)
    exact, position = np.concatenate(hashes), np.concatenate(positions)

    def rank(rows: Numbers) -> Numbers:
        ascending = np.argsort(position[rows])
        ranks = np.empty(len(rows), np.int64)
        ranks[ascending] = ranks_of(position[rows][ascending], place.job.policy.keep == "first", place.folder, placed)
        return ranks

    source = (lambda rows: placed.source_of(position[rows])) if place.job.policy.by_source() else None
    ops = place.ops
    with ops.here():
        later, earlier = first_copies(ops.asarray(exact), ops.asarray(np.arange(len(exact))), rank, ops, source)
    order = np.argsort(position[later])
    found = {"document": position[later][order], "first": position[earlier][order]}
    place.progress.advance(1)
    return Made(place.write(step_of("copies", part), copies=found), {"amount": 1})
