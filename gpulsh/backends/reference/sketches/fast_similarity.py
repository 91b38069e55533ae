"""Fast similarity sketching: all of a set is thrown into the bins in rounds, until no bin is empty."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.protocol import NO_VALUE, ROUND_BITS
from gpulsh.backends.reference.hashing import mix64
from gpulsh.backends.reference.sketches.minima import Minima
from gpulsh.backends.reference.unique import rows_of
from gpulsh.params import Family
from gpulsh.permutations import words

MASK = (1 << 64) - 1
EMPTY = MASK  # a bin's value before anything is in it


class Sketch(Minima):
    """For each bin the first round that reached it, and the least value there; `finish` makes 32 bits of them."""

    dtype = np.uint64

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._words = words(family, 4 * family.num_perm)

    def fold(self, fingerprints: Fingerprints) -> NDArray[np.uint64]:
        state = self.empty(len(fingerprints))
        for row, bins in zip(rows_of(fingerprints), state, strict=True):
            found: dict[int, int] = {}  # by bin
            for number in range(2 * self._columns if len(row) else 0):
                for x in row.tolist():
                    place, value = self._thrown(number, x)
                    found[place] = min(found.get(place, EMPTY), value)
                if len(found) == self._columns:
                    break
            for place, value in found.items():
                bins[place] = value
        return state

    def _thrown(self, number: int, x: int) -> tuple[int, int]:
        hashed = ((self._words[2 * number] | 1) * x + self._words[2 * number + 1]) & MASK
        random = (hashed >> 32) * self._columns >> 32
        place = random if number < self._columns else number - self._columns
        return place, number << 64 - ROUND_BITS | hashed & MASK >> ROUND_BITS

    def finish(self, state: NDArray[np.uint64]) -> NDArray[np.uint32]:
        signatures = np.full(state.shape, NO_VALUE, np.uint32)
        for bins, signature in zip(state.tolist(), signatures, strict=True):
            if bins[0] != EMPTY:
                signature[:] = [min(mix64(value) >> 32, NO_VALUE - 1) for value in bins]
        return signatures
