"""A set sketch on the device, and the way from tokens to band digests that every sketch has."""

from __future__ import annotations

from gpulsh.arrays import Array
from gpulsh.backends.cuda.band_digests import band_digests
from gpulsh.backends.cuda.keys import DeviceKeys
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.shingle import shingle_sums
from gpulsh.backends.cuda.tokens import TokenSums
from gpulsh.backends.protocol import SketchFold
from gpulsh.params import BandShape


class DeviceSketch(SketchFold):
    """A `SketchFold` while the machine's device is the current one."""

    machine: Machine

    def digests(self, tokens: TokenSums, size: int, shape: BandShape, keys: DeviceKeys) -> tuple[Array, Array]:
        """Band digests uint64 [n, bands] and numbers of shingles int64 [n], under public `keys`.

        A sketch may have a way that does not write the fingerprints.
        """
        fingerprints = shingle_sums(self.machine, tokens, size, keys)
        signatures = self.finish(self.fold(fingerprints))
        return band_digests(self.machine, signatures, shape), self.machine.arrays.diff(fingerprints.offset)


class AnywhereSketch:
    """A `SketchFold` whichever device is the current one."""

    def __init__(self, sketch: DeviceSketch) -> None:
        there = sketch.machine.here()
        self.empty, self.fold = there(sketch.empty), there(sketch.fold)
        self.merge, self.finish = there(sketch.merge), there(sketch.finish)
