"""minhash."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.protocol import NO_VALUE
from gpulsh.permutations import Coefficients

COLUMNS = 128  # a warp


def minhash(machine: Machine, fingerprints: Fingerprints, coefficients: Coefficients) -> Array:
    xp, geometry = machine.arrays, machine.geometry
    documents, columns = len(fingerprints), len(coefficients.multiplier)
    signatures = xp.full((documents, columns), np.uint32(NO_VALUE), np.uint32)
    total = int(fingerprints.offset[-1]) - int(fingerprints.offset[0])
    threads = geometry.minhash_threads
    machine.run(
        *("minhash", "minhash", total, geometry.span * (threads // 32)),
        *(fingerprints.values, fingerprints.offset, np.int64(documents)),
        *(xp.asarray(coefficients.multiplier), xp.asarray(coefficients.addend), np.int32(columns)),
        *(np.int64(geometry.span), signatures),
        threads=threads,
        rows=-(-columns // COLUMNS),
    )
    return signatures
