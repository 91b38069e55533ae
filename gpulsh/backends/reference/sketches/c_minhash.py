"""C-MinHash: one permutation, shifted by one more place for each value, after another that breaks the set's order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.protocol import CIRCULANT_1, CIRCULANT_2
from gpulsh.backends.reference.hashing import MASK
from gpulsh.backends.reference.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import words

MASK_32 = (1 << 32) - 1


class Sketch(FunctionMinima):
    """pi(sigma(x) + i), both modulo 2^32."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._multiplier, self._addend, self._keys = words(family, 3)

    def values(self, column: int, row: NDArray[np.uint64]) -> NDArray[np.uint32]:
        return np.array([self._permuted(self._place(x) + column) for x in row.tolist()], np.uint32)

    def _place(self, x: int) -> int:
        return ((self._multiplier | 1) * x + self._addend & MASK) >> 32

    def _permuted(self, y: int) -> int:
        y &= MASK_32
        y = (y ^ y >> 16) * CIRCULANT_1 & MASK_32
        y ^= self._keys >> 32
        y = (y ^ y >> 15) * CIRCULANT_2 & MASK_32
        return (y ^ y >> 16) ^ self._keys & MASK_32
