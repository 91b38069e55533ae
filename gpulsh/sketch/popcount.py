"""Ones in 64-bit words, on NumPy and CuPy arrays alike."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array

_ODD, _PAIRS, _NIBBLES = (np.uint64(0x0101010101010101 * byte) for byte in (0x55, 0x33, 0x0F))
_BYTES = np.uint64(0x0101010101010101)
_1, _2, _4, _56 = (np.uint64(shift) for shift in (1, 2, 4, 56))


def popcount(words: Array) -> Array:
    """How many bits are set: uint64 of any shape; halves are added in place, the bytes by one product."""
    sums = words - (words >> _1 & _ODD)
    sums = (sums & _PAIRS) + (sums >> _2 & _PAIRS)
    return (sums + (sums >> _4) & _NIBBLES) * _BYTES >> _56
