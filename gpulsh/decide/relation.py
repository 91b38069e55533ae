"""Which documents may be dropped for which: all for all, or only within or only across sources; protected for none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers


@dataclass(frozen=True)
class Relation:
    """By position: where `source` int [n] is given, only documents of one source are duplicates, or, with `across`,
    only those of two. The first `protected` positions, which also come first in decision order, are never dropped. No
    document is dropped for those from `asking` on.
    """

    source: Numbers | None = None
    protected: int = 0
    across: bool = False
    asking: int | None = None

    def can_be_witness(self, documents: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether others may be dropped for each of `documents` [m]."""
        return np.ones(len(documents), bool) if self.asking is None else documents < self.asking

    def can_be_dropped(self, documents: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether each of `documents` [m] may be dropped for others."""
        return documents >= self.protected

    def allows(self, earlier: Numbers, later: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether each later document may be dropped for the earlier one."""
        allowed = self.can_be_dropped(later) & self.can_be_witness(earlier)
        if self.source is not None:
            allowed &= (self.source[earlier] != self.source[later]) == self.across
        return allowed


ALL = Relation()
