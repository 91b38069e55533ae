"""Bloom filters of hashes: they tell whether a segment may hold a hash without a look at its columns.

A hash sets four bits of one 64-bit word (Putze, Sanders and Singler 2007, "Cache-, hash- and space-efficient Bloom
filters", blocked with the smallest block). The word goes by the hash's upper half, so that hashes that ascend are
looked up in ascending words, the bits by its lower half. About one absent hash in four hundred passes.

In a filter of several segments `together` a hash has four bits in each of two words of a block of eight, chosen by the
hash times an odd number. So one absent hash in twenty thousand passes, and what does so by chance does not pass the
filters of the segments with the same bits, for it would have the same neighbours in a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers

BITS = 20  # of a filter, a hash; before they were 12, which is read as well
TOGETHER_BITS = 28  # the same of several segments: whoever passes is looked for in each of them
BLOCK = 8  # words, of which a hash has two in a filter of several segments
LENGTH_BITS = 4  # of the length of a filter; those below are 0, as they always were

Words = NDArray[np.uint64]


def passing(words: Words, values: NDArray[np.uint64], *, together: bool = False) -> Numbers:
    """The places of those of `values` [m] that may be in the filter; all that are, and few others.

    Values that ascend take less time.
    """
    return _passing([(words, 0, len(values))], values, together)


def passing_own(
    filters: Sequence[Words], which: Numbers, values: NDArray[np.uint64], *, together: bool = False
) -> Numbers:
    """The same where each is looked for in a filter of its own, number `which` [m], which ascend."""
    if len(which) == 0:
        return which
    first, last = int(which[0]), int(which[-1])
    bounds = pairwise(which.searchsorted(np.arange(first, last + 2)).tolist())
    return _passing([(filters[first + number], *bound) for number, bound in enumerate(bounds)], values, together)


def _passing(runs: Sequence[tuple[Words, int, int]], values: NDArray[np.uint64], together: bool) -> Numbers:
    """Each run of `values` is asked about by its filter."""
    from gpulsh.backends.cpu.bloom import passing

    places, found = np.empty(len(values), np.int64), 0
    for words, start, stop in runs:
        if len(words):
            found += passing(words, values, start, stop, together, places[found:])
    return places[:found]


def make_filter(hashes: NDArray[np.uint64]) -> Words:
    """uint64 [words]: the filter of hashes, without a word where there are none."""
    return filter_of([hashes])


def filter_of(parts: Sequence[NDArray[np.uint64]], *, together: bool = False) -> Words:
    """The filter of all hashes of several; it is made in less time where each ascends."""
    from gpulsh.backends.cpu.bloom import fill

    count = sum(map(len, parts))
    length = -(-_length(count, TOGETHER_BITS) // BLOCK) * BLOCK if together else _length(count, BITS)
    words = np.zeros(length, np.uint64)
    for hashes in parts:
        fill(words, hashes, together)
    return words


def _length(hashes: int, bits: int) -> int:
    """How many words the filter of so many hashes has, of so many bits each."""
    least = -(-hashes * bits // 64)
    shift = max(least.bit_length() - LENGTH_BITS, 0)
    return min(-(-least >> shift) << shift, 1 << 32)
