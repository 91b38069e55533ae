"""occurrences: radix sorts of the array module; weighted_overlap: a thread a pair."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints, WeightedFingerprints
from gpulsh.backends.cuda.launcher import Machine


def occurrences(machine: Machine, fingerprints: Fingerprints) -> WeightedFingerprints:
    """Memory beside the arguments: about 60 bytes a fingerprint."""
    xp, offset = machine.arrays, fingerprints.offset
    start, stop = machine.number(offset[0]), machine.number(offset[-1])
    values, row = fingerprints.values[start:stop], machine.row_of(offset, start, stop)
    order = xp.argsort(values, kind="stable")
    order = order[xp.argsort(row[order], kind="stable")]
    values, row = values[order], row[order]
    first = xp.ones(len(values), bool)
    first[1:] = (values[1:] != values[:-1]) | (row[1:] != row[:-1])
    begin = xp.flatnonzero(first)
    weight = xp.diff(xp.concatenate((begin, xp.full(1, len(values), begin.dtype)))).astype(np.float64)
    return WeightedFingerprints(values[begin], weight, xp.searchsorted(begin, offset - offset[0]).astype(np.int64))


def weighted_overlap(machine: Machine, pairs: Array, rows: WeightedFingerprints) -> tuple[Array, Array]:
    xp, count = machine.arrays, len(pairs)
    least, greatest = xp.empty(count, np.float64), xp.empty(count, np.float64)
    machine.run(
        *("weighted_overlap", "weighted_overlap", count, machine.geometry.threads),
        *(xp.ascontiguousarray(pairs), np.int64(count), rows.values, rows.weight, rows.offset, least, greatest),
    )
    return least, greatest
