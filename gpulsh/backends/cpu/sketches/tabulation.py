"""MinHash by `tabulation`: tables turned so that neighbouring functions' entries for a byte lie side by side."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_array

_U = np.uint64
_S32, _S40, _S48, _S56 = _U(32), _U(40), _U(48), _U(56)
_BYTE = _U(0xFF)


@kernel
def _fold(values, offset, tables, minima):
    """`tables` uint32 [4, 256, functions]."""
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = values[i]
            first, second = tables[0, x >> _S32 & _BYTE], tables[1, x >> _S40 & _BYTE]
            third, fourth = tables[2, x >> _S48 & _BYTE], tables[3, x >> _S56]
            for f in range(least.size):
                least[f] = min(least[f], first[f] ^ second[f] ^ third[f] ^ fourth[f])


class Sketch(FunctionMinima):
    """The four bytes of a fingerprint's upper half choose four entries of a function's table."""

    def __init__(self, family: Family) -> None:
        drawn = (word_array(family, 1024 * family.num_perm) >> _S32).astype(np.uint32)
        super().__init__(family, _fold, drawn.reshape(-1, 4, 256).transpose(1, 2, 0).copy())
