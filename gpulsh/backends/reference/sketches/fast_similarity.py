"""Fast similarity sketching: a whole set is thrown into the bins in rounds, until no bin is empty."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.protocol import THROWS, VALUE_BITS
from gpulsh.backends.reference.sketches.minima import Minima
from gpulsh.backends.reference.unique import rows_of
from gpulsh.params import Family
from gpulsh.permutations import words

HALF = (1 << 32) - 1


class Sketch(Minima):
    """For each bin the first round that reached it, and the least value there."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._words = words(family, 2 * THROWS + family.num_perm)

    def fold(self, fingerprints: Fingerprints) -> NDArray[np.uint32]:
        minima = self.empty(len(fingerprints))
        for row, least in zip(rows_of(fingerprints), minima, strict=True):
            for x in row.tolist():
                for number in range(THROWS):
                    place = self._hashed(2 * number, x >> 32) * self._columns >> 32
                    value = self._hashed(2 * number + 1, x & HALF) >> 32 - VALUE_BITS
                    least[place] = min(int(least[place]), number << VALUE_BITS | value)
                for place in range(self._columns):
                    value = self._product(2 * THROWS + place, x >> 32) >> 32 - VALUE_BITS
                    least[place] = min(int(least[place]), THROWS << VALUE_BITS | value)
        return minima

    def _product(self, number: int, half: int) -> int:
        return (self._words[number] >> 32 | 1) * half & HALF

    def _hashed(self, number: int, half: int) -> int:
        return self._product(number, half) + self._words[number] & HALF
