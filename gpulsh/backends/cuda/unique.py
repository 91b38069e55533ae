"""unique: stable radix sorts by value, then by row; flags from neighbours."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import Machine


def unique(machine: Machine, fingerprints: Fingerprints) -> Fingerprints:
    xp = machine.arrays
    start, stop = int(fingerprints.offset[0]), int(fingerprints.offset[-1])
    if start == stop:  # nothing is asked of sorts of nothing
        return Fingerprints(xp.empty(0, np.uint64), xp.zeros(len(fingerprints) + 1, np.int64))
    values = fingerprints.values[start:stop]
    rows = machine.row_of(fingerprints.offset, start, stop)
    order = xp.argsort(values, kind="stable")
    order = order[xp.argsort(rows[order], kind="stable")]
    values = values[order]  # rows were in order, so `rows` needs none
    keep = xp.ones(stop - start, bool)
    keep[1:] = (values[1:] != values[:-1]) | (rows[1:] != rows[:-1])
    return kept_rows(machine, values, fingerprints.offset, keep)


def kept_rows(machine: Machine, values: Array, offset: Array, keep: Array) -> Fingerprints:
    """The flagged `values`, in the rows that `offset` cuts them into."""
    before = machine.exclusive(keep)
    return Fingerprints(values[keep], before[offset - offset[0]])
