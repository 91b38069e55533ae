"""simhash: a lane two bits, whose sums over a warp's fingerprints meet by atomic additions; then their signs."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import LANES, Machine


def simhash(machine: Machine, fingerprints: Fingerprints, keys: Array, weights: Array | None = None) -> Array:
    """Extra memory: 512 bytes a word of a row."""
    xp, geometry = machine.arrays, machine.geometry
    count, documents, warps = len(keys), len(fingerprints), geometry.minhash_threads // LANES
    sums, bits = xp.zeros((documents, count, 64), np.int64), xp.empty((documents, count), np.uint64)
    total = machine.number(fingerprints.offset[-1] - fingerprints.offset[0])
    rows = fingerprints.values, *(() if weights is None else (weights,)), fingerprints.offset, np.int64(documents)
    machine.run(
        *("simhash", "simhash" if weights is None else "simhash_weighted", total, geometry.span * warps),
        *(*rows, xp.asarray(keys), np.int32(geometry.span), sums),
        threads=geometry.minhash_threads,
        rows=count,
    )
    machine.run(
        *("simhash", "simhash_signs", documents * count, warps, sums, np.int64(documents * count), bits),
        threads=geometry.minhash_threads,
    )
    return bits
