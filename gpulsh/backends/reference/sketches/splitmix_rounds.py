"""`splitmix_rounds`: a whole set goes into the bins in rounds, until no bin is empty."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Values
from gpulsh.backends.protocol import GOLDEN, NO_DIGEST, ROUND_SHIFT
from gpulsh.backends.reference.sketches import Minima
from gpulsh.params import Family
from gpulsh.permutations import splitmix64, word_pairs

LOWER = (1 << ROUND_SHIFT) - 1


class Sketch(Minima):
    """For each bin the least value of the first round that reached it, and for each bin left empty the least hash."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._bins, self._columns = family.num_perm, 2 * family.num_perm
        self._rounds, self._own = (words.tolist() for words in word_pairs(family))

    def lower(self, state: Values, values: list[int]) -> None:
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
        state[:] = least + own

    def finish(self, state: Values) -> Values:
        thrown, own = state[:, : self._bins], state[:, self._bins :]
        number = np.arange(self._bins, 2 * self._bins, dtype=np.uint64) << np.uint64(ROUND_SHIFT)
        filled: Values = np.where(thrown == NO_DIGEST, number | own & np.uint64(LOWER), thrown)
        filled[(state == NO_DIGEST).all(axis=1)] = NO_DIGEST
        return filled
