"""C-MinHash: two permutations in place of one a value; it costs more arithmetic than `affine32`, and no tables."""

from __future__ import annotations

import numpy as np

from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import words

_U32 = np.uint32
_S15, _S16, _S32 = _U32(15), _U32(16), np.uint64(32)
_CIRCULANT_1, _CIRCULANT_2 = _U32(protocol.CIRCULANT_1), _U32(protocol.CIRCULANT_2)


@kernel
def _fold(values, offset, multiplier, addend, inner, outer, minima):
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            place = _U32((multiplier * values[i] + addend) >> _S32)
            for f in range(least.size):
                y = _U32(place + _U32(f))
                y = _U32(_U32(y ^ y >> _S16) * _CIRCULANT_1) ^ inner
                y = _U32(_U32(y ^ y >> _S15) * _CIRCULANT_2)
                least[f] = min(least[f], y ^ y >> _S16 ^ outer)


class Sketch(FunctionMinima):
    """pi(sigma(x) + i), both modulo 2^32."""

    def __init__(self, family: Family) -> None:
        multiplier, addend, keys = words(family, 3)
        drawn = np.uint64(multiplier | 1), np.uint64(addend), _U32(keys >> 32), _U32(keys & 0xFFFFFFFF)
        super().__init__(family, _fold, *drawn)
