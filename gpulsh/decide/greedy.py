"""The lexicographically first maximal set without duplicates, found from verified pairs.

A document is dropped exactly when an earlier kept one is its duplicate. Rounds decide all documents at once whose
earlier neighbours are decided (Blelloch, Fineman, Shun 2012: on random orders the rounds are few); what a long chain
leaves undecided after some rounds is walked in order. The answer is a definition, so that no order of work can change
it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers

UNDECIDED, KEPT, DROPPED = 0, 1, 2
ROUNDS = 64
WALKED_AT_ONCE = 1 << 16  # pairs as Python's numbers


def settle(status: NDArray[np.int8], start: int, stop: int, earlier: Numbers, later: Numbers) -> None:
    """Decide the places [start, stop) of `status`, those before being decided.

    `earlier` and `later` int64 [m] are pairs of places in decision order; `later` lies in the range.
    """
    for _ in range(ROUNDS):
        open_pairs = (status[later] == UNDECIDED) & (status[earlier] != DROPPED)
        earlier, later = earlier[open_pairs], later[open_pairs]
        if len(later) == 0:
            break
        status[later[status[earlier] == KEPT]] = DROPPED
        blocked = np.zeros(stop - start, bool)
        blocked[later[status[later] == UNDECIDED] - start] = True
        undecided = status[start:stop] == UNDECIDED
        status[start:stop][undecided & ~blocked] = KEPT
    else:
        _walk(status, earlier, later)
    view = status[start:stop]
    view[view == UNDECIDED] = KEPT


def _walk(status: NDArray[np.int8], earlier: Numbers, later: Numbers) -> None:
    order = np.lexsort((earlier, later))
    decided = status.data
    for start in range(0, len(order), WALKED_AT_ONCE):
        some = order[start : start + WALKED_AT_ONCE]
        for i, j in zip(earlier[some].tolist(), later[some].tolist(), strict=True):
            # All pairs with i as the later one lie before this one: what is still undecided stays.
            if decided[i] != DROPPED:
                decided[i] = KEPT
                decided[j] = DROPPED
