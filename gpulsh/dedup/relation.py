"""Which documents may be dropped for which: all for all, or only within a source; protected ones for none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Relation:
    """By position: `source` int [n] where only documents of one source count as duplicates, None where all do; the
    first `protected` positions, which come first in decision order, too, are never dropped.
    """

    source: NDArray[np.int64] | None = None
    protected: int = 0

    def allows(self, earlier: NDArray[np.int64], later: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool [m]: whether each later document may be dropped for the earlier one."""
        allowed: NDArray[np.bool_] = later >= self.protected
        if self.source is not None:
            allowed &= self.source[earlier] == self.source[later]
        return allowed


ALL = Relation()
