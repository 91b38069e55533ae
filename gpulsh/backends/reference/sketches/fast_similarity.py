"""Fast similarity sketching: a whole set is thrown into the bins in rounds, until no bin is empty."""

from __future__ import annotations

from gpulsh.arrays import Values
from gpulsh.backends.protocol import THROWS, VALUE_BITS
from gpulsh.backends.reference.sketches import Minima
from gpulsh.params import Family
from gpulsh.permutations import words

HALF = (1 << 32) - 1


class Sketch(Minima):
    """For each bin the first round that reached it, and the least value there."""

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
