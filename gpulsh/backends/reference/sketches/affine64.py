"""`affine64`: a x + b modulo 2^64, a fingerprint at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.reference.hashing import MASK
from gpulsh.backends.reference.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_pairs


class Sketch(FunctionMinima):
    """a x + b modulo 2^64."""

    dtype = np.uint64

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._multiplier, self._addend = (words.tolist() for words in word_pairs(family))

    def values(self, column: int, row: NDArray[np.uint64]) -> NDArray[np.uint64]:
        a, b = self._multiplier[column], self._addend[column]
        return np.array([a * x + b & MASK for x in row.tolist()], np.uint64)
