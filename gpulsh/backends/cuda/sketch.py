"""Token sums to band digests: the hot path of `sign`, which writes neither fingerprints nor signatures."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.cuda.band_digests import band_digests
from gpulsh.backends.cuda.keys import DeviceKeys
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.minhash import LANES, columns_a_lane, minhash
from gpulsh.backends.cuda.shingle import TokenSums, shingle_tokens
from gpulsh.backends.protocol import NO_DIGEST, NO_VALUE
from gpulsh.params import BandShape
from gpulsh.permutations import Coefficients

MAX_COLUMNS = 512  # the longest signature that fits the kernel's shared memory


def sketch_digests(
    machine: Machine, tokens: TokenSums, size: int, coefficients: Coefficients, shape: BandShape, keys: DeviceKeys
) -> tuple[Array, Array]:
    """Band digests uint64 [n, bands] and numbers of shingles int64 [n]; `keys` are the public ones.

    `band_digests(minhash(shingle_tokens(...)))`, and that where a signature is longer than MAX_COLUMNS: a longer one
    costs so much more arithmetic a fingerprint that what the separate kernels write is little beside it.
    """
    xp, geometry = machine.arrays, machine.geometry
    counts = xp.maximum(xp.diff(tokens.starts) - tokens.skip, 0)
    shingles = xp.where(counts > 0, xp.maximum(counts - size, 0) + 1, 0)
    columns = len(coefficients.multiplier)
    if columns > MAX_COLUMNS:
        signatures = minhash(machine, shingle_tokens(machine, tokens, size, keys), coefficients)
        return band_digests(machine, signatures, shape), shingles

    documents, total, threads = len(counts), len(tokens.sums), geometry.minhash_threads
    spans = -(-total // geometry.span)
    digests = xp.full((documents, shape.bands), np.uint64(NO_DIGEST), np.uint64)
    minima = xp.full((spans, columns), np.uint32(NO_VALUE), np.uint32)
    straddlers = xp.empty(spans, np.int64)
    machine.run(
        *("sketch", f"sketch_{columns_a_lane(columns)}_columns", total, geometry.span * (threads // LANES)),
        *(tokens.sums, np.int64(total), tokens.starts, np.int64(documents), np.int32(tokens.skip), np.int32(size)),
        *(coefficients.multiplier, coefficients.addend, np.int32(columns)),
        *(np.int32(shape.bands), np.int32(shape.rows), np.int32(geometry.span), digests, minima, straddlers),
        threads=threads,
    )
    machine.run(
        *("sketch", "sketch_straddlers", spans, threads // LANES),
        *(minima, straddlers, np.int64(spans)),
        *(np.int32(columns), np.int32(shape.bands), np.int32(shape.rows), digests),
        threads=threads,
    )
    return digests, shingles
