"""Darts in Python integers and exact fractions."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from gpulsh.backends.darts import MANTISSA_BITS, RANK_BITS, SEGMENT_BITS, Streams, logarithms
from gpulsh.backends.protocol import GOLDEN, NO_VALUE
from gpulsh.backends.reference.hashing import MASK, mix64


class Dart(NamedTuple):
    """One of a line's at a level."""

    rank: Fraction
    height: Fraction
    place: int
    value: int

    def bin(self, count: int) -> int:
        """Which of `count` it falls into."""
        return (self.place >> 32) * count >> 32

    def order(self) -> tuple[Fraction, int]:
        """The rank as it is compared, then the value."""
        exponent = self.rank.numerator.bit_length() - self.rank.denominator.bit_length()  # of powers of two, exact
        step = Fraction(2) ** (exponent - MANTISSA_BITS)
        return self.rank // step * step, self.value


def darts_below(limit: Fraction, streams: Streams, line: int, level: int) -> Iterator[Dart]:
    """Those of a line at a level whose rank is below `limit`, by rank."""
    multiplier, addend, place_word, value_word = map(int, streams)
    word, total = mix64(multiplier * line + addend + level * GOLDEN), 0
    while (rank := Fraction(total := total + surprise(word)) / Fraction(2) ** (level + RANK_BITS)) < limit:
        place = mix64(word ^ place_word)
        yield Dart(
            rank,
            Fraction(2) ** level * (1 + Fraction(place & 0xFFFFFFFF, 1 << 32)),
            place,
            min(mix64(place ^ value_word) >> 32, NO_VALUE - 1),
        )
        word = mix64(place + GOLDEN)


def surprise(word: int) -> int:
    """-log2(word / 2^64) in units of 2^-RANK_BITS."""
    length = (word | 1).bit_length()
    behind = (word | 1) << 65 - length & MASK  # the leading bit dropped
    segment, rest = behind >> 64 - SEGMENT_BITS, (behind << SEGMENT_BITS & MASK) >> 32
    low, high = (int(logarithms()[i]) for i in (segment, segment + 1))
    return (65 - length << RANK_BITS) - (low + ((high - low) * rest >> 32))
