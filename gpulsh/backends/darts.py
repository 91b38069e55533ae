"""Darts: the random process behind weighted sketches, and the integers that it is prescribed in.

Darts fall on a plane of height and rank, everywhere equally dense. A weight is hit by the darts below it, and a
weighted set by those of all its weights; which of them has the least rank is a sample that two sets have in common with
the probability sum(min) / sum(max) (Charikar 2002; Christiani 2020, *DartMinHash*). The plane is cut into levels of
heights, [2^level, 2^(level + 1)), each with a stream of darts in the order of their ranks, so that a sketch looks at no
more darts than it needs, and two sets at the same ones, whatever their scale.

Ranks are sums of `surprise`, the negative logarithm to the base 2 of a random word, which is distributed exponentially.
It is read from a table by integer arithmetic, so that it is the same everywhere; logarithms of libraries are not.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.permutations import stream

RANK_BITS = 40  # of a surprise behind the point
SEGMENT_BITS = 10  # of the table; between its entries logarithms are read off a line
MANTISSA_BITS = 20  # of a rank where ranks of several levels are compared
RANK_BIAS = 1100  # added to a rank's exponent, which then is not negative
LEAST_EXPONENT = -1022  # of a weight that counts: those below are no normal numbers
LEAST_OF_ROW = LEAST_EXPONENT + 32  # of a dense row's greatest number, so that all levels it sees are of normal ones


class Streams(NamedTuple):
    """Words that the darts of one sketch are drawn by."""

    multiplier: np.uint64  # odd
    addend: np.uint64
    place: np.uint64
    value: np.uint64

    @classmethod
    def of(cls, name: str, seed: int) -> Streams:
        """Those of a sketch by its name."""
        words = stream(name, seed, 4)
        return cls(words[0] | np.uint64(1), words[1], words[2], words[3])


@cache
def logarithms() -> NDArray[np.uint64]:
    """uint64 [2^SEGMENT_BITS + 1]: log2(1 + i / 2^SEGMENT_BITS) in units of 2^-RANK_BITS, rounded down."""
    return np.array([_logarithm(i) for i in range((1 << SEGMENT_BITS) + 1)], np.uint64)


def _logarithm(numerator: int) -> int:
    """By squaring, a bit at a time; exact, since 63 bits behind the point are more than any error takes."""
    point = 63
    x, found = (numerator << point - SEGMENT_BITS) + (1 << point), 0
    for _ in range(RANK_BITS + 1):
        over = x >> point + 1
        found, x = found << 1 | over, x >> over
        x = x * x >> point
    return found
