"""Pairs of rows: intersect and overlaps by Python sets; bitmaps and overlap_bounds by Python integers."""

from __future__ import annotations

from functools import reduce
from operator import xor

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.reference.unique import rows_of


def intersect(pairs: NDArray[np.int64], fingerprints: Fingerprints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    sets = [set(row.tolist()) for row in rows_of(fingerprints)]
    both = [len(sets[i] & sets[j]) for i, j in pairs.tolist()]
    either = [len(sets[i] | sets[j]) for i, j in pairs.tolist()]
    return np.array(both, np.int64), np.array(either, np.int64)


def overlaps(fingerprints: Fingerprints, known: Fingerprints) -> NDArray[np.int64]:
    """int64 [n, k]: how many values each row has in common with each known one."""
    sets, others = ([set(row.tolist()) for row in rows_of(rows)] for rows in (fingerprints, known))
    return np.array([[len(one & other) for other in others] for one in sets], np.int64).reshape(len(sets), len(others))


def bitmaps(fingerprints: Fingerprints, words: int = 16) -> NDArray[np.uint64]:
    shift = 64 - (64 * words).bit_length() + 1
    rows = [reduce(xor, (1 << (value >> shift) for value in row.tolist()), 0) for row in rows_of(fingerprints)]
    split = [[row >> 64 * word & (1 << 64) - 1 for word in range(words)] for row in rows]
    return np.array(split, np.uint64).reshape(len(rows), words)


def overlap_bounds(
    pairs: NDArray[np.int64], bitmaps: NDArray[np.uint64], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    rows = [sum(word << 64 * place for place, word in enumerate(row)) for row in bitmaps.tolist()]
    size = sizes.tolist()
    bounds = [
        min(size[i], size[j], (size[i] + size[j] - (rows[i] ^ rows[j]).bit_count()) // 2) for i, j in pairs.tolist()
    ]
    return np.array(bounds, np.int64)
