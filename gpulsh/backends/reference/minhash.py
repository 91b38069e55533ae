"""minhash."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.protocol import NO_VALUE
from gpulsh.backends.reference.unique import rows_of
from gpulsh.permutations import Coefficients


def minhash(fingerprints: Fingerprints, coefficients: Coefficients) -> NDArray[np.uint32]:
    signatures = np.full((len(fingerprints), len(coefficients.multiplier)), NO_VALUE, np.uint32)
    for row, signature in zip(rows_of(fingerprints), signatures, strict=True):
        x = (row >> np.uint64(32)).astype(np.uint32)
        for i, (multiplier, addend) in enumerate(zip(coefficients.multiplier, coefficients.addend, strict=True)):
            signature[i] = (x * multiplier + addend).min(initial=NO_VALUE)
    return signatures
