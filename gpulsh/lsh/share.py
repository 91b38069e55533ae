"""How counts become a similarity, in one place: what is compared with a threshold is the same float64 everywhere."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array


def share(part: Array, whole: Array) -> Array:
    """float64 [m]: how much of `whole` [m] the `part` [m] is, integers of NumPy or CuPy; 0 of nothing.

    Rounding is monotone: of counts that bound others the share bounds theirs.
    """
    return part.astype(np.float64) / np.maximum(whole, 1).astype(np.float64)
