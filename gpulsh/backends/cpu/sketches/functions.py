"""Families of hash functions: a signature holds the minimum of each function over the set.

The inner loop is over the functions, and the compiler makes it vectors. `affine32`, the default, is in `minhash`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches import Minima
from gpulsh.backends.hashing import function_tables
from gpulsh.params import Family

_U, _U32 = np.uint64, np.uint32
_ONE = _U(1)
_PRIME = _U((1 << 61) - 1)
_S3, _S29, _S32, _S40, _S48, _S56, _S61 = map(_U, (3, 29, 32, 40, 48, 56, 61))
_BYTE, _LOWER, _LOWEST_29 = _U(0xFF), _U(0xFFFFFFFF), _U((1 << 29) - 1)
_S15, _S16 = _U32(15), _U32(16)
_CIRCULANT_1, _CIRCULANT_2 = _U32(protocol.CIRCULANT_1), _U32(protocol.CIRCULANT_2)


class FunctionMinima(Minima):
    """The minima, by the family's kernel and its tables of random words."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._kernel, self._tables = KERNELS[family.sketch], function_tables(family)

    def fold_into(self, fingerprints: Fingerprints, minima: Values) -> None:
        minima.fill(np.iinfo(self.dtype).max)
        self._kernel(fingerprints.values, fingerprints.offset, *self._tables, minima)


@kernel
def _affine61(values, offset, multiplier, addend, minima):
    """122-bit products from products of halves, reduced by shifts: 2^61 is 1 modulo the prime."""
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = (values[i] & _PRIME) + (values[i] >> _S61)  # at most 7 beyond the prime
            upper, lower = x >> _S32, x & _LOWER  # 30 and 32 bits
            for f in range(least.size):
                a, b = multiplier[f] >> _S32, multiplier[f] & _LOWER
                middle = a * lower + b * upper  # below 2^62 + 2^62; times 2^32, and 2^61 is 1
                value = ((a * upper) << _S3) + (middle >> _S29) + ((middle & _LOWEST_29) << _S32)
                value = (value & _PRIME) + (value >> _S61) + addend[f]
                product = b * lower
                value += (product & _PRIME) + (product >> _S61)
                value = (value & _PRIME) + (value >> _S61)
                least[f] = min(least[f], value - _PRIME if value >= _PRIME else value)


@kernel
def _affine64(values, offset, multiplier, addend, minima):
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = values[i]
            for f in range(least.size):
                least[f] = min(least[f], multiplier[f] * x + addend[f])


@kernel
def _c_minhash(values, offset, multiplier, addend, inner, outer, minima):
    """Two permutations instead of one a value; it costs more arithmetic than `affine32`, and no tables."""
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            place = _U32((multiplier * values[i] + addend) >> _S32)
            for f in range(least.size):
                y = _U32(place + _U32(f))
                y = _U32(_U32(y ^ y >> _S16) * _CIRCULANT_1) ^ inner
                y = _U32(_U32(y ^ y >> _S15) * _CIRCULANT_2)
                least[f] = min(least[f], y ^ y >> _S16 ^ outer)


@kernel
def _multiply_shift(values, offset, multiplier, addend, minima):
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = values[i]
            for f in range(least.size):
                least[f] = min(least[f], _U32((multiplier[f] * x + addend[f]) >> _S32))


@kernel
def _tabulation(values, offset, tables, minima):
    """`tables` uint32 [4, 256, functions]: the entries of neighbouring functions for a byte are side by side."""
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = values[i]
            first, second = tables[0, x >> _S32 & _BYTE], tables[1, x >> _S40 & _BYTE]
            third, fourth = tables[2, x >> _S48 & _BYTE], tables[3, x >> _S56]
            for f in range(least.size):
                least[f] = min(least[f], first[f] ^ second[f] ^ third[f] ^ fourth[f])


@kernel
def _wrapped(values, offset, multiplier, addend, word, prime, length, minima):
    """`word` masks the bits kept before the division, `cut` those after it; the prime has `length` bits.

    Division by a prime just below a power of two is an addition and a subtraction, because quotients are small. For
    64-bit words and 2^61 - 1, the upper 3 bits are added to the lower 61; for the other two primes no bits are above.
    Either way the sum is below twice the prime.
    """
    shift, cut = _U(length), ~_U(0) >> _U(64 - 8 * minima.itemsize)
    low = (_ONE << shift) - _ONE
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = values[i]
            for f in range(least.size):
                value = (multiplier[f] * x + addend[f]) & word
                value = (value & low) + (value >> shift)
                value = (value - prime if value >= prime else value) & cut
                least[f] = min(_U(least[f]), value)


@kernel
def _xor_masks(values, offset, masks, minima):
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = _U32(values[i] >> _S32)
            for f in range(least.size):
                least[f] = min(least[f], x ^ masks[f])


KERNELS: dict[str, Callable[..., Any]] = {  # by `Family.sketch`
    "affine61": _affine61,
    "affine64": _affine64,
    "c_minhash": _c_minhash,
    "multiply_shift": _multiply_shift,
    "tabulation": _tabulation,
    "wrapped": _wrapped,
    "xor_masks": _xor_masks,
}
SKETCHES: dict[str, Callable[[Family], Minima]] = dict.fromkeys(KERNELS, FunctionMinima)
