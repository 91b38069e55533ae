"""What sketches that take minima have in common: they merge by the lesser value, and all ones mean none."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends.reference.unique import rows_of
from gpulsh.params import Family


class Minima:
    """A minimum a column."""

    dtype: type[np.unsignedinteger] = np.uint32

    def __init__(self, family: Family) -> None:
        self._columns = family.num_perm

    def empty(self, rows: int) -> Values:
        return np.full((rows, self._columns), np.iinfo(self.dtype).max, self.dtype)

    def merge(self, state: Values, other: Values) -> Values:
        return np.minimum(state, other)

    def finish(self, state: Values) -> Values:
        return state


class FunctionMinima(Minima):
    """The minimum of each of a family's functions, a set at a time."""

    @abstractmethod
    def values(self, column: int, row: NDArray[np.uint64]) -> Values:
        """Function number `column` of every fingerprint of a row."""

    def fold(self, fingerprints: Fingerprints) -> Values:
        minima = self.empty(len(fingerprints))
        for row, least in zip(rows_of(fingerprints), minima, strict=True):
            for column in range(self._columns if len(row) else 0):
                least[column] = self.values(column, row).min()
        return minima
