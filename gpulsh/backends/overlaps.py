"""What sets have in common with a few others, for arrays of NumPy or CuPy; the reference has a way of its own."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.protocol import Backend
from gpulsh.ragged import end_to_end


def overlaps_with(known: Fingerprints, sets: Fingerprints, ops: Backend) -> Array:
    """int64 [n, k]: the sizes of the intersections of `sets` [n] with those `known` [k]."""
    count, others = len(sets), len(known)
    rows = np.arange(count * others, dtype=np.int64, like=sets.offset)
    pairs = np.stack([rows % max(others, 1), rows // max(others, 1) + others], axis=1)
    return ops.intersect(pairs, end_to_end([known, sets]))[0].reshape(count, others)
