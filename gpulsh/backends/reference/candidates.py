"""candidates: the set of all combinations within each bucket."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Buckets


def candidates(buckets: Buckets, first: tuple[int, int] | None = None) -> NDArray[np.int64]:
    ids, offset = buckets.ids.tolist(), buckets.offset.tolist()
    pairs = {pair for start, stop in pairwise(offset) for pair in combinations(sorted(set(ids[start:stop])), 2)}
    if first is not None:
        pairs = {(i, j) for i, j in pairs if first[0] <= i < first[1]}
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)
