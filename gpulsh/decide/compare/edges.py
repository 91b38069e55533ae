"""Pairs that are similar enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers


@dataclass(frozen=True)
class Edges:
    """Verified pairs: `earlier` and `later` int64 [m] in decision order, `similarity` float64 [m]."""

    earlier: Numbers
    later: Numbers
    similarity: NDArray[np.float64]

    @classmethod
    def joined(cls, parts: Sequence[Edges]) -> Edges:
        """Several, end to end."""
        columns = zip(*((part.earlier, part.later, part.similarity) for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))

    def where(self, chosen: NDArray[np.bool_] | Numbers | slice) -> Edges:
        """The edges that `chosen` marks (bool [m]), lists (int64) or spans."""
        if not isinstance(chosen, slice) and chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)  # once for all columns
        return Edges(self.earlier[chosen], self.later[chosen], self.similarity[chosen])

    def named(self, numbers: Numbers) -> Edges:
        """The same edges, each document by its number in `numbers` in place of its place there."""
        return Edges(numbers[self.earlier], numbers[self.later], self.similarity)
