"""`wrapped`: division by a prime just below a power of two is an addition and a subtraction, since quotients are small.

Of a word of 64 bits and 2^61 - 1 the upper 3 bits are added to the lower 61; of the other two primes a word has no bits
above. Either way what comes out is below twice the prime.
"""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_pairs

_U = np.uint64


@kernel
def _fold(values, offset, multiplier, addend, word, low, shift, prime, cut, minima):
    """`word` and `cut` are the bits that are kept before and after, `low` those below `shift`, the prime's length."""
    for document in range(offset.size - 1):
        least = minima[document]
        for i in range(offset[document], offset[document + 1]):
            x = values[i]
            for f in range(least.size):
                value = (multiplier[f] * x + addend[f]) & word
                value = (value & low) + (value >> shift)
                value = (value - prime if value >= prime else value) & cut
                least[f] = min(_U(least[f]), value)


class Sketch(FunctionMinima):
    """What is left of a x + b in a word, modulo a prime, cut to the width of a signature's values."""

    def __init__(self, family: Family) -> None:
        wrap, shift = family.wrap, family.wrap.modulus.bit_length()
        self.dtype = np.dtype(family.value_type).type
        facts = (1 << wrap.bits) - 1, (1 << shift) - 1, shift, wrap.modulus, np.iinfo(self.dtype).max
        super().__init__(family, _fold, *word_pairs(family), *map(_U, facts))
