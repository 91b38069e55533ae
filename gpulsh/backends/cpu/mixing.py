"""`mix64` as kernels call it."""

from __future__ import annotations

import numpy as np

from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import subroutine

_MIX_1, _MIX_2 = np.uint64(protocol.MIX_1), np.uint64(protocol.MIX_2)
_S27, _S33 = np.uint64(27), np.uint64(33)


@subroutine
def mixed(x):
    """`mix64` of a uint64."""
    x = (x ^ x >> _S27) * _MIX_1
    x = (x ^ x >> _S33) * _MIX_2
    return x ^ x >> _S27
