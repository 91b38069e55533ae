"""candidates."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Buckets


def candidates(buckets: Buckets) -> NDArray[np.int64]:
    ids, offset = buckets.ids.tolist(), buckets.offset.tolist()
    pairs = {pair for start, stop in pairwise(offset) for pair in combinations(sorted(set(ids[start:stop])), 2)}
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)
