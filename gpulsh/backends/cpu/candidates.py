"""candidates: every pair of every bucket packed into 64 bits, then sorted."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpulsh.arrays import Buckets

_U = np.uint64
_HALF = np.uint64(32)


@njit(nogil=True, cache=True, error_model="numpy")
def _pack_pairs(places, offset, out):
    written = 0
    for bucket in range(offset.size - 1):
        for a in range(offset[bucket], offset[bucket + 1]):
            for b in range(a + 1, offset[bucket + 1]):
                low, high = min(places[a], places[b]), max(places[a], places[b])
                if low != high:
                    out[written] = _U(low) << _HALF | _U(high)
                    written += 1
    return written


def candidates(buckets: Buckets) -> NDArray[np.int64]:
    if len(buckets.ids) == 0 or buckets.ids.max() < 1 << 32:
        known, places = None, buckets.ids
    else:  # ids beyond 32 bits are packed as places among the distinct ids, in the same order
        known, places = np.unique(buckets.ids, return_inverse=True)
    sizes = np.diff(buckets.offset)
    packed = np.empty(int((sizes * (sizes - 1) // 2).sum()), np.uint64)
    packed = np.sort(packed[: _pack_pairs(places, np.ascontiguousarray(buckets.offset), packed)])
    packed = packed[np.concatenate([np.ones(min(len(packed), 1), bool), packed[1:] != packed[:-1]])]
    pairs = np.empty((len(packed), 2), np.int64)
    pairs[:, 0], pairs[:, 1] = packed >> _HALF, packed & _U(0xFFFFFFFF)
    return pairs if known is None else known[pairs]
