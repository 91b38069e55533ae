"""candidates."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Buckets
from gpulsh.backends.cuda.launcher import Machine


def candidates(machine: Machine, buckets: Buckets) -> Array:
    xp, threads = machine.arrays, machine.geometry.threads
    if len(buckets) == 0:
        return xp.empty((0, 2), np.int64)
    sizes = xp.diff(buckets.offset)
    ends = xp.cumsum(sizes * (sizes - 1) // 2)
    pairs = int(ends[-1])
    if pairs == 0:
        return xp.empty((0, 2), np.int64)
    common = (buckets.ids, buckets.offset, np.int64(len(buckets)), ends, np.int64(pairs))
    if int(buckets.ids.max()) < 2**32:
        keys = xp.empty(pairs, np.uint64)
        machine.run("candidates", "candidates_keys", pairs, threads, *common, keys)
        keys = xp.sort(keys)
        low, high = (keys >> np.uint64(32)).astype(np.int64), (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    else:
        low, high = xp.empty(pairs, np.int64), xp.empty(pairs, np.int64)
        machine.run("candidates", "candidates_pairs", pairs, threads, *common, low, high)
        order = xp.argsort(high, kind="stable")
        order = order[xp.argsort(low[order], kind="stable")]
        low, high = low[order], high[order]
    fresh = xp.ones(pairs, bool)
    fresh[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    fresh &= low != high  # an id that stands twice in a bucket
    return xp.stack((low[fresh], high[fresh]), axis=1)
