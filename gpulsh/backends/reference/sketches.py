"""Set sketches of a fingerprint and a bin, or a function, at a time, in Python integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends import protocol
from gpulsh.backends.protocol import GOLDEN, NO_DIGEST, NO_VALUE, ROUND_SHIFT, THROWS, VALUE_BITS, SketchFold
from gpulsh.backends.reference.hashing import MASK, PRIME, mix64
from gpulsh.backends.reference.rows import rows_of
from gpulsh.params import Family
from gpulsh.permutations import coefficients, splitmix64, word_pairs, words

Function = Callable[[int, list[int]], list[int]]  # the values of function number i of fingerprints
HALF = (1 << 32) - 1
BYTES = 4
ENTRIES = BYTES * 256  # of a function's table
ROUNDS = 64  # times as many probes as there are bins; then the next bin that has a value
LOWER = (1 << ROUND_SHIFT) - 1


def sketch_of(family: Family) -> SketchFold:
    """The sketch of a family."""
    return SKETCHES[family.sketch](family)


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
        self._function = FUNCTIONS[family.sketch](family)

    def lower(self, least: Values, values: list[int]) -> None:
        for number in range(self._columns):
            least[number] = min(self._function(number, values))


def _affine32(family: Family) -> Function:
    """a x + b modulo 2^32, for the upper half x of a fingerprint."""
    multiplier, addend = (drawn.tolist() for drawn in coefficients(family))
    return lambda i, values: [(x >> 32) * multiplier[i] + addend[i] & HALF for x in values]


def _affine61(family: Family) -> Function:
    """a x + b modulo 2^61 - 1, a not 0."""
    drawn = words(family, 2 * family.num_perm)
    multiplier, addend = [1 + word % (PRIME - 1) for word in drawn[::2]], drawn[1::2]
    return lambda i, values: [(multiplier[i] * x + addend[i]) % PRIME for x in values]


def _affine64(family: Family) -> Function:
    """a x + b modulo 2^64."""
    multiplier, addend = (drawn.tolist() for drawn in word_pairs(family))
    return lambda i, values: [multiplier[i] * x + addend[i] & MASK for x in values]


def _c_minhash(family: Family) -> Function:
    """pi(sigma(x) + i), both modulo 2^32: one permutation, shifted, after another that breaks the set's order."""
    multiplier, addend, keys = words(family, 3)

    def permuted(y: int) -> int:
        y &= HALF
        y = (y ^ y >> 16) * protocol.CIRCULANT_1 & HALF
        y ^= keys >> 32
        y = (y ^ y >> 15) * protocol.CIRCULANT_2 & HALF
        return (y ^ y >> 16) ^ keys & HALF

    return lambda i, values: [permuted((((multiplier | 1) * x + addend & MASK) >> 32) + i) for x in values]


def _multiply_shift(family: Family) -> Function:
    """The upper half of a x + b modulo 2^64."""
    drawn = words(family, 2 * family.num_perm)
    return lambda i, values: [((drawn[2 * i] | 1) * x + drawn[2 * i + 1] & MASK) >> 32 for x in values]


def _tabulation(family: Family) -> Function:
    """The four bytes of a fingerprint's upper half choose four entries of a function's table."""
    table = words(family, ENTRIES * family.num_perm)

    def value(i: int, x: int) -> int:
        found = 0
        for byte in range(BYTES):
            found ^= table[i * ENTRIES + byte * 256 + (x >> 32 + 8 * byte & 0xFF)] >> 32
        return found

    return lambda i, values: [value(i, x) for x in values]


def _wrapped(family: Family) -> Function:
    """The rest of a x + b in a word, modulo a prime, cut to the width of a signature's values."""
    multiplier, addend = (drawn.tolist() for drawn in word_pairs(family))
    word, prime, most = 1 << family.wrap.bits, family.wrap.modulus, int(np.iinfo(family.value_type).max)
    return lambda i, values: [(multiplier[i] * x + addend[i]) % word % prime & most for x in values]


def _xor_masks(family: Family) -> Function:
    """The upper half of a fingerprint, exclusive-or a mask; the first function has none."""
    masks = [0, *(word >> 32 for word in words(family, family.num_perm - 1))]
    return lambda i, values: [x >> 32 ^ masks[i] for x in values]


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


SKETCHES: dict[str, Callable[[Family], SketchFold]] = {  # by `Family.sketch`
    **dict.fromkeys(FUNCTIONS, FunctionMinima),
    "fast_similarity": FastSimilarity,
    "one_permutation": OnePermutation,
    "splitmix_rounds": SplitmixRounds,
}
