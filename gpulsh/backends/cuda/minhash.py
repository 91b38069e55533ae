"""minhash."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.protocol import NO_VALUE
from gpulsh.permutations import Coefficients

LANES = 32


def columns_a_lane(columns: int) -> int:
    """How many minima a lane keeps, of the variants that are compiled: what leaves the fewest lanes without work.

    The most among equals, because one read of a fingerprint then serves more of them.
    """
    return min((8, 4, 2), key=lambda lane: -(-columns // (LANES * lane)) * lane)


def minhash(machine: Machine, fingerprints: Fingerprints, coefficients: Coefficients) -> Array:
    xp, geometry = machine.arrays, machine.geometry
    documents, columns = len(fingerprints), len(coefficients.multiplier)
    signatures = xp.full((documents, columns), np.uint32(NO_VALUE), np.uint32)
    total = machine.number(fingerprints.offset[-1] - fingerprints.offset[0])
    threads, lane = geometry.minhash_threads, columns_a_lane(columns)
    machine.run(
        *("minhash", f"minhash_{lane}_columns", total, geometry.span * (threads // LANES)),
        *(fingerprints.values, fingerprints.offset, np.int64(documents)),
        *(coefficients.multiplier, coefficients.addend, np.int32(columns)),
        *(np.int32(geometry.span), signatures),
        threads=threads,
        rows=-(-columns // (LANES * lane)),
    )
    return signatures
