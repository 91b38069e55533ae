"""collisions: the array module's stable radix sorts, then flags from neighbours."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Buckets
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.protocol import NO_DIGEST


def collisions(machine: Machine, digests: Array, ids: Array) -> Buckets:
    xp = machine.arrays
    present = digests != np.uint64(NO_DIGEST)
    digests, ids = digests[present], ids[present]
    if len(ids) == 0:
        return Buckets(xp.empty(0, np.int64), xp.zeros(1, np.int64))
    if not bool((ids[1:] >= ids[:-1]).all()):  # usually ids ascend already, which saves a sort
        order = xp.argsort(ids, kind="stable")
        digests, ids = digests[order], ids[order]
    order = xp.argsort(digests, kind="stable")
    digests, ids = digests[order], ids[order]
    same = digests[1:] == digests[:-1]
    none = xp.zeros(1, bool)
    like_previous = xp.concatenate((none, same))
    member = like_previous | xp.concatenate((same, none))
    ids, first = ids[member], ~like_previous[member]
    starts = xp.flatnonzero(first)
    return Buckets(ids, xp.concatenate((starts, xp.full(1, len(ids), starts.dtype))).astype(np.int64))
