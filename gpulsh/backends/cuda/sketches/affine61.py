"""MinHash by `affine61`: a column a lane."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_array


class Sketch(FunctionMinima):
    """a x + b modulo 2^61 - 1, a not 0."""

    dtype = np.uint64

    def __init__(self, machine: Machine, family: Family) -> None:
        drawn, prime = word_array(family, 2 * family.num_perm).reshape(-1, 2), np.uint64((1 << 61) - 1)
        super().__init__(machine, family, drawn[:, 0] % (prime - np.uint64(1)) + np.uint64(1), drawn[:, 1] % prime)
