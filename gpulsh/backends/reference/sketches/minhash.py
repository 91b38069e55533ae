"""MinHash: a function and a set at a time, as Broder 1997 defines it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.protocol import NO_VALUE
from gpulsh.backends.reference.unique import rows_of
from gpulsh.params import Family
from gpulsh.permutations import coefficients


class Sketch:
    """The minima of the family's functions over a set."""

    def __init__(self, family: Family) -> None:
        self._functions = coefficients(family)

    def empty(self, rows: int) -> NDArray[np.uint32]:
        return np.full((rows, len(self._functions.multiplier)), NO_VALUE, np.uint32)

    def fold(self, fingerprints: Fingerprints) -> NDArray[np.uint32]:
        minima = self.empty(len(fingerprints))
        for row, least in zip(rows_of(fingerprints), minima, strict=True):
            x = (row >> np.uint64(32)).astype(np.uint32)
            for i, (multiplier, addend) in enumerate(zip(*self._functions, strict=True)):
                least[i] = (x * multiplier + addend).min(initial=NO_VALUE)
        return minima

    def merge(self, state: NDArray[np.uint32], other: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return np.minimum(state, other)

    def finish(self, state: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return state
