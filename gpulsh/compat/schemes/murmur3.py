"""MurmurHash3 (Appleby 2011) of many pieces of one text at once, those of one length together, in NumPy."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Word = TypeVar("Word", np.uint32, np.uint64)
_PADDING = 16


def murmur3(
    text: NDArray[np.uint8], begin: NDArray[np.int64], length: NDArray[np.int64], seed: int, bits: int
) -> NDArray[np.uint64]:
    """uint64 [m]: of each text[begin : begin + length], by the variant x86_32 or the first half of x64_128.

    >>> hello = np.frombuffer(b"hello", np.uint8)
    >>> murmur3(hello, np.array([0]), np.array([5]), seed=0, bits=32).tolist()
    [613153351]
    """
    padded = np.concatenate((text, np.zeros(_PADDING, np.uint8)))
    found = np.empty(len(begin), np.uint64)
    for size in np.unique(length):
        which = np.flatnonzero(length == size)
        found[which] = (_x86_32 if bits == 32 else _x64_128)(padded, begin[which], int(size), seed)
    return found


def _words(padded: NDArray[np.uint8], kind: type[Word], begin: NDArray[np.int64], size: int) -> NDArray[Word]:
    """The words at `begin`, of which `size` bytes are of the text, if they are fewer than a word has."""
    dtype = np.dtype(kind)
    at_any_byte: NDArray[Word] = np.ndarray((len(padded) - 7,), dtype.newbyteorder("<"), padded, 0, (1,))
    words = at_any_byte[begin].astype(kind)
    return words if size >= dtype.itemsize else words & kind((1 << 8 * max(size, 0)) - 1)


def _rotated(words: NDArray[Word], left: int) -> NDArray[Word]:
    kind = words.dtype.type
    return words << kind(left) | words >> kind(8 * words.itemsize - left)


def _x86_32(padded: NDArray[np.uint8], begin: NDArray[np.int64], size: int, seed: int) -> NDArray[np.uint32]:
    u = np.uint32
    hashed = np.full(len(begin), seed, u)
    for at in range(0, size, 4):
        piece = _rotated(_words(padded, u, begin + at, size - at) * u(0xCC9E2D51), 15) * u(0x1B873593)
        hashed ^= piece
        if at + 4 <= size:
            hashed = _rotated(hashed, 13) * u(5) + u(0xE6546B64)
    hashed ^= u(size)
    hashed = (hashed ^ hashed >> u(16)) * u(0x85EBCA6B)
    hashed = (hashed ^ hashed >> u(13)) * u(0xC2B2AE35)
    return hashed ^ hashed >> u(16)


def _x64_128(padded: NDArray[np.uint8], begin: NDArray[np.int64], size: int, seed: int) -> NDArray[np.uint64]:
    u, one, two = np.uint64, np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
    first, second = np.full(len(begin), seed, u), np.full(len(begin), seed, u)
    for at in range(0, size, 16):
        left = size - at
        first ^= _rotated(_words(padded, u, begin + at, left) * one, 31) * two
        if left >= 16:
            first = (_rotated(first, 27) + second) * u(5) + u(0x52DCE729)
        second ^= _rotated(_words(padded, u, begin + at + 8, left - 8) * two, 33) * one
        if left >= 16:
            second = (_rotated(second, 31) + first) * u(5) + u(0x38495AB5)
    first, second = first ^ u(size), second ^ u(size)
    first += second
    second += first
    first, second = _finished(first), _finished(second)
    return first + second


def _finished(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    u = np.uint64
    words = (words ^ words >> u(33)) * u(0xFF51AFD7ED558CCD)
    words = (words ^ words >> u(33)) * u(0xC4CEB9FE1A85EC53)
    return words ^ words >> u(33)
