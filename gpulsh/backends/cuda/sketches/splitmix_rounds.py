"""`splitmix_rounds`: a block a document, whose threads meet in bins by an atomic minimum."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.cuda.sketches import Minima
from gpulsh.backends.protocol import NO_DIGEST, ROUND_SHIFT
from gpulsh.params import Family
from gpulsh.permutations import word_pairs


class Sketch(Minima):
    """For each bin the least value of the first round that reached it; then, for those none reached, the least hash."""

    dtype = np.uint64

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        self._bins, self.columns = family.num_perm, 2 * family.num_perm
        self._words = [machine.arrays.asarray(words) for words in word_pairs(family)]

    def fold(self, fingerprints: Fingerprints) -> Array:
        state = self.empty(len(fingerprints))
        self.machine.run(
            *("splitmix_rounds", "splitmix_rounds", len(fingerprints), 1, fingerprints.values, fingerprints.offset),
            *(*self._words, np.int32(self._bins), state),
            threads=self.machine.geometry.row_threads,
        )
        return state

    def finish(self, state: Array) -> Array:
        xp, none, lower = self.machine.arrays, np.uint64(NO_DIGEST), np.uint64((1 << ROUND_SHIFT) - 1)
        thrown, own = state[:, : self._bins], state[:, self._bins :]
        number = xp.arange(self._bins, 2 * self._bins, dtype=np.uint64) << np.uint64(ROUND_SHIFT)
        filled = xp.where(thrown == none, number | own & lower, thrown)
        filled[(state == none).all(axis=1)] = none
        return filled
