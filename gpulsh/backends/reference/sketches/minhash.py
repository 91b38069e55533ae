"""MinHash by `affine32`: a function and a set at a time, as its definition says."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.reference.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import coefficients


class Sketch(FunctionMinima):
    """a x + b modulo 2^32."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._multiplier, self._addend = coefficients(family)

    def values(self, column: int, row: NDArray[np.uint64]) -> NDArray[np.uint32]:
        x = (row >> np.uint64(32)).astype(np.uint32)
        return np.asarray(x * self._multiplier[column] + self._addend[column])
