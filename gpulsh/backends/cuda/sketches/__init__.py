"""Set sketches on the device: the way from tokens to band digests, minima in columns, and a file for each other kind.

`functions` has the families whose sketch is the minimum of single functions.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.buckets import band_digests
from gpulsh.backends.cuda.launcher import LANES, Argument
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.cuda.memory import done
from gpulsh.backends.cuda.texts import TokenSums, shingle_sums
from gpulsh.backends.hashing import FUNCTIONS
from gpulsh.backends.protocol import SketchFold
from gpulsh.params import BandShape, Family


def set_sketch(machine: Machine, family: Family) -> SketchFold:
    return AnywhereSketch(sketch_of(machine, family))


def sketch_of(machine: Machine, family: Family) -> DeviceSketch:
    """The sketch of a family; its random words are uploaded once."""

    def made() -> DeviceSketch:
        file = "functions" if family.sketch in FUNCTIONS else family.sketch
        sketch: DeviceSketch = import_module(f"{__name__}.{file}").Sketch(machine, family)
        return done(machine.arrays, sketch)

    found: DeviceSketch = machine.sketches.get_or_make(family, made)
    return found


class DeviceSketch(SketchFold):
    """A `SketchFold` that needs the machine's device to be the current one."""

    machine: Machine

    def digests(self, tokens: TokenSums, size: int, shape: BandShape) -> tuple[Array, Array]:
        """Band digests uint64 [n, bands] and numbers of shingles int64 [n], under public keys.

        A sketch may override it with a kernel that does not write the fingerprints.
        """
        fingerprints = shingle_sums(self.machine, tokens, size, None)
        signatures = self.finish(self.fold(fingerprints))
        return band_digests(self.machine, signatures, shape), self.machine.arrays.diff(fingerprints.offset)


class AnywhereSketch:
    """A `SketchFold` for any current device."""

    def __init__(self, sketch: DeviceSketch) -> None:
        there = sketch.machine.here()
        self.empty, self.fold = there(sketch.empty), there(sketch.fold)
        self.merge, self.finish = there(sketch.merge), there(sketch.finish)


class Minima(DeviceSketch):
    """A minimum a column: states merge by the lesser value, all ones mean none."""

    dtype: type[np.unsignedinteger] = np.uint32

    def __init__(self, machine: Machine, family: Family) -> None:
        self.machine, self.columns = machine, family.num_perm

    def empty(self, rows: int) -> Array:
        return self.machine.arrays.full((rows, self.columns), self.dtype(np.iinfo(self.dtype).max), self.dtype)

    def merge(self, state: Array, other: Array) -> Array:
        return self.machine.arrays.minimum(state, other)

    def finish(self, state: Array) -> Array:
        return state

    def by_spans(self, file: str, kernel: str, fingerprints: Fingerprints, *drawn: Argument, rows: int = 1) -> Array:
        """New minima, lowered by a kernel that takes a span of fingerprints a warp, across the borders of sets."""
        geometry, minima = self.machine.geometry, self.empty(len(fingerprints))
        total = self.machine.number(fingerprints.offset[-1] - fingerprints.offset[0])
        self.machine.run(
            *(file, kernel, total, geometry.span * (geometry.minhash_threads // LANES)),
            *(fingerprints.values, fingerprints.offset, np.int64(len(fingerprints)), *drawn),
            *(np.int32(self.columns), np.int32(geometry.span), minima),
            threads=geometry.minhash_threads,
            rows=rows,
        )
        return minima
