"""What sketches that take minima have in common: they merge by the lesser value, and all ones mean none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpulsh.arrays import Fingerprints, Values
from gpulsh.params import Family


class Minima:
    """A minimum a column; fingerprints lie without gaps."""

    dtype: type[np.unsignedinteger] = np.uint32

    def __init__(self, family: Family) -> None:
        self._columns = family.num_perm

    def empty(self, rows: int) -> Values:
        return np.full((rows, self._columns), np.iinfo(self.dtype).max, self.dtype)

    def merge(self, state: Values, other: Values) -> Values:
        return np.minimum(state, other, out=state)

    def finish(self, state: Values) -> Values:
        return state


class FunctionMinima(Minima):
    """The minimum of each of a family's functions, by a kernel that is given `tables` of what was drawn for them."""

    def __init__(self, family: Family, kernel: Callable[..., object], *tables: Values | np.generic) -> None:
        super().__init__(family)
        self._kernel, self._tables = kernel, tables

    def fold(self, fingerprints: Fingerprints) -> Values:
        minima = self.empty(len(fingerprints))
        self._kernel(fingerprints.values, fingerprints.offset, *self._tables, minima)
        return minima
