"""Fast similarity sketching: an atomic minimum a fingerprint in the first round, a block a document for the rest."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.cuda.sketches import Minima
from gpulsh.backends.protocol import THROWS
from gpulsh.params import Family
from gpulsh.permutations import word_array


class Sketch(Minima):
    """For each bin the first round that reached it, and the least value there."""

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        self._drawn = machine.arrays.asarray(word_array(family, 2 * THROWS + family.num_perm))

    def fold(self, fingerprints: Fingerprints) -> Array:
        minima = self.by_spans("fast_similarity", "first_round", fingerprints, self._drawn)
        self.machine.run(
            *("fast_similarity", "later_rounds", len(fingerprints), 1, fingerprints.values, fingerprints.offset),
            *(np.int64(len(fingerprints)), self._drawn, np.int32(self.columns), minima),
            threads=self.machine.geometry.row_threads,
        )
        return minima
