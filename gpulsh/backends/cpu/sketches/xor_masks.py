"""MinHash by `xor`: an exclusive-or and a minimum a function, in vectors that the compiler makes."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_array

_S32 = np.uint64(32)


@kernel
def _fold(values, offset, masks, minima):
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = np.uint32(values[i] >> _S32)
            for f in range(least.size):
                least[f] = min(least[f], x ^ masks[f])


class Sketch(FunctionMinima):
    """The fingerprint itself, then one mask a function."""

    def __init__(self, family: Family) -> None:
        drawn = (word_array(family, family.num_perm - 1) >> _S32).astype(np.uint32)
        super().__init__(family, _fold, np.concatenate([np.zeros(1, np.uint32), drawn]))
