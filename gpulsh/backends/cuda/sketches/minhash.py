"""MinHash: minima in the registers of a warp's lanes, over spans of fingerprints, whatever rows they belong to."""

from __future__ import annotations

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.keys import DeviceKeys
from gpulsh.backends.cuda.launcher import LANES, Machine
from gpulsh.backends.cuda.sketches.minhash_of_tokens import MAX_COLUMNS, columns_a_lane, sketch_digests
from gpulsh.backends.cuda.sketches.minima import Minima
from gpulsh.backends.cuda.tokens import TokenSums
from gpulsh.params import BandShape, Family
from gpulsh.permutations import Coefficients, coefficients


class Sketch(Minima):
    """The minima of the family's functions over a set."""

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        self.functions = Coefficients(*map(machine.arrays.asarray, coefficients(family)))

    def fold(self, fingerprints: Fingerprints) -> Array:
        lane = columns_a_lane(self.columns)
        rows = -(-self.columns // (LANES * lane))
        return self.by_spans("minhash", f"minhash_{lane}_columns", fingerprints, *self.functions, rows=rows)

    def digests(self, tokens: TokenSums, size: int, shape: BandShape, keys: DeviceKeys) -> tuple[Array, Array]:
        """In one kernel where a signature fits it: a longer one costs so much more arithmetic a fingerprint that what
        the separate kernels write is little beside it.
        """
        if self.columns > MAX_COLUMNS:
            return super().digests(tokens, size, shape, keys)
        return sketch_digests(self.machine, tokens, size, self.functions, shape)
