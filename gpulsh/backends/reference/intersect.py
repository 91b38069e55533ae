"""intersect: Python sets, by & and |."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.reference.unique import rows_of


def intersect(pairs: NDArray[np.int64], fingerprints: Fingerprints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    sets = [set(row.tolist()) for row in rows_of(fingerprints)]
    both = [len(sets[i] & sets[j]) for i, j in pairs.tolist()]
    either = [len(sets[i] | sets[j]) for i, j in pairs.tolist()]
    return np.array(both, np.int64), np.array(either, np.int64)
