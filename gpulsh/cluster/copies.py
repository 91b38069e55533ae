"""Exact copies, folded before anything is compared: equal 128-bit hashes of equal token sequences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array
from gpulsh.backends.protocol import Backend

Ids = NDArray[np.int64]


def first_copies(
    exact: Array, ids: Array, rank: Callable[[Ids], Ids], ops: Backend, source: Callable[[Ids], Ids] | None = None
) -> tuple[Ids, Ids]:
    """The later copies, ascending, and for each the first copy of it in decision order: int64 [c], int64 [c].

    `exact` [n, 2] are hashes, `ids` ascending numbers of the rows that count, both in the backend's memory; `rank`
    gives of some of them numbers that ascend in decision order. With `source`, only documents of one source are copies.
    """
    members = ops.collisions(exact[ids, 0], ids).ids  # equal in one half; few, as a rule
    half_equal, hashes = ops.asnumpy(members), ops.asnumpy(exact[members])
    if source is not None:
        hashes = np.column_stack((hashes, source(half_equal).astype(np.uint64)))
    order = np.lexsort((rank(half_equal), *hashes.T))
    half_equal, hashes = half_equal[order], hashes[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (hashes[1:] != hashes[:-1]).any(axis=1)
    copies, first = half_equal[~begins], half_equal[begins][np.cumsum(begins) - 1][~begins]
    ascending = np.argsort(copies)
    return copies[ascending], first[ascending]
