"""MinHash by `multiply_shift`: functions in the inner loop, which the compiler makes vectors of."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_array

_S32 = np.uint64(32)


@kernel
def _fold(values, offset, multiplier, addend, minima):
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = values[i]
            for f in range(least.size):
                least[f] = min(least[f], np.uint32((multiplier[f] * x + addend[f]) >> _S32))


class Sketch(FunctionMinima):
    """a x + b modulo 2^64, of which the upper half."""

    def __init__(self, family: Family) -> None:
        drawn = word_array(family, 2 * family.num_perm).reshape(-1, 2)
        super().__init__(family, _fold, drawn[:, 0] | np.uint64(1), drawn[:, 1].copy())
