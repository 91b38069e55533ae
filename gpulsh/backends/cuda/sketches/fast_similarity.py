"""Fast similarity sketching: an atomic minimum a fingerprint in the first round, a block a document for the others."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import LANES, Machine
from gpulsh.backends.cuda.sketches.minima import Minima
from gpulsh.params import Family
from gpulsh.permutations import word_array


class Sketch(Minima):
    """For each bin the first round that reached it, and the least value there; `finish` makes 32 bits of them."""

    dtype = np.uint64

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        drawn = word_array(family, 4 * family.num_perm).reshape(-1, 2)
        self._multiplier = machine.arrays.asarray(drawn[:, 0] | np.uint64(1))
        self._addend = machine.arrays.asarray(drawn[:, 1].copy())

    def fold(self, fingerprints: Fingerprints) -> Array:
        machine, geometry = self.machine, self.machine.geometry
        state, documents = self.empty(len(fingerprints)), len(fingerprints)
        total = machine.number(fingerprints.offset[-1] - fingerprints.offset[0])
        rows = fingerprints.values, fingerprints.offset, np.int64(documents), self._multiplier, self._addend
        machine.run(
            *("fast_similarity", "first_round", total, geometry.span * (geometry.minhash_threads // LANES)),
            *(*rows, np.int32(self.columns), np.int32(geometry.span), state),
            threads=geometry.minhash_threads,
        )
        machine.run(
            *("fast_similarity", "later_rounds", documents, 1),
            *(*rows, np.int32(self.columns), state),
            threads=geometry.row_threads,
        )
        return state

    def finish(self, state: Array) -> Array:
        signatures = self.machine.arrays.empty(state.shape, np.uint32)
        self.machine.run(
            *("fast_similarity", "finish", state.size, self.machine.geometry.threads),
            *(state, np.int64(state.size), signatures),
        )
        return signatures
