"""Bloom filters of hashes: they show whether a segment may hold a hash without reading its columns.

A hash sets four bits of one 64-bit word (Putze, Sanders and Singler 2007, "Cache-, hash- and space-efficient Bloom
filters", blocked with the smallest block). Its upper half chooses the word, so that ascending hashes are looked up in
ascending words; its lower half chooses the bits. About one absent hash in four hundred passes.

In a filter of several segments `together`, a hash sets four bits in each of two words of a block of eight. The hash
times an odd number chooses them. So one absent hash in twenty thousand passes. The segments' own filters use
other bits, and can still exclude it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.ragged import run_bounds

HASH_BITS = 20  # per hash; filters written with 12 are read as well
GROUP_HASH_BITS = 28  # per hash of several segments: a hash that passes is looked up in each of them
COMPACT_HASH_BITS = 16  # the same where segments have no filters of their own, for few bytes per document
BLOCK_WORDS = 8  # words; a hash sets bits in two of them in a filter of several segments
LENGTH_BITS = 4  # significant bits of a filter's length; the lower ones are 0

Words = NDArray[np.uint64]


def find_members(words: Words, values: NDArray[np.uint64], *, together: bool = False) -> Numbers:
    """The places of those `values` [m], best ascending, that may be in the filter: all that are, and few others."""
    return find_members_by_filter([words], np.zeros(len(values), np.int64), values, together=together)


def find_members_by_filter(
    filters: Sequence[Words], which: Numbers, values: NDArray[np.uint64], *, together: bool = False
) -> Numbers:
    """`find_members` where each value has a filter of its own: the one of its number in `which` [m], ascending."""
    from gpulsh.backends.cpu.hashes import passing_places

    places, found = np.empty(len(values), np.int64), 0
    for start, stop in run_bounds(which) if len(which) else ():
        if len(words := filters[int(which[start])]):
            found += passing_places(words, values, start, stop, together, places[found:])
    return places[:found]


def bloom_filter(parts: Sequence[NDArray[np.uint64]], *, together: bool = False, bits: int | None = None) -> Words:
    """uint64 [words]: the filter of the hashes of all parts, best ascending, `bits` for each; empty without hashes."""
    from gpulsh.backends.cpu.hashes import fill

    least = -(-sum(map(len, parts)) * (bits or (GROUP_HASH_BITS if together else HASH_BITS)) // 64)
    shift = max(least.bit_length() - LENGTH_BITS, 0)
    length = min(-(-least >> shift) << shift, 1 << 32)
    if together:
        length = -(-length // BLOCK_WORDS) * BLOCK_WORDS
    words = np.zeros(length, np.uint64)
    for hashes in parts:
        fill(words, hashes, together)
    return words
