"""The common part of sketches that take minima, on one thread."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from gpulsh.arrays import Fingerprints, Values
from gpulsh.params import Family


class Minima(ABC):
    """A minimum a column: states merge by the lesser value, and all ones mean no value. Fingerprints have no gaps."""

    def __init__(self, family: Family) -> None:
        self.columns, self.dtype = family.num_perm, np.dtype(family.value_type)

    def empty(self, rows: int) -> Values:
        return np.full((rows, self.columns), np.iinfo(self.dtype).max, self.dtype)

    def fold(self, fingerprints: Fingerprints) -> Values:
        minima = np.empty((len(fingerprints), self.columns), self.dtype)
        self.fold_into(fingerprints, minima)
        return minima

    def sign_into(self, fingerprints: Fingerprints, signatures: Values) -> None:
        """Store the signature of every row in `signatures`, which also hold the state if it has their columns."""
        in_place = signatures.shape[1] == self.columns
        state = signatures if in_place else np.empty((len(fingerprints), self.columns), self.dtype)
        self.fold_into(fingerprints, state)
        finished = self.finish(state)
        if finished is not signatures:
            signatures[:] = finished

    @abstractmethod
    def fold_into(self, fingerprints: Fingerprints, minima: Values) -> None:
        """Store the state of every row of fingerprints in `minima`, whatever they held before."""

    def merge(self, state: Values, other: Values) -> Values:
        return np.minimum(state, other, out=state)

    def finish(self, state: Values) -> Values:
        return state
