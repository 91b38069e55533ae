"""MinHash by `xor`: the upper half of a fingerprint, exclusive-or a mask."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.reference.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import words


class Sketch(FunctionMinima):
    """The fingerprint itself, then one mask a function."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._masks = [0, *(word >> 32 for word in words(family, family.num_perm - 1))]

    def values(self, column: int, row: NDArray[np.uint64]) -> NDArray[np.uint32]:
        return np.array([x >> 32 ^ self._masks[column] for x in row.tolist()], np.uint32)
