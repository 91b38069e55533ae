"""MinHash by `xor`: a column a lane."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.sketches.minima import FunctionMinima
from gpulsh.params import Family
from gpulsh.permutations import word_array


class Sketch(FunctionMinima):
    """The fingerprint itself, then one mask a function."""

    def __init__(self, machine: Machine, family: Family) -> None:
        drawn = (word_array(family, family.num_perm - 1) >> np.uint64(32)).astype(np.uint32)
        super().__init__(machine, family, np.concatenate([np.zeros(1, np.uint32), drawn]))
