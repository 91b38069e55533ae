"""Families of hash functions: a signature holds the minimum of each function over the set, in Python integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpulsh.arrays import Values
from gpulsh.backends.protocol import CIRCULANT_1, CIRCULANT_2
from gpulsh.backends.reference.hashing import MASK, PRIME
from gpulsh.backends.reference.sketches import Minima
from gpulsh.params import Family
from gpulsh.permutations import coefficients, word_pairs, words

Function = Callable[[int, int], int]  # of the function's number and a fingerprint
HALF = (1 << 32) - 1
BYTES = 4
ENTRIES = BYTES * 256  # of a function's table


class Sketch(Minima):
    """The minimum of each of the family's functions."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._function = FUNCTIONS[family.sketch](family)

    def lower(self, least: Values, values: list[int]) -> None:
        for number in range(self._columns):
            least[number] = min(self._function(number, x) for x in values)


def _affine32(family: Family) -> Function:
    """a x + b modulo 2^32, for the upper half x of a fingerprint."""
    multiplier, addend = (drawn.tolist() for drawn in coefficients(family))
    return lambda i, x: (x >> 32) * multiplier[i] + addend[i] & HALF


def _affine61(family: Family) -> Function:
    """a x + b modulo 2^61 - 1, a not 0."""
    drawn = words(family, 2 * family.num_perm)
    return lambda i, x: ((1 + drawn[2 * i] % (PRIME - 1)) * x + drawn[2 * i + 1] % PRIME) % PRIME


def _affine64(family: Family) -> Function:
    """a x + b modulo 2^64."""
    multiplier, addend = (drawn.tolist() for drawn in word_pairs(family))
    return lambda i, x: multiplier[i] * x + addend[i] & MASK


def _c_minhash(family: Family) -> Function:
    """pi(sigma(x) + i), both modulo 2^32: one permutation, shifted, after another that breaks the set's order."""
    multiplier, addend, keys = words(family, 3)

    def permuted(y: int) -> int:
        y &= HALF
        y = (y ^ y >> 16) * CIRCULANT_1 & HALF
        y ^= keys >> 32
        y = (y ^ y >> 15) * CIRCULANT_2 & HALF
        return (y ^ y >> 16) ^ keys & HALF

    return lambda i, x: permuted((((multiplier | 1) * x + addend & MASK) >> 32) + i)


def _multiply_shift(family: Family) -> Function:
    """The upper half of a x + b modulo 2^64."""
    drawn = words(family, 2 * family.num_perm)
    return lambda i, x: ((drawn[2 * i] | 1) * x + drawn[2 * i + 1] & MASK) >> 32


def _tabulation(family: Family) -> Function:
    """The four bytes of a fingerprint's upper half choose four entries of a function's table."""
    table = words(family, ENTRIES * family.num_perm)

    def value(i: int, x: int) -> int:
        found = 0
        for byte in range(BYTES):
            found ^= table[i * ENTRIES + byte * 256 + (x >> 32 + 8 * byte & 0xFF)] >> 32
        return found

    return value


def _wrapped(family: Family) -> Function:
    """The rest of a x + b in a word, modulo a prime, cut to the width of a signature's values."""
    multiplier, addend = (drawn.tolist() for drawn in word_pairs(family))
    wrap, most = family.wrap, int(np.iinfo(family.value_type).max)
    return lambda i, x: (multiplier[i] * x + addend[i]) % (1 << wrap.bits) % wrap.modulus & most


def _xor_masks(family: Family) -> Function:
    """The upper half of a fingerprint, exclusive-or a mask; the first function has none."""
    masks = [0, *(word >> 32 for word in words(family, family.num_perm - 1))]
    return lambda i, x: x >> 32 ^ masks[i]


FUNCTIONS: dict[str, Callable[[Family], Function]] = {  # by `Family.sketch`
    "minhash": _affine32,
    "affine61": _affine61,
    "affine64": _affine64,
    "c_minhash": _c_minhash,
    "multiply_shift": _multiply_shift,
    "tabulation": _tabulation,
    "wrapped": _wrapped,
    "xor_masks": _xor_masks,
}
