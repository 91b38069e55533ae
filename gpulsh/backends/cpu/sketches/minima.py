"""What sketches that take minima have in common: they merge by the lesser value, and all ones mean none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from gpulsh.arrays import Fingerprints, Values
from gpulsh.params import Family


class Minima(ABC):
    """A minimum a column; fingerprints lie without gaps."""

    dtype: type[np.unsignedinteger] = np.uint32

    def __init__(self, family: Family) -> None:
        self.columns = family.num_perm

    def empty(self, rows: int) -> Values:
        return np.full((rows, self.columns), np.iinfo(self.dtype).max, self.dtype)

    def fold(self, fingerprints: Fingerprints) -> Values:
        minima = np.empty((len(fingerprints), self.columns), self.dtype)
        self.fold_into(fingerprints, minima)
        return minima

    def sign_into(self, fingerprints: Fingerprints, signatures: Values) -> None:
        """Leave the signature of every row in `signatures`, which serve for the state where that has their columns."""
        in_place = signatures.shape[1] == self.columns
        state = signatures if in_place else np.empty((len(fingerprints), self.columns), self.dtype)
        self.fold_into(fingerprints, state)
        finished = self.finish(state)
        if finished is not signatures:
            signatures[:] = finished

    @abstractmethod
    def fold_into(self, fingerprints: Fingerprints, minima: Values) -> None:
        """Leave the state of every row of fingerprints in `minima`, whatever that held."""

    def merge(self, state: Values, other: Values) -> Values:
        return np.minimum(state, other, out=state)

    def finish(self, state: Values) -> Values:
        return state


class FunctionMinima(Minima):
    """The minimum of each of a family's functions, by a kernel that is given `tables` of what was drawn for them."""

    def __init__(self, family: Family, kernel: Callable[..., object], *tables: Values | np.generic) -> None:
        super().__init__(family)
        self._kernel, self._tables = kernel, tables

    def fold_into(self, fingerprints: Fingerprints, minima: Values) -> None:
        minima.fill(np.iinfo(self.dtype).max)
        self._kernel(fingerprints.values, fingerprints.offset, *self._tables, minima)
