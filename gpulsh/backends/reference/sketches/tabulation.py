"""MinHash by `tabulation`: a random number for each value of each byte, exclusive-or one another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.reference.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import words

BYTES = 4
ENTRIES = BYTES * 256  # of a function's table


class Sketch(FunctionMinima):
    """The four bytes of a fingerprint's upper half choose four entries of a function's table."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._table = words(family, ENTRIES * family.num_perm)

    def values(self, column: int, row: NDArray[np.uint64]) -> NDArray[np.uint32]:
        return np.array([self._value(column, x >> 32) for x in row.tolist()], np.uint32)

    def _value(self, column: int, x: int) -> int:
        value = 0
        for byte in range(BYTES):
            value ^= self._table[column * ENTRIES + byte * 256 + (x >> 8 * byte & 0xFF)] >> 32
        return value
