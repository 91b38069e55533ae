"""bitmaps and overlap_bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.reference.unique import rows_of

WORDS = 16


def bitmaps(fingerprints: Fingerprints) -> NDArray[np.uint64]:
    rows = [sum(1 << bit for bit in {value >> 54 for value in row.tolist()}) for row in rows_of(fingerprints)]
    words = [[row >> 64 * word & (1 << 64) - 1 for word in range(WORDS)] for row in rows]
    return np.array(words, np.uint64).reshape(len(rows), WORDS)


def overlap_bounds(
    pairs: NDArray[np.int64], bitmaps: NDArray[np.uint64], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    rows = [sum(word << 64 * place for place, word in enumerate(row)) for row in bitmaps.tolist()]
    shared = [size - row.bit_count() for size, row in zip(sizes.tolist(), rows, strict=True)]
    bounds = [(rows[i] & rows[j]).bit_count() + min(shared[i], shared[j]) for i, j in pairs.tolist()]
    return np.array(bounds, np.int64)
