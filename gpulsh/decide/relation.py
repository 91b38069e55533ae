"""Which documents may be dropped for which: all for all, or only within or only across sources; protected for none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers


@dataclass(frozen=True)
class Relation:
    """By position: `source` int [n] is None where all documents count as duplicates; otherwise only those of one
    source do, or, with `across`, only those of two. The first `protected` positions, which come first in decision
    order, too, are never dropped. For those from `asking` on nobody is.
    """

    source: Numbers | None = None
    protected: int = 0
    across: bool = False
    asking: int | None = None

    def speaks(self, documents: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether others may be dropped for each of `documents` [m]."""
        return np.ones(len(documents), bool) if self.asking is None else documents < self.asking

    def yields(self, documents: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether each of `documents` [m] may be dropped for others."""
        return documents >= self.protected

    def allows(self, earlier: Numbers, later: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether each later document may be dropped for the earlier one."""
        allowed = self.yields(later) & self.speaks(earlier)
        if self.source is not None:
            allowed &= (self.source[earlier] != self.source[later]) == self.across
        return allowed


ALL = Relation()
