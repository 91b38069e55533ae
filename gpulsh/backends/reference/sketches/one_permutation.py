"""One permutation hashing, and its optimal densification, a fingerprint and a bin at a time."""

from __future__ import annotations

from gpulsh.arrays import Values
from gpulsh.backends.protocol import NO_VALUE
from gpulsh.backends.reference.hashing import MASK, mix64
from gpulsh.backends.reference.sketches import Minima
from gpulsh.params import Family
from gpulsh.permutations import words

ROUNDS = 64  # times as many probes as there are bins; then the next bin that has a value


class Sketch(Minima):
    """The least value in each of `num_perm` bins."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._multiplier, self._addend, self._probe = words(family, 3)

    def lower(self, least: Values, values: list[int]) -> None:
        for x in values:
            y = ((self._multiplier | 1) * x + self._addend) & MASK
            place = (y >> 32) * self._columns >> 32
            least[place] = min(int(least[place]), y & 0xFFFFFFFF, NO_VALUE - 1)

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
