"""MinHash by `affine61`: 122-bit products from products of halves, reduced by shifts: 2^61 is 1 modulo the prime."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_array

_U = np.uint64
_PRIME = _U((1 << 61) - 1)
_S3, _S29, _S32, _S61 = _U(3), _U(29), _U(32), _U(61)
_LOWER, _LOWEST_29 = _U(0xFFFFFFFF), _U((1 << 29) - 1)


@kernel
def _fold(values, offset, multiplier, addend, minima):
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = (values[i] & _PRIME) + (values[i] >> _S61)  # at most 7 beyond the prime
            upper, lower = x >> _S32, x & _LOWER  # 30 and 32 bits
            for f in range(least.size):
                a, b = multiplier[f] >> _S32, multiplier[f] & _LOWER
                middle = a * lower + b * upper  # below 2^62 + 2^62; times 2^32, of which 2^61 is 1
                value = ((a * upper) << _S3) + (middle >> _S29) + ((middle & _LOWEST_29) << _S32)
                value = (value & _PRIME) + (value >> _S61) + addend[f]
                product = b * lower
                value += (product & _PRIME) + (product >> _S61)
                value = (value & _PRIME) + (value >> _S61)
                least[f] = min(least[f], value - _PRIME if value >= _PRIME else value)


class Sketch(FunctionMinima):
    """a x + b modulo 2^61 - 1, a not 0."""

    dtype = np.uint64

    def __init__(self, family: Family) -> None:
        drawn = word_array(family, 2 * family.num_perm).reshape(-1, 2)
        super().__init__(family, _fold, drawn[:, 0] % (_PRIME - _U(1)) + _U(1), drawn[:, 1] % _PRIME)
