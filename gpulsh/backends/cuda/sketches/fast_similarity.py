"""Fast similarity sketching: an atomic minimum a fingerprint in the first round, a block a document for the rest."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import LANES, Machine
from gpulsh.backends.cuda.sketches.minima import Minima
from gpulsh.backends.protocol import THROWS
from gpulsh.params import Family
from gpulsh.permutations import word_array


class Sketch(Minima):
    """For each bin the first round that reached it, and the least value there."""

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        self._drawn = machine.arrays.asarray(word_array(family, 2 * THROWS + family.num_perm))

    def fold(self, fingerprints: Fingerprints) -> Array:
        machine, geometry = self.machine, self.machine.geometry
        minima, documents = self.empty(len(fingerprints)), len(fingerprints)
        total = machine.number(fingerprints.offset[-1] - fingerprints.offset[0])
        rows = fingerprints.values, fingerprints.offset, np.int64(documents), self._drawn, np.int32(self.columns)
        machine.run(
            *("fast_similarity", "first_round", total, geometry.span * (geometry.minhash_threads // LANES)),
            *(*rows, np.int32(geometry.span), minima),
            threads=geometry.minhash_threads,
        )
        machine.run(*("fast_similarity", "later_rounds", documents, 1), *rows, minima, threads=geometry.row_threads)
        return minima
