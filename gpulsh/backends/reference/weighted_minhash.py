"""weighted_minhash and kleinberg_tardos: darts up to a rank that is doubled until every bin, or row, is hit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import WeightedFingerprints
from gpulsh.backends.darts import LEAST_EXPONENT, LEAST_OF_ROW, Streams
from gpulsh.backends.protocol import NO_VALUE
from gpulsh.backends.reference.darts import Dart, darts_below


def weighted_minhash(rows: WeightedFingerprints, num_perm: int, seed: int) -> NDArray[np.uint32]:
    streams = Streams.of("weighted_minhash", seed)
    signatures = np.full((len(rows), num_perm), NO_VALUE, np.uint32)
    for row, (start, stop) in enumerate(zip(rows.offset[:-1], rows.offset[1:], strict=True)):
        weights = {
            x: weight
            for x, weight in zip(rows.values[start:stop].tolist(), rows.weight[start:stop].tolist(), strict=True)
            if exponent(weight) >= LEAST_EXPONENT
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
        if exponent(max(row, default=0.0)) >= LEAST_OF_ROW:
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
    return math.frexp(number)[1] - 1 if number > 0 else LEAST_EXPONENT - 1
