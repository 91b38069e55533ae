"""Which pairs could reach the threshold, as their sizes and bitmaps tell it, before fingerprints are compared.

Where many documents have much in common, but none enough, pairs are many and no index of shingles makes them fewer:
only the cost of each can fall. A bitmap is a tenth of a document's fingerprints or less, is compared in a few
instructions, and rules out all but those near the threshold; it never rules out one at or above it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.lsh.share import share

PAIRS_AT_ONCE = 1 << 18
FEWEST_WORDS, MOST_WORDS = 16, 256
BITMAP_BYTES = 32 << 20  # of all documents that are compared with one another, unless they are very many


def words_for(sizes: Numbers, documents: int, threshold: float) -> int:
    """Words of a bitmap, a power of two, for `documents` like those of `sizes` [n] fingerprints.

    Sets of n that are just similar enough differ in 2 n (1 - t) / (1 + t): with four times as many bits most of what
    differs more is told from them.
    """
    apart = 2 * float(sizes.mean()) * (1 - threshold) / (1 + threshold) if len(sizes) else 0.0
    words = FEWEST_WORDS
    while words < MOST_WORDS and words * 64 < 4 * apart and documents * words * 16 <= BITMAP_BYTES:
        words *= 2
    return words


def bounds_allow(pairs: Numbers, bitmaps: Array, sizes: Array, threshold: float, ops: Backend) -> NDArray[np.bool_]:
    """bool [m]: whether rows `pairs` [m, 2] of `bitmaps` [n, words], of documents of `sizes` [n], may be similar."""
    allowed = np.empty(len(pairs), bool)
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        some = ops.asarray(pairs[start : start + PAIRS_AT_ONCE])
        bound = ops.overlap_bounds(some, bitmaps, sizes)
        either = sizes[some[:, 0]] + sizes[some[:, 1]] - bound
        allowed[start : start + PAIRS_AT_ONCE] = ops.asnumpy(share(bound, either) >= threshold)
    return allowed


def sizes_allow(left: Numbers, right: Numbers, threshold: float) -> NDArray[np.bool_]:
    """bool [m]: whether sets of these sizes can reach `threshold`, since J <= smaller / larger, rounding included."""
    smaller, larger = np.minimum(left, right), np.maximum(left, right)
    allowed: NDArray[np.bool_] = share(smaller, larger) >= threshold
    return allowed
