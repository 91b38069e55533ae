"""Signatures of bits: `gpulsh.hamming`, the number of bits in which two differ, and the base class of their sketches.

The probability that two signatures differ in a bit is the angle between their vectors, in half turns.
"""

from __future__ import annotations

from cmath import exp
from dataclasses import dataclass
from math import acos, pi, sqrt

import numpy as np

from gpulsh.arrays import Array, BitSignatures
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_type, set_integer, set_one_of
from gpulsh.errors import ParameterError
from gpulsh.params import MAX_SEED, Named
from gpulsh.sketch.base import check_maker, checked_estimate, checked_pairs, map_pairs


def hamming(
    bit_signatures: BitSignatures, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
) -> Array:
    """The number of bits in which the rows of each pair differ, int64 [m]; `pairs` int64 [m, 2] are row numbers.

    Raises ParameterError if `pairs` name no rows of the BitSignatures.

    >>> signatures = BitSignatures(np.array([[0], [7], [2**64 - 1]], np.uint64))
    >>> hamming(signatures, [[0, 1], [0, 2], [1, 2]], backend="cpu")
    array([ 3, 64, 61])
    """
    check_type("bit_signatures", bit_signatures, BitSignatures)
    ops = select_backend(backend, threads=threads)
    words, rows = ops.asarray(bit_signatures.values), checked_pairs(pairs, len(bit_signatures), ops)
    return map_pairs(rows, lambda some: distances(words[some[:, 0]], words[some[:, 1]]))


def distances(left: Array, right: Array) -> Array:
    """int64 [m]: the number of bits in which rows of uint64 [m, words] differ."""
    return popcount(left ^ right).sum(axis=1, dtype=np.int64)


def popcount(words: Array) -> Array:
    """The number of set bits of uint64 words, of any shape and array library.

    NumPy has an instruction; other arrays add up fields of 2, 4 and 8 bits (Warren, *Hacker's Delight*, 5-1).
    """
    if isinstance(words, np.ndarray):
        return np.bitwise_count(words)
    twos, fours, eights = map(np.uint64, (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F))
    words = words - (words >> np.uint64(1) & twos)
    words = (words & fours) + (words >> np.uint64(2) & fours)
    words = words + (words >> np.uint64(4)) & eights
    return words * np.uint64(0x0101010101010101) >> np.uint64(56)


WORD_BITS = 64
MAX_BITS = 384


def set_bits(owner: object, most: int) -> None:
    """Make the field `bits` of a frozen object a multiple of 64 up to `most`, or raise ParameterError."""
    rule = f"a multiple of {WORD_BITS} from {WORD_BITS} to {most}"
    set_one_of(owner, "bits", range(WORD_BITS, most + 1, WORD_BITS), rule)


@dataclass(frozen=True, kw_only=True)
class BitSketch(Named):
    """Signatures of `bits` bits, a multiple of 64 up to 384; each bit is a vector's side of a random hyperplane.

    Source: Charikar 2002, *Similarity estimation techniques from rounding algorithms*, section 3.
    """

    bits: int = 64
    seed: int = 1

    def __post_init__(self) -> None:
        set_bits(self, MAX_BITS)
        set_integer(self, "seed", 0, MAX_SEED)

    def estimate(
        self, bit_signatures: BitSignatures, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """Estimate the cosine of each pair of rows, float64 [m], by the cosine of the estimated angle.

        The estimate of the angle has no bias. Its cosine is too small by a share of about pi^2 / 2 * p * (1 - p) /
        bits, where p is the angle in half turns. Raises ParameterError as `estimate_angle` does.
        """
        return np.cos(self.estimate_angle(bit_signatures, pairs, backend=backend, threads=threads))

    def estimate_angle(
        self, bit_signatures: BitSignatures, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """Estimate the angle of each pair of rows in radians, float64 [m]: pi * hamming / bits.

        Raises ParameterError if another sketch made the signatures, they have another number of bits, or `pairs` name
        no rows of them.
        """
        check_type("bit_signatures", bit_signatures, BitSignatures)
        check_bits(bit_signatures, self.bits)
        check_maker("bit_signatures", bit_signatures, self)
        return hamming(bit_signatures, pairs, backend=backend, threads=threads) * (pi / self.bits)

    def standard_deviation(self, value: float, size: int | None = None) -> float:
        """The theoretical standard deviation of the estimate at a cosine of `value`; `size` has no effect.

        The number h of differing bits is binomial by p, so the mean of exp(i t h) is (1 - p + p exp(i t))^bits. Raises
        ParameterError for a `value` outside -1 to 1.
        """
        value, _ = checked_estimate(value, size, "cosine", -1)
        p = acos(value) / pi
        one, two = (((1 - p + p * exp(1j * turn * pi / self.bits)) ** self.bits).real for turn in (1, 2))
        return sqrt(max((1 + two) / 2 - one**2, 0.0))


def check_bits(bit_signatures: BitSignatures, bits: int) -> None:
    """Raise ParameterError unless signatures have `bits` bits."""
    given = WORD_BITS * bit_signatures.shape[1]
    if given != bits:
        raise ParameterError(f"bits is {bits} and the signatures have {given}; give signatures of {bits} bits")
