"""unique: a block sorts a row that fits its shared memory; the others go through the array module's radix sorts."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.long_rows import long_rows, packed, put
from gpulsh.ragged import first_of_runs


def unique(machine: Machine, fingerprints: Fingerprints) -> Fingerprints:
    """Memory beside the arguments: 16 bytes a fingerprint, about 60 for each of one span of long rows."""
    xp, geometry = machine.arrays, machine.geometry
    offset, rows = fingerprints.offset, len(fingerprints)
    loose = xp.empty(machine.number(offset[-1] - offset[0]), np.uint64)
    counts = xp.empty(rows, np.int64)
    machine.run(
        *("unique", "unique", rows, 1),
        *(fingerprints.values, offset, np.int32(geometry.row_limit), loose, counts),
        threads=geometry.row_threads,
    )
    for long in long_rows(machine, fingerprints):
        if len(long.rows) == 1:
            long.values.sort()
            values = long.values
        else:
            order = xp.argsort(long.values, kind="stable")
            order = order[xp.argsort(long.row[order], kind="stable")]  # a pass for each byte of the row's number
            values = long.values[order]
        keep = first_of_runs(values) | first_of_runs(long.row)
        put(machine, long, keep, values, offset[:1], loose, counts)
    return packed(machine, loose, offset, counts)


def kept_rows(machine: Machine, values: Array, offset: Array, keep: Array) -> Fingerprints:
    """The flagged `values`, in the rows that `offset` cuts them into."""
    before = machine.exclusive(keep)
    return Fingerprints(values[keep], before[offset - offset[0]])
