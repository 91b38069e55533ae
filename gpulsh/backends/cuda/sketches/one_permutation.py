"""One permutation hashing: an atomic minimum a fingerprint, and a warp a document to fill what stayed empty."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import LANES
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.cuda.sketches import Minima
from gpulsh.params import Family
from gpulsh.permutations import words


class Sketch(Minima):
    """The least value in each of `num_perm` bins."""

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        multiplier, addend, probe = words(family, 3)
        self._multiplier, self._addend, self._probe = np.uint64(multiplier | 1), np.uint64(addend), np.uint64(probe)

    def fold(self, fingerprints: Fingerprints) -> Array:
        return self.by_spans("one_permutation", "one_permutation", fingerprints, self._multiplier, self._addend)

    def finish(self, state: Array) -> Array:
        machine, threads = self.machine, self.machine.geometry.minhash_threads
        signatures = machine.arrays.empty(state.shape, np.uint32)
        machine.run(
            *("one_permutation", "one_permutation_fill", len(state), threads // LANES),
            *(state, np.int64(len(state)), np.int32(self.columns), self._probe, signatures),
            threads=threads,
        )
        return signatures
