"""intersect and what text_overlaps counts: Python sets, by & and |."""

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


def overlaps(fingerprints: Fingerprints, known: Fingerprints) -> NDArray[np.int64]:
    """int64 [n, k]: how many values each row has in common with each known one."""
    sets, others = ([set(row.tolist()) for row in rows_of(rows)] for rows in (fingerprints, known))
    return np.array([[len(one & other) for other in others] for one in sets], np.int64).reshape(len(sets), len(others))
