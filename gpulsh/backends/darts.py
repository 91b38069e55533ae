"""Darts: the random process behind weighted sketches, defined in integers.

Darts fall on a plane of height and rank, with equal density everywhere. Each weight is hit by the darts below it, and a
weighted set by the darts of all its weights. The dart of least rank is a sample. Two sets have the same sample with the
probability sum(min) / sum(max) (Charikar 2002; Christiani 2020, *DartMinHash*). The plane is cut into levels of
heights, [2^level, 2^(level + 1)), each with a stream of darts in the order of their ranks. So a sketch looks at no more
darts than it needs, and two sets of different scale look at the same ones.

Ranks are sums of `surprise`, the negative logarithm to the base 2 of a random word, which has an exponential
distribution. Integer arithmetic reads it from a table, so it is the same everywhere; logarithms of libraries are not.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from gpulsh.arrays import Words
from gpulsh.permutations import stream

RANK_BITS = 40  # of a surprise after the point
SEGMENT_BITS = 10  # of the table; between its entries logarithms are interpolated
MANTISSA_BITS = 20  # of a rank that is compared across levels
RANK_BIAS = 1100  # added to a rank's exponent, so that it is not negative
MIN_EXPONENT = -1022  # of a weight that counts; smaller numbers are not normal
MIN_OF_ROW = MIN_EXPONENT + 32  # of a dense row's greatest number, so that all its levels are normal


class Streams(NamedTuple):
    """The random words of one sketch's darts."""

    multiplier: np.uint64  # odd
    addend: np.uint64
    place: np.uint64
    value: np.uint64

    @classmethod
    def of(cls, name: str, seed: int) -> Streams:
        """The words of a sketch by its name."""
        words = stream(name, seed, 4)
        return cls(words[0] | np.uint64(1), words[1], words[2], words[3])


@cache
def logarithms() -> Words:
    """uint64 [2^SEGMENT_BITS + 1]: log2(1 + i / 2^SEGMENT_BITS) in units of 2^-RANK_BITS, rounded down."""
    return np.array([_logarithm(i) for i in range((1 << SEGMENT_BITS) + 1)], np.uint64)


def _logarithm(numerator: int) -> int:
    """By squaring, a bit at a time; exact, because no error reaches 63 bits after the point."""
    point = 63
    x, found = (numerator << point - SEGMENT_BITS) + (1 << point), 0
    for _ in range(RANK_BITS + 1):
        over = x >> point + 1
        found, x = found << 1 | over, x >> over
        x = x * x >> point
    return found
