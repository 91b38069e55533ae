"""Set sketches: a `Sketch` of a family in a file each, or in `functions` for families of hash functions."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends.protocol import SketchFold
from gpulsh.backends.reference.rows import rows_of
from gpulsh.params import Family


def sketch_of(family: Family) -> SketchFold:
    """The sketch of a family."""
    from gpulsh.backends.reference.sketches.functions import FUNCTIONS

    file = "functions" if family.sketch in FUNCTIONS else family.sketch
    found: SketchFold = import_module(f"{__name__}.{file}").Sketch(family)
    return found


class Minima:
    """A minimum a column: states merge by the lesser value, and all ones mean no value."""

    def __init__(self, family: Family) -> None:
        self._columns, self._type = family.num_perm, np.dtype(family.value_type)

    def empty(self, rows: int) -> Values:
        return np.full((rows, self._columns), np.iinfo(self._type).max, self._type)

    def fold(self, fingerprints: Fingerprints) -> Values:
        minima = self.empty(len(fingerprints))
        for row, least in zip(rows_of(fingerprints), minima, strict=True):
            if len(row):
                self.lower(least, row.tolist())
        return minima

    def lower(self, least: Values, values: list[int]) -> None:
        """Lower the minima of a set that is not empty by its values."""
        raise NotImplementedError

    def merge(self, state: Values, other: Values) -> Values:
        return np.minimum(state, other)

    def finish(self, state: Values) -> Values:
        return state
