"""Bloom filters of hashes, filled and queried in one pass; `gpulsh.index.filters` describes their contents."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cpu.kernel import kernel, subroutine
from gpulsh.backends.cpu.vectors import get, prefetch, put
from gpulsh.backends.protocol import GOLDEN

AHEAD = 64  # hashes whose words are prefetched

_U = np.uint64
_GOLDEN, _NONE, _ONE, _LOW, _HALF, _EVEN = _U(GOLDEN), _U(0), _U(1), _U(63), _U(32), _U(6)
_S3, _S6, _S12, _S13, _S16, _S18, _S40 = _U(3), _U(6), _U(12), _U(13), _U(16), _U(18), _U(40)


@subroutine
def _word(value, words):
    """The number of the word of a hash, in a filter of so many."""
    return (value >> _HALF) * words >> _HALF


@subroutine
def _four(chosen):
    """A word in which four bits are set, each chosen by six."""
    low = _ONE << (chosen & _LOW) | _ONE << (chosen >> _S6 & _LOW)
    return low | _ONE << (chosen >> _S12 & _LOW) | _ONE << (chosen >> _S18 & _LOW)


@subroutine
def _marks(value, word, together):
    """The bits that a hash sets in its word, the number of its other word, and the bits there."""
    if not together:
        return _four(value), word, _NONE
    chosen = value * _GOLDEN
    return _four(chosen >> _S16), word ^ (chosen >> _S13 & _EVEN | _ONE), _four(chosen >> _S40)


@kernel
def fill(words, values, together):
    """Put the hashes `values` into the filter `words`, which is not empty."""
    length = _U(words.size)
    for value in values:
        word = _word(value, length)
        own, other, there = _marks(value, word, together)
        words[word] |= own
        words[other] |= there


@kernel
def passing(words, values, start, stop, together, places):
    """The places of `values[start:stop]` that pass the filter `words`, which is not empty; how many they are."""
    length, count, last = _U(words.size), 0, values.ctypes.data + 8 * (stop - 1)
    base, out = words.ctypes.data, places.ctypes.data
    for place in range(start, stop):
        at = values.ctypes.data + 8 * place
        prefetch(base + np.int64(_word(get(min(at + 8 * AHEAD, last)), length) << _S3))
        value = get(at)
        word = _word(value, length)
        own, other, there = _marks(value, word, together)
        missing = own & ~get(base + np.int64(word << _S3)) | there & ~get(base + np.int64(other << _S3))
        put(out + 8 * count, _U(place))
        count += missing == _NONE
    return count
