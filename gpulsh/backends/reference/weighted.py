"""Weighted rows: occurrences and weighted_overlap by dictionaries; weighted_minhash and kleinberg_tardos by darts.

Darts are Python integers and exact fractions, drawn up to a rank that is doubled until every bin, or row, is hit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers, WeightedFingerprints
from gpulsh.backends import darts
from gpulsh.backends.darts import MIN_EXPONENT, MIN_OF_ROW, RANK_BITS, SEGMENT_BITS, Streams, logarithms
from gpulsh.backends.protocol import GOLDEN, NO_VALUE
from gpulsh.backends.reference.hashing import MASK, mix64
from gpulsh.backends.reference.rows import rows_of, unique


def occurrences(fingerprints: Fingerprints) -> WeightedFingerprints:
    rows = unique(fingerprints)
    counts = [Counter(row.tolist()) for row in rows_of(fingerprints)]
    weight = [count[x] for count, row in zip(counts, rows_of(rows), strict=True) for x in row.tolist()]
    return WeightedFingerprints(rows.values, np.array(weight, np.float64), rows.offset)


def weighted_overlap(pairs: Numbers, rows: WeightedFingerprints) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    cuts = [slice(*ends) for ends in zip(rows.offset[:-1].tolist(), rows.offset[1:].tolist(), strict=True)]
    sets = [dict(zip(rows.values[cut].tolist(), rows.weight[cut].tolist(), strict=True)) for cut in cuts]
    least, greatest = np.zeros(len(pairs)), np.zeros(len(pairs))
    for place, (i, j) in enumerate(pairs.tolist()):
        weights = [(sets[i].get(x, 0.0), sets[j].get(x, 0.0)) for x in sorted(sets[i].keys() | sets[j].keys())]
        least[place] = sum_in_order(map(min, weights))
        greatest[place] = sum_in_order(map(max, weights))
    return least, greatest


def sum_in_order(weights: Iterable[float]) -> float:
    """The sum in order; Python's own `sum` corrects for rounding from 3.12 on."""
    total = 0.0
    for weight in weights:
        total += weight
    return total


class Dart(NamedTuple):
    """A dart of a line at a level."""

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
        step = Fraction(2) ** (exponent - darts.MANTISSA_BITS)
        return self.rank // step * step, self.value


def darts_below(limit: Fraction, streams: Streams, line: int, level: int) -> Iterator[Dart]:
    """The darts of a line at a level with ranks below `limit`, by rank."""
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


def weighted_minhash(rows: WeightedFingerprints, num_perm: int, seed: int) -> NDArray[np.uint32]:
    streams = Streams.of("weighted_minhash", seed)
    signatures = np.full((len(rows), num_perm), NO_VALUE, np.uint32)
    for row, (start, stop) in enumerate(zip(rows.offset[:-1], rows.offset[1:], strict=True)):
        weights = {
            x: weight
            for x, weight in zip(rows.values[start:stop].tolist(), rows.weight[start:stop].tolist(), strict=True)
            if exponent(weight) >= MIN_EXPONENT
        }
        if weights:
            for place, dart in _least(weights, streams, num_perm).items():
                signatures[row, place] = dart.value
    return signatures


def _least(weights: dict[int, float], streams: Streams, bins: int) -> dict[int, Dart]:
    """The dart of least rank in each bin."""
    limit = Fraction(2) ** -max(map(exponent, weights.values()))
    while True:
        found: dict[int, Dart] = {}
        for x, weight in weights.items():
            for level in range(exponent(weight) - 23, exponent(weight) + 1):
                for dart in darts_below(limit, streams, x, level):
                    if dart.height < Fraction(weight):
                        place = dart.bin(bins)
                        found[place] = min(found.get(place, dart), dart, key=Dart.order)
        if len(found) == bins:
            return found
        limit *= 2


def kleinberg_tardos(rows: NDArray[np.float64], num_perm: int, seed: int) -> NDArray[np.uint32]:
    streams = Streams.of("kleinberg_tardos", seed)
    signatures = np.full((len(rows), num_perm), NO_VALUE, np.uint32)
    for row, signature in zip(rows.tolist(), signatures, strict=True):
        if exponent(max(row, default=0.0)) >= MIN_OF_ROW:
            signature[:] = [_first(row, streams, function) for function in range(num_perm)]
    return signatures


def _first(row: list[float], streams: Streams, function: int) -> int:
    """The value of the first dart that hits."""
    top = exponent(max(row))
    limit = Fraction(2) ** -top
    while True:
        hits = [
            dart
            for level in range(top - 31, top + 1)
            for dart in darts_below(limit, streams, function, level)
            if dart.height < Fraction(row[dart.bin(len(row))])
        ]
        if hits:
            return min(hits, key=Dart.order).value
        limit *= 2


def exponent(number: float) -> int:
    """The greatest e with 2^e <= number."""
    return math.frexp(number)[1] - 1 if number > 0 else MIN_EXPONENT - 1
