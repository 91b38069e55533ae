"""Which documents may be dropped for which: all for all, or only within or only across sources; protected for none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Relation:
    """By position: `source` int [n] is None where all documents count as duplicates; otherwise only those of one
    source do, or, with `across`, only those of two. The first `protected` positions, which come first in decision
    order, too, are never dropped.
    """

    source: NDArray[np.int64] | None = None
    protected: int = 0
    across: bool = False

    def allows(self, earlier: NDArray[np.int64], later: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool [m]: whether each later document may be dropped for the earlier one."""
        allowed: NDArray[np.bool_] = later >= self.protected
        if self.source is not None:
            allowed &= (self.source[earlier] != self.source[later]) == self.across
        return allowed


ALL = Relation()
