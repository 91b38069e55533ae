"""Bloom filters of hashes: they tell whether a segment may hold a hash without a look at its columns.

A hash sets four bits of one 64-bit word (Putze, Sanders and Singler 2007, "Cache-, hash- and space-efficient Bloom
filters", blocked with the smallest block). The word goes by the hash's upper half, so that hashes that ascend are
looked up in ascending words, the bits by its lower half. About one absent hash in four hundred passes. An index has
many segments of about one size: the lengths of filters are rounded, so that a hash has one word in all of those.

In a filter of several segments `together` a hash has other bits: what passes it by chance would pass the filters of the
segments with the same, for they have the same neighbours in a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import GOLDEN
from gpulsh.ragged import run_bounds

BITS = 20  # of a filter, a hash; before they were 12, which is read as well
LENGTH_BITS = 4  # of the length of a filter; those below are 0
HASHES_AT_ONCE = 1 << 16  # put into a filter at once; of more the steps between do not stay in the caches
SET_BITS = 4  # of a word, by a hash; 6 bits of the hash choose each

Words = NDArray[np.uint64]


class Sought:
    """`values` uint64 [m], ascending hashes that are looked for in several segments."""

    def __init__(self, values: NDArray[np.uint64]) -> None:
        self.values = values
        self._words: dict[int, Numbers] = {}  # by the number of words
        self._bits: dict[bool, NDArray[np.uint64]] = {}

    @cached_property
    def upper(self) -> NDArray[np.uint64]:
        """The half of each that tells its word in every filter."""
        return self.values >> np.uint64(32)

    def bits(self, *, together: bool = False) -> NDArray[np.uint64]:
        """Those that each sets there."""
        if together not in self._bits:
            chosen = (self.values * np.uint64(GOLDEN)) >> np.uint64(32) if together else self.values
            bits = np.zeros(len(self.values), np.uint64)
            for number in range(SET_BITS):
                place = chosen >> np.uint64(6 * number)
                place &= np.uint64(63)
                bits |= np.left_shift(np.uint64(1), place, out=place)
            self._bits[together] = bits
        return self._bits[together]

    def __len__(self) -> int:
        return len(self.values)

    def words(self, count: int) -> Numbers:
        """int64 [m]: the word of each in a filter of `count` words, ascending."""
        if count not in self._words:
            words = self.upper * np.uint64(count)
            words >>= np.uint64(32)
            self._words[count] = words.view(np.int64)
        return self._words[count]

    def places_in(self, words: Words, *, together: bool = False) -> Numbers:
        """The places of those that may be in the filter; all that are, and few others."""
        if len(words) == 0:
            return np.empty(0, np.int64)
        bits = self.bits(together=together)
        return np.flatnonzero((words[self.words(len(words))] & bits) == bits)

    def places_in_own(self, filters: Sequence[Words], which: Numbers, *, together: bool = False) -> Numbers:
        """The same where each is looked for in a filter of its own, number `which` [m], which ascend."""
        found = np.zeros(len(self), np.uint64)
        for start, stop in run_bounds(which):
            words = filters[which[start]]
            if len(words):  # "clip", for no place is beyond, and "raise" would copy
                words.take(self.words(len(words))[start:stop], out=found[start:stop], mode="clip")
        bits = self.bits(together=together)
        found &= bits
        return np.flatnonzero(found == bits)


def make_filter(hashes: NDArray[np.uint64]) -> Words:
    """uint64 [words]: the filter of ascending hashes, without a word where there are none."""
    return filter_of([hashes])


def filter_of(parts: Sequence[NDArray[np.uint64]], *, together: bool = False) -> Words:
    """The filter of all hashes of several, each of which ascends."""
    words = np.zeros(_length(sum(map(len, parts))), np.uint64)
    for hashes in parts:
        for start in range(0, len(hashes), HASHES_AT_ONCE):
            sought = Sought(hashes[start : start + HASHES_AT_ONCE])
            owner = sought.words(len(words))
            first = np.flatnonzero(np.diff(owner, prepend=-1))
            words[owner[first]] |= np.bitwise_or.reduceat(sought.bits(together=together), first)
    return words


def _length(hashes: int) -> int:
    """How many words the filter of so many hashes has."""
    least = -(-hashes * BITS // 64)
    shift = max(least.bit_length() - LENGTH_BITS, 0)
    return min(-(-least >> shift) << shift, 1 << 32)
