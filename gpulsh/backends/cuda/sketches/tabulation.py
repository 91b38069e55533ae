"""MinHash by `tabulation`: a column a lane, tables turned so that the lanes of a warp read side by side."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_array


class Sketch(FunctionMinima):
    """The four bytes of a fingerprint's upper half choose four entries of a function's table."""

    def __init__(self, machine: Machine, family: Family) -> None:
        drawn = (word_array(family, 1024 * family.num_perm) >> np.uint64(32)).astype(np.uint32)
        super().__init__(machine, family, drawn.reshape(-1, 1024).T.copy())
