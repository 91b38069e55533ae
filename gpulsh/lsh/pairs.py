"""Pairs of documents as one number each, which sorts and compares faster than two columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.ragged import first_of_runs


def packed(i: NDArray[np.integer], j: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Pairs as i << 32 | j, whose order is the pairs' lexicographic order."""
    return i.astype(np.uint64) << np.uint64(32) | j.astype(np.uint64)


def unpacked(pairs: NDArray[np.uint64]) -> Numbers:
    """int64 [m, 2] of packed pairs [m], of any array library."""
    both = np.empty((len(pairs), 2), np.int64, like=pairs)
    both[:, 0], both[:, 1] = pairs >> np.uint64(32), pairs & np.uint64(0xFFFFFFFF)
    return both


def distinct(pairs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Packed pairs ascending, each once; `numpy.unique` would hash them, where a vector sort serves."""
    pairs = np.sort(pairs)
    return pairs[first_of_runs(pairs)]


def renumbered(pairs: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """The numbers below `count` that occur in `pairs` [m, 2] or [m], ascending, and `pairs` by places among these.

    Flags for all numbers cost a tenth of a sort, unless few of them occur.
    """
    if pairs.size < count // 8:
        every = np.sort(pairs, axis=None)
        places = every[first_of_runs(every)]
        return places, np.searchsorted(places, pairs)
    occurs = np.zeros(count, bool)
    occurs[pairs] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[pairs]
