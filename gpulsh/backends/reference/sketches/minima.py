"""The common part of sketches that take minima: they merge by the lesser value, and all ones mean no value."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Values
from gpulsh.params import Family


class Minima:
    """A minimum a column."""

    def __init__(self, family: Family) -> None:
        self._columns, self._type = family.num_perm, np.dtype(family.value_type)

    def empty(self, rows: int) -> Values:
        return np.full((rows, self._columns), np.iinfo(self._type).max, self._type)

    def merge(self, state: Values, other: Values) -> Values:
        return np.minimum(state, other)

    def finish(self, state: Values) -> Values:
        return state
