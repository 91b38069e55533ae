"""band_digests of signatures in memory: a thread a digest. `sign` makes them of minima in registers instead."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.params import BandShape


def band_digests(machine: Machine, signatures: Array, shape: BandShape) -> Array:
    xp = machine.arrays
    documents, columns = signatures.shape
    digests = xp.empty((documents, shape.bands), np.uint64)
    kernel = "wide_band_digests" if signatures.dtype == np.uint64 else "band_digests"
    machine.run(
        *("band_digests", kernel, documents * shape.bands, machine.geometry.threads),
        *(xp.ascontiguousarray(signatures), np.int64(documents), np.int32(columns)),
        *(np.int32(shape.bands), np.int32(shape.rows), digests),
    )
    return digests
