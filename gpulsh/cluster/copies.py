"""Exact copies, folded before anything is compared: equal 128-bit hashes of equal token sequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.protocol import Backend


def first_copies(
    exact: NDArray[np.uint64], ids: NDArray[np.int64], rank: NDArray[np.int64], ops: Backend
) -> NDArray[np.int64]:
    """int64 [n]: for each document the first copy of it in decision order, itself where it is that or is alone.

    `exact` [n, 2] are the hashes, `ids` ascending positions of the documents with tokens, `rank` [n] the place of each
    in decision order.
    """
    first = np.arange(len(exact), dtype=np.int64)
    half_equal = ops.asnumpy(ops.collisions(ops.asarray(exact[ids, 0]), ops.asarray(ids)).ids)
    if len(half_equal) == 0:
        return first
    order = half_equal[np.lexsort((rank[half_equal], exact[half_equal, 1], exact[half_equal, 0]))]
    begins = np.concatenate([[True], (exact[order][1:] != exact[order][:-1]).any(axis=1)])
    first[order] = order[begins][np.cumsum(begins) - 1]
    return first
