"""`mix64` of arrays of NumPy or CuPy."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.protocol import MIX_1, MIX_2


def mixed(x: Array) -> Array:
    """`mix64` of each of uint64 `x`."""
    x = (x ^ x >> np.uint64(27)) * np.uint64(MIX_1)
    x = (x ^ x >> np.uint64(33)) * np.uint64(MIX_2)
    return x ^ x >> np.uint64(27)
