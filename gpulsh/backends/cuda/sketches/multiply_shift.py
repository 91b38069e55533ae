"""MinHash by `multiply_shift`: a column a lane."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_array


class Sketch(FunctionMinima):
    """a x + b modulo 2^64, of which the upper half."""

    def __init__(self, machine: Machine, family: Family) -> None:
        drawn = word_array(family, 2 * family.num_perm).reshape(-1, 2)
        super().__init__(machine, family, drawn[:, 0] | np.uint64(1), drawn[:, 1].copy())
