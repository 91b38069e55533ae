"""Set sketches of a fingerprint and a bin, or a function, at a time, in Python integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import xor

import numpy as np

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends import protocol
from gpulsh.backends.protocol import GOLDEN, NO_DIGEST, NO_VALUE, ROUND_SHIFT, THROWS, VALUE_BITS, SketchFold
from gpulsh.backends.reference.hashing import MASK, PRIME, mix64
from gpulsh.backends.reference.rows import rows_of
from gpulsh.params import Family
from gpulsh.permutations import coefficients, splitmix64, word_pairs, words

HALF = (1 << 32) - 1
ROUNDS = 64  # times as many probes as there are bins; then the next bin that has a value
LOWER = (1 << ROUND_SHIFT) - 1


def sketch_of(family: Family) -> SketchFold:
    """The sketch of a family."""
    return SKETCHES.get(family.sketch, FunctionMinima)(family)


class Minima:
    """A minimum per column: states merge by the lesser value, and all ones mean no value."""

    def __init__(self, family: Family) -> None:
        self._columns, self._type = family.num_perm, np.dtype(family.value_type)

    def empty(self, rows: int) -> Values:
        return np.full((rows, self._columns), np.iinfo(self._type).max, self._type)

    def fold(self, fingerprints: Fingerprints) -> Values:
        minima = self.empty(len(fingerprints))
        for row, least in zip(rows_of(fingerprints), minima, strict=True):
            if len(row):
                self.lower(least, row.tolist())
        return minima

    def lower(self, least: Values, values: list[int]) -> None:
        """Lower the minima of a set that is not empty by its values."""
        raise NotImplementedError

    def merge(self, state: Values, other: Values) -> Values:
        return np.minimum(state, other)

    def finish(self, state: Values) -> Values:
        return state


class FunctionMinima(Minima):
    """The minimum of each of the family's functions over the set."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._function = function_of(family)

    def lower(self, least: Values, values: list[int]) -> None:
        for number in range(self._columns):
            least[number] = min(self._function(number, x) for x in values)


def function_of(family: Family) -> Callable[[int, int], int]:
    """The value of function number i of the family for a fingerprint."""
    sketch, count = family.sketch, family.num_perm
    if sketch == "c_minhash":
        multiplier, addend, keys = words(family, 3)
        return lambda i, x: permuted((((multiplier | 1) * x + addend & MASK) >> 32) + i, keys)
    if sketch == "tabulation":
        table = [word >> 32 for word in words(family, 1024 * count)]
        return lambda i, x: reduce(xor, (table[1024 * i + 256 * b + (x >> 32 + 8 * b & 0xFF)] for b in range(4)))
    if sketch == "xor_masks":
        masks = [0, *(word >> 32 for word in words(family, count - 1))]
        return lambda i, x: x >> 32 ^ masks[i]
    if sketch == "affine61":
        drawn = words(family, 2 * count)
        return lambda i, x: ((1 + drawn[2 * i] % (PRIME - 1)) * x + drawn[2 * i + 1]) % PRIME
    if sketch == "multiply_shift":
        drawn = words(family, 2 * count)
        return lambda i, x: ((drawn[2 * i] | 1) * x + drawn[2 * i + 1] & MASK) >> 32
    a, b = (drawn.tolist() for drawn in (coefficients(family) if sketch == "minhash" else word_pairs(family)))
    if sketch == "minhash":
        return lambda i, x: (x >> 32) * a[i] + b[i] & HALF
    if sketch == "affine64":
        return lambda i, x: a[i] * x + b[i] & MASK
    word, prime, most = 1 << family.wrap.bits, family.wrap.modulus, int(np.iinfo(family.value_type).max)
    return lambda i, x: (a[i] * x + b[i]) % word % prime & most


def permuted(y: int, keys: int) -> int:
    """The permutation pi of `c_minhash`."""
    y &= HALF
    y = (y ^ y >> 16) * protocol.CIRCULANT_1 & HALF
    y ^= keys >> 32
    y = (y ^ y >> 15) * protocol.CIRCULANT_2 & HALF
    return (y ^ y >> 16) ^ keys & HALF


class FastSimilarity(Minima):
    """For each bin the first round of throws of the whole set that reached it, and the least value there."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._words = words(family, 2 * THROWS + family.num_perm)

    def lower(self, least: Values, values: list[int]) -> None:
        for x in values:
            for number in range(THROWS):
                place = self._hashed(2 * number, x >> 32) * self._columns >> 32
                value = self._hashed(2 * number + 1, x & HALF) >> 32 - VALUE_BITS
                least[place] = min(int(least[place]), number << VALUE_BITS | value)
            for place in range(self._columns):
                value = self._product(2 * THROWS + place, x >> 32) >> 32 - VALUE_BITS
                least[place] = min(int(least[place]), THROWS << VALUE_BITS | value)

    def _product(self, number: int, half: int) -> int:
        return (self._words[number] >> 32 | 1) * half & HALF

    def _hashed(self, number: int, half: int) -> int:
        return self._product(number, half) + self._words[number] & HALF


class OnePermutation(Minima):
    """The least value in each of `num_perm` bins, and the optimal densification of empty ones."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._multiplier, self._addend, self._probe = words(family, 3)

    def lower(self, least: Values, values: list[int]) -> None:
        for x in values:
            y = ((self._multiplier | 1) * x + self._addend) & MASK
            place = (y >> 32) * self._columns >> 32
            least[place] = min(int(least[place]), y & HALF, NO_VALUE - 1)

    def finish(self, state: Values) -> Values:
        signatures: Values = state.copy()
        for least, signature in zip(state.tolist(), signatures, strict=True):
            if any(value != NO_VALUE for value in least):
                for place in range(self._columns):
                    signature[place] = self._filled(least, place)
        return signatures

    def _filled(self, least: list[int], place: int) -> int:
        if least[place] != NO_VALUE:
            return least[place]
        for t in range(ROUNDS * self._columns):
            other = (mix64(self._probe + (place << 32 | t)) >> 32) * self._columns >> 32
            if least[other] != NO_VALUE:
                return least[other]
        return next(value for value in least[place + 1 :] + least if value != NO_VALUE)


class SplitmixRounds(Minima):
    """For each bin the least value of the first round that reached it, and for each bin left empty the least hash."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._bins, self._columns = family.num_perm, 2 * family.num_perm
        self._rounds, self._own = (words.tolist() for words in word_pairs(family))

    def lower(self, state: Values, values: list[int]) -> None:
        bins, least = self._bins, [NO_DIGEST] * self._bins
        for number, seed in enumerate(self._rounds):
            for x in values:
                hashed = splitmix64((x ^ seed) + GOLDEN)
                least[hashed % bins] = min(least[hashed % bins], number << ROUND_SHIFT | hashed & LOWER)
            if NO_DIGEST not in least:
                break
        own = [
            min(splitmix64((x ^ seed) + GOLDEN) for x in values) if value == NO_DIGEST else NO_DIGEST
            for value, seed in zip(least, self._own, strict=True)
        ]
        state[:] = least + own

    def finish(self, state: Values) -> Values:
        thrown, own = state[:, : self._bins], state[:, self._bins :]
        number = np.arange(self._bins, 2 * self._bins, dtype=np.uint64) << np.uint64(ROUND_SHIFT)
        filled: Values = np.where(thrown == NO_DIGEST, number | own & np.uint64(LOWER), thrown)
        filled[(state == NO_DIGEST).all(axis=1)] = NO_DIGEST
        return filled


SKETCHES: dict[str, Callable[[Family], SketchFold]] = {  # by `Family.sketch`; others have functions
    "fast_similarity": FastSimilarity,
    "one_permutation": OnePermutation,
    "splitmix_rounds": SplitmixRounds,
}
