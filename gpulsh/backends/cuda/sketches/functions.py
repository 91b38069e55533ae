"""Families whose sketch is the minimum of each function over a set: a column a lane (kernels/functions.cu)."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import LANES
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.cuda.sketches import Minima
from gpulsh.backends.hashing import function_tables
from gpulsh.params import Family


class Sketch(Minima):
    """The minima, by the family's kernel."""

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        self.dtype = np.dtype(family.value_type).type
        self._kernel = f"wrapped_{family.value_type}" if family.sketch == "wrapped" else family.sketch
        tables = function_tables(family)
        self._tables = [machine.arrays.asarray(table) if isinstance(table, np.ndarray) else table for table in tables]

    def fold(self, fingerprints: Fingerprints) -> Array:
        return self.by_spans("functions", self._kernel, fingerprints, *self._tables, rows=-(-self.columns // LANES))
