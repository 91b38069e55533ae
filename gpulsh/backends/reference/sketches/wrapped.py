"""`wrapped`: a x + b modulo a power of two, then modulo a prime, in Python integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Values
from gpulsh.backends.reference.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_pairs


class Sketch(FunctionMinima):
    """What is left of a x + b in a word, modulo a prime, cut to the width of a signature's values."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._multiplier, self._addend = (words.tolist() for words in word_pairs(family))
        self._wrap, self.dtype = family.wrap, np.dtype(family.value_type).type

    def values(self, column: int, row: NDArray[np.uint64]) -> Values:
        a, b = self._multiplier[column], self._addend[column]
        values = [(a * x + b) % (1 << self._wrap.bits) % self._wrap.modulus for x in row.tolist()]
        return np.array(values, np.uint64).astype(self.dtype)
