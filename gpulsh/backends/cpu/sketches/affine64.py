"""`affine64`: functions in the inner loop, which the compiler makes vectors of."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_pairs


@kernel
def _fold(values, offset, multiplier, addend, minima):
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = values[i]
            for f in range(least.size):
                least[f] = min(least[f], multiplier[f] * x + addend[f])


class Sketch(FunctionMinima):
    """a x + b modulo 2^64."""

    dtype = np.uint64

    def __init__(self, family: Family) -> None:
        super().__init__(family, _fold, *word_pairs(family))
