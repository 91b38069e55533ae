"""simhash: a sum a bit, in Python integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.reference.hashing import mix64


def simhash(
    fingerprints: Fingerprints, keys: NDArray[np.uint64], weights: NDArray[np.int64] | None = None
) -> NDArray[np.uint64]:
    bits = np.zeros((len(fingerprints), len(keys)), np.uint64)
    weights = np.ones(len(fingerprints.values), np.int64) if weights is None else weights
    for row, found in enumerate(bits):
        here = slice(fingerprints.offset[row], fingerprints.offset[row + 1])
        weighed = list(zip(fingerprints.values[here].tolist(), weights[here].tolist(), strict=True))
        for word, key in enumerate(keys.tolist()):
            hashes = [(mix64(value ^ key), weight) for value, weight in weighed]
            sums = [sum(weight if hash_ >> bit & 1 else -weight for hash_, weight in hashes) for bit in range(64)]
            found[word] = sum(1 << bit for bit, total in enumerate(sums) if total > 0)
    return bits
