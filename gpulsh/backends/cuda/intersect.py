"""intersect."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import Machine


def intersect(machine: Machine, pairs: Array, fingerprints: Fingerprints) -> tuple[Array, Array]:
    xp, geometry = machine.arrays, machine.geometry
    count = len(pairs)
    both = xp.zeros(count, np.uint64)
    if count == 0:
        return both.astype(np.int64), both.astype(np.int64)
    sizes = xp.diff(fingerprints.offset)
    left, right = sizes[pairs[:, 0]], sizes[pairs[:, 1]]
    ends = xp.cumsum(xp.minimum(left, right))
    total = int(ends[-1])
    machine.run(
        *("intersect", "intersect", total, geometry.threads * geometry.search_items),
        *(fingerprints.values, fingerprints.offset, xp.ascontiguousarray(pairs), np.int64(count)),
        *(ends, np.int64(total), np.int32(geometry.search_items), both),
    )
    sames = both.astype(np.int64)
    return sames, left + right - sames
