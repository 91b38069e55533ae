"""Pairs of documents as one number each, which sorts and compares faster than two columns.

How counts become a similarity, in one place: what is compared with a threshold is the same float64 everywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers
from gpulsh.ragged import first_of_runs

FLAGS = 64  # bytes a pair up to which flags take less time than a sort


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


def distinct_of(i: NDArray[np.integer], j: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Pairs packed, ascending, each once; i and j are at least 0. Flags for all that can be spare a sort of many."""
    columns = int(j.max(initial=0)) + 1
    flags = (int(i.max(initial=0)) + 1) * columns
    if flags > FLAGS * len(i):
        return distinct(packed(i, j))
    occurs = np.zeros(flags, bool)
    occurs[i.astype(np.int64) * columns + j] = True
    return packed(*np.divmod(np.flatnonzero(occurs), columns))


def chosen_pairs(pairs: Numbers, which: Numbers | NDArray[np.bool_]) -> Numbers:
    """Those of `pairs` [m, 2] that are marked (bool [m]) or listed (int64), in a tenth of the time of an index."""
    return pairs.compress(which, axis=0) if which.dtype == bool else pairs.take(which, axis=0)


def order_of(numbers: Numbers, below: int) -> Numbers:
    """The stable order of numbers below `below`; small ones are sorted by their digits, in a tenth of the time."""
    return np.argsort(numbers.astype(np.uint16) if below <= 1 << 16 else numbers, kind="stable")


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


def share(part: Array, whole: Array) -> Array:
    """float64 [m]: how much of `whole` [m] the `part` [m] is, integers of NumPy or CuPy; 0 of nothing.

    Rounding is monotone: of counts that bound others the share bounds theirs.
    """
    return part.astype(np.float64) / np.maximum(whole, 1).astype(np.float64)
