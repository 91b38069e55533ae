"""C-MinHash: a column a lane; nothing is read but the fingerprints."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import words


class Sketch(FunctionMinima):
    """pi(sigma(x) + i), both modulo 2^32."""

    def __init__(self, machine: Machine, family: Family) -> None:
        multiplier, addend, keys = words(family, 3)
        drawn = np.uint64(multiplier | 1), np.uint64(addend), np.uint32(keys >> 32), np.uint32(keys & 0xFFFFFFFF)
        super().__init__(machine, family, *drawn)
