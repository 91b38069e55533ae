"""MinHash: minima in the registers of a warp's lanes, over spans of fingerprints across the borders of rows.

`Sketch.digests` goes from token sums to band digests: the hot path of `sign`, without fingerprints or signatures in
memory.
"""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import LANES
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.cuda.sketches import Minima
from gpulsh.backends.cuda.texts import TokenSums
from gpulsh.backends.protocol import NO_DIGEST, NO_VALUE
from gpulsh.params import BandShape, Family
from gpulsh.permutations import Coefficients, coefficients

MAX_COLUMNS = 512  # the longest signature that fits the kernel's shared memory


class Sketch(Minima):
    """The minima of the family's functions over a set."""

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        self.functions = Coefficients(*map(machine.arrays.asarray, coefficients(family)))

    def fold(self, fingerprints: Fingerprints) -> Array:
        lane = columns_a_lane(self.columns)
        rows = -(-self.columns // (LANES * lane))
        return self.by_spans("minhash", f"minhash_{lane}_columns", fingerprints, *self.functions, rows=rows)

    def digests(self, tokens: TokenSums, size: int, shape: BandShape) -> tuple[Array, Array]:
        """In one kernel if a signature fits its shared memory.

        A longer one needs so much more arithmetic for each fingerprint that the memory traffic of separate kernels
        hardly matters.
        """
        if self.columns > MAX_COLUMNS:
            return super().digests(tokens, size, shape)
        machine, xp, geometry = self.machine, self.machine.arrays, self.machine.geometry
        counts = tokens.counts(xp)
        shingles = xp.where(counts > 0, xp.maximum(counts - size, 0) + 1, 0)
        documents, total, threads = len(counts), len(tokens.sums), geometry.minhash_threads
        spans = -(-total // geometry.span)
        digests = xp.full((documents, shape.bands), np.uint64(NO_DIGEST), np.uint64)
        minima = xp.full((spans, self.columns), np.uint32(NO_VALUE), np.uint32)
        straddlers = xp.empty(spans, np.int64)
        columns, bands, rows = np.int32(self.columns), np.int32(shape.bands), np.int32(shape.rows)
        machine.run(
            *("sketch", f"sketch_{columns_a_lane(self.columns)}_columns", total, geometry.span * (threads // LANES)),
            *(tokens.sums, np.int64(total), tokens.starts, np.int64(documents), np.int32(tokens.skip), np.int32(size)),
            *(*self.functions, columns, bands, rows, np.int32(geometry.span), digests, minima, straddlers),
            threads=threads,
        )
        machine.run(
            *("sketch", "sketch_straddlers", spans, threads // LANES),
            *(minima, straddlers, np.int64(spans), columns, bands, rows, digests),
            threads=threads,
        )
        return digests, shingles


def columns_a_lane(columns: int) -> int:
    """How many minima a lane keeps, of the compiled variants: the number that leaves the fewest lanes idle.

    Of equal ones the largest: one read of a fingerprint then serves more minima.
    """
    return min((8, 4, 2), key=lambda lane: -(-columns // (LANES * lane)) * lane)
