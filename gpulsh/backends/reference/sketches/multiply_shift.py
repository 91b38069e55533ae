"""MinHash by `multiply_shift`: the upper half of a x + b modulo 2^64, a fingerprint at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.reference.hashing import MASK
from gpulsh.backends.reference.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import words


class Sketch(FunctionMinima):
    """a x + b modulo 2^64, of which the upper half."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._words = words(family, 2 * family.num_perm)

    def values(self, column: int, row: NDArray[np.uint64]) -> NDArray[np.uint32]:
        a, b = self._words[2 * column] | 1, self._words[2 * column + 1]
        return np.array([(a * x + b & MASK) >> 32 for x in row.tolist()], np.uint32)
