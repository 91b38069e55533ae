"""Families of hash functions: a signature holds the minimum of each function over the set.

The inner loop is over the functions, and the compiler makes it vectors. `affine32`, the default, is in `minhash`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches import Minima
from gpulsh.params import Family
from gpulsh.permutations import word_array, word_pairs, words

Tables = Sequence[Values | np.generic]

_U, _U32 = np.uint64, np.uint32
_ONE = _U(1)
_PRIME = _U((1 << 61) - 1)
_S3, _S29, _S32, _S40, _S48, _S56, _S61 = map(_U, (3, 29, 32, 40, 48, 56, 61))
_BYTE, _LOWER, _LOWEST_29 = _U(0xFF), _U(0xFFFFFFFF), _U((1 << 29) - 1)
_S15, _S16 = _U32(15), _U32(16)
_CIRCULANT_1, _CIRCULANT_2 = _U32(protocol.CIRCULANT_1), _U32(protocol.CIRCULANT_2)


class Sketch(Minima):
    """The minima, by the family's kernel and its tables of random words."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._kernel, tables = FUNCTIONS[family.sketch]
        self._tables = tables(family)

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


def _affine61_tables(family: Family) -> Tables:
    """a x + b modulo 2^61 - 1, a not 0."""
    drawn = word_array(family, 2 * family.num_perm).reshape(-1, 2)
    return drawn[:, 0] % (_PRIME - _ONE) + _ONE, drawn[:, 1] % _PRIME


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


def _c_minhash_tables(family: Family) -> Tables:
    """pi(sigma(x) + i), both modulo 2^32."""
    multiplier, addend, keys = words(family, 3)
    return _U(multiplier | 1), _U(addend), _U32(keys >> 32), _U32(keys & 0xFFFFFFFF)


@kernel
def _multiply_shift(values, offset, multiplier, addend, minima):
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = values[i]
            for f in range(least.size):
                least[f] = min(least[f], _U32((multiplier[f] * x + addend[f]) >> _S32))


def _multiply_shift_tables(family: Family) -> Tables:
    """The upper half of a x + b modulo 2^64."""
    drawn = word_array(family, 2 * family.num_perm).reshape(-1, 2)
    return drawn[:, 0] | _ONE, drawn[:, 1].copy()


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


def _tabulation_tables(family: Family) -> Tables:
    """The four bytes of a fingerprint's upper half choose four entries of a function's table."""
    drawn = (word_array(family, 1024 * family.num_perm) >> _S32).astype(_U32)
    return (drawn.reshape(-1, 4, 256).transpose(1, 2, 0).copy(),)


@kernel
def _wrapped(values, offset, multiplier, addend, word, low, shift, prime, cut, minima):
    """`word` and `cut` mask the bits kept before and after, `low` those below `shift`, the prime's length.

    Division by a prime just below a power of two is an addition and a subtraction, because quotients are small. For
    64-bit words and 2^61 - 1, the upper 3 bits are added to the lower 61; for the other two primes no bits are above.
    Either way the sum is below twice the prime.
    """
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = values[i]
            for f in range(least.size):
                value = (multiplier[f] * x + addend[f]) & word
                value = (value & low) + (value >> shift)
                value = (value - prime if value >= prime else value) & cut
                least[f] = min(_U(least[f]), value)


def _wrapped_tables(family: Family) -> Tables:
    """The rest of a x + b in a word, modulo a prime, cut to the width of a signature's values."""
    wrap, shift = family.wrap, family.wrap.modulus.bit_length()
    numbers = (1 << wrap.bits) - 1, (1 << shift) - 1, shift, wrap.modulus, np.iinfo(family.value_type).max
    return *word_pairs(family), *map(_U, numbers)


@kernel
def _xor_masks(values, offset, masks, minima):
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = _U32(values[i] >> _S32)
            for f in range(least.size):
                least[f] = min(least[f], x ^ masks[f])


def _xor_masks_tables(family: Family) -> Tables:
    """The upper half of a fingerprint, exclusive-or a mask; the first function has none."""
    drawn = (word_array(family, family.num_perm - 1) >> _S32).astype(_U32)
    return (np.concatenate([np.zeros(1, _U32), drawn]),)


# The kernel and its tables, by `Family.sketch`.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[Family], Tables]]] = {
    "affine61": (_affine61, _affine61_tables),
    "affine64": (_affine64, word_pairs),
    "c_minhash": (_c_minhash, _c_minhash_tables),
    "multiply_shift": (_multiply_shift, _multiply_shift_tables),
    "tabulation": (_tabulation, _tabulation_tables),
    "wrapped": (_wrapped, _wrapped_tables),
    "xor_masks": (_xor_masks, _xor_masks_tables),
}
