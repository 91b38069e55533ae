"""bitmaps and overlap_bounds: an atomic exclusive-or a fingerprint, a thread a pair."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import Machine


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
