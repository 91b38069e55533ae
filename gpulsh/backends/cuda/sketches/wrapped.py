"""`wrapped`: a column a lane."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_pairs


class Sketch(FunctionMinima):
    """What is left of a x + b in a word, modulo a prime, cut to the width of a signature's values."""

    def __init__(self, machine: Machine, family: Family) -> None:
        wrap = family.wrap
        word, prime, shift = np.uint64((1 << wrap.bits) - 1), np.uint64(wrap.modulus), wrap.modulus.bit_length()
        tables = *word_pairs(family), word, prime, np.int32(shift)
        super().__init__(machine, family, *tables, kernel=f"wrapped_{family.value_type}")
        self.dtype = np.dtype(family.value_type).type
