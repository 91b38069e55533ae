"""collisions: a dictionary from digest to documents."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Buckets
from gpulsh.backends.protocol import NO_DIGEST


def collisions(digests: NDArray[np.uint64], ids: NDArray[np.int64]) -> Buckets:
    members: dict[int, list[int]] = defaultdict(list)
    for digest, document in zip(digests.tolist(), ids.tolist(), strict=True):
        if digest != NO_DIGEST:
            members[digest].append(document)
    buckets = [sorted(members[digest]) for digest in sorted(members) if len(members[digest]) > 1]
    offset = np.cumsum([0, *map(len, buckets)], dtype=np.int64)
    return Buckets(np.array([document for bucket in buckets for document in bucket], np.int64), offset)
