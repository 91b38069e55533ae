"""`affine64`: a column a lane."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_pairs


class Sketch(FunctionMinima):
    """a x + b modulo 2^64."""

    dtype = np.uint64

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family, *word_pairs(family))
