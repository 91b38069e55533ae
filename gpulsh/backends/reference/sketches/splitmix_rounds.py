"""`splitmix_rounds`: a whole set goes into the bins in rounds, until no bin is empty."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.protocol import GOLDEN, NO_DIGEST, ROUND_SHIFT
from gpulsh.backends.reference.sketches.minima import Minima
from gpulsh.backends.reference.unique import rows_of
from gpulsh.params import Family
from gpulsh.permutations import splitmix64, word_pairs

LOWER = (1 << ROUND_SHIFT) - 1


class Sketch(Minima):
    """For each bin the least value of the first round that reached it, and for each bin left empty the least hash."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._bins, self._columns = family.num_perm, 2 * family.num_perm
        self._rounds, self._own = (words.tolist() for words in word_pairs(family))

    def fold(self, fingerprints: Fingerprints) -> NDArray[np.uint64]:
        state = self.empty(len(fingerprints))
        for row, found in zip(rows_of(fingerprints), state, strict=True):
            values = row.tolist()
            if values:
                found[:] = self._thrown(values)
        return state

    def _thrown(self, values: list[int]) -> list[int]:
        bins, least = self._bins, [NO_DIGEST] * self._bins
        for number, seed in enumerate(self._rounds):
            for x in values:
                hashed = splitmix64((x ^ seed) + GOLDEN)
                least[hashed % bins] = min(least[hashed % bins], number << ROUND_SHIFT | hashed & LOWER)
            if NO_DIGEST not in least:
                break
        own = [
            min(splitmix64((x ^ seed) + GOLDEN) for x in values) if value == NO_DIGEST else NO_DIGEST
            for value, seed in zip(least, self._own, strict=True)
        ]
        return least + own

    def finish(self, state: NDArray[np.uint64]) -> NDArray[np.uint64]:
        thrown, own = state[:, : self._bins], state[:, self._bins :]
        number = np.arange(self._bins, 2 * self._bins, dtype=np.uint64) << np.uint64(ROUND_SHIFT)
        filled = np.where(thrown == NO_DIGEST, number | own & np.uint64(LOWER), thrown)
        filled[(state == NO_DIGEST).all(axis=1)] = NO_DIGEST
        return filled
