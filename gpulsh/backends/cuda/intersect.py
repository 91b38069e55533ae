"""Pairs of rows. intersect: a warp a pair, the larger row in shared memory; longer rows are spread over blocks.

bitmaps and overlap_bounds: an atomic exclusive-or a fingerprint, then a thread a pair.
"""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import Machine


def intersect(machine: Machine, pairs: Array, fingerprints: Fingerprints) -> tuple[Array, Array]:
    """Extra memory: 16 bytes a pair, the result, and about 60 for a pair with a long row."""
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
    """Intersect pairs, the work of each spread over blocks."""
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


def bitmaps(machine: Machine, fingerprints: Fingerprints, words: int = 16) -> Array:
    geometry, documents = machine.geometry, len(fingerprints)
    bits = machine.arrays.zeros((documents, words), np.uint64)
    total = machine.number(fingerprints.offset[-1] - fingerprints.offset[0])
    machine.run(
        *("bitmaps", "bitmaps", total, geometry.threads * geometry.search_items),
        *(fingerprints.values, fingerprints.offset, np.int64(documents), np.int32(geometry.search_items)),
        *(np.int32(words), bits),
    )
    return bits


def overlap_bounds(machine: Machine, pairs: Array, bitmaps: Array, sizes: Array) -> Array:
    xp, count = machine.arrays, len(pairs)
    bounds = xp.empty(count, np.int64)
    machine.run(
        *("overlap_bounds", "overlap_bounds", count, machine.geometry.threads),
        *(xp.ascontiguousarray(pairs), np.int64(count), xp.ascontiguousarray(bitmaps), np.int32(bitmaps.shape[1])),
        *(xp.ascontiguousarray(sizes), bounds),
    )
    return bounds
