"""MinHash by `affine61`: a x + b modulo the prime 2^61 - 1, in Python integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.reference.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import words

PRIME = (1 << 61) - 1


class Sketch(FunctionMinima):
    """a x + b modulo 2^61 - 1, a not 0."""

    dtype = np.uint64

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._words = words(family, 2 * family.num_perm)

    def values(self, column: int, row: NDArray[np.uint64]) -> NDArray[np.uint64]:
        a, b = 1 + self._words[2 * column] % (PRIME - 1), self._words[2 * column + 1] % PRIME
        return np.array([(a * x + b) % PRIME for x in row.tolist()], np.uint64)
