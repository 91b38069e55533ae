"""What sketches that take minima have in common: they merge by the lesser value, and all ones mean none."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import LANES, Argument, Machine
from gpulsh.backends.cuda.set_sketch import DeviceSketch
from gpulsh.params import Family


class Minima(DeviceSketch):
    """A minimum a column."""

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
        """Fresh minima, lowered by a kernel that takes a span of fingerprints a warp, whatever sets they are of."""
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


class FunctionMinima(Minima):
    """The minimum of each of a family's functions, by a kernel of its sketch's file: kernels/function_minima.cuh."""

    def __init__(self, machine: Machine, family: Family, *tables: Argument, kernel: str | None = None) -> None:
        super().__init__(machine, family)
        self._file, self._kernel = family.sketch, kernel or family.sketch
        self._tables = [machine.arrays.asarray(table) if isinstance(table, np.ndarray) else table for table in tables]

    def fold(self, fingerprints: Fingerprints) -> Array:
        return self.by_spans(self._file, self._kernel, fingerprints, *self._tables, rows=-(-self.columns // LANES))
