"""intersect: a warp a pair, the larger row in shared memory; rows too long for that are spread over blocks."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import Machine


def intersect(machine: Machine, pairs: Array, fingerprints: Fingerprints) -> tuple[Array, Array]:
    """Memory beside the arguments: 16 bytes a pair, the result, and about 60 for a pair with a long row."""
    xp, geometry = machine.arrays, machine.geometry
    pairs = xp.ascontiguousarray(pairs)
    count = len(pairs)
    both, either = xp.empty(count, np.int64), xp.empty(count, np.int64)
    if count == 0:
        return both, either
    machine.run(
        *("intersect", "intersect_rows", count, geometry.row_threads // 32),
        *(fingerprints.values, fingerprints.offset, pairs, np.int64(count), np.int64(geometry.row_limit)),
        *(both, either),
        threads=geometry.row_threads,
    )
    sizes = xp.diff(fingerprints.offset)
    if machine.number(sizes.max()) > geometry.row_limit:
        is_long = sizes > geometry.row_limit
        long = xp.flatnonzero(is_long[pairs[:, 0]] | is_long[pairs[:, 1]])
        both[long], either[long] = _spread(machine, pairs[long], sizes, fingerprints)
    return both, either


def _spread(machine: Machine, pairs: Array, sizes: Array, fingerprints: Fingerprints) -> tuple[Array, Array]:
    """Intersect pairs of which each one's work is spread over blocks."""
    xp, geometry = machine.arrays, machine.geometry
    count = len(pairs)
    both = xp.zeros(count, np.uint64)
    left, right = sizes[pairs[:, 0]], sizes[pairs[:, 1]]
    ends = xp.cumsum(xp.minimum(left, right))
    total = machine.number(ends[-1]) if count else 0
    machine.run(
        *("intersect", "intersect_spread", total, geometry.threads * geometry.search_items),
        *(fingerprints.values, fingerprints.offset, pairs, np.int64(count)),
        *(ends, np.int64(total), np.int32(geometry.search_items), both),
    )
    sames = both.view(np.int64)
    return sames, left + right - sames
