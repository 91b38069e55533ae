"""Held documents that are similar to asking ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.protocol import Backend
from gpulsh.index.admission import Arrivals
from gpulsh.index.holdings import Holdings
from gpulsh.index.meetings import candidates
from gpulsh.index.parameters import IndexParameters
from gpulsh.index.readable import TEXT_BYTES, HeldDocuments, fingerprint_sets, of_both
from gpulsh.lsh.comparison import compare, exact, sizes_allow
from gpulsh.store.segments import Numbers

ROWS_AT_ONCE = 1 << 12  # of asking documents, so that their pairs with held ones stay few


def similar(
    arrivals: Arrivals, holdings: Holdings, parameters: IndexParameters, ops: Backend
) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    """Rows [m] of asking documents, ascending, numbers [m] of held ones and their Jaccard, highest first in a row."""
    asking = np.flatnonzero(arrivals.with_token)
    found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64))]
    for start in range(0, len(asking), ROWS_AT_ONCE):
        rows = asking[start : start + ROWS_AT_ONCE]
        held, pairs = candidates(arrivals.digests[rows], holdings)
        if len(pairs) == 0:
            continue
        sets = fingerprint_sets(arrivals.batch, rows, parameters.shingling, ops)
        similarity = _compared(held, pairs, sets, holdings, parameters.threshold, ops)
        chosen = np.flatnonzero(similarity >= parameters.threshold)
        place, row = pairs[chosen].T
        order = np.lexsort((held[place], -similarity[chosen], row))
        found.append((rows[row[order]], held[place[order]], similarity[chosen[order]]))
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))  # type: ignore[return-value]


def _compared(
    held: Numbers,
    pairs: NDArray[np.int64],
    sets: Fingerprints,
    holdings: Holdings,
    threshold: float,
    ops: Backend,
) -> NDArray[np.float64]:
    """Exact Jaccard float64 [m] of `pairs` (place in `held`, row of `sets`); -1 where it cannot reach `threshold`."""
    base = len(held)
    sizes = np.concatenate([holdings.sizes(held), np.diff(sets.offset)])
    joined = pairs + np.array([0, base])
    similarity = np.full(len(pairs), -1.0)
    allowed = np.flatnonzero(sizes_allow(sizes[joined[:, 0]], sizes[joined[:, 1]], threshold))

    def read(places: Numbers) -> Fingerprints:
        return of_both(places, base, lambda old: holdings.fingerprints(held[old]), sets)

    documents = HeldDocuments(read, np.arange(len(sizes)), ops)
    with ops.here():
        similarity[allowed] = compare(
            joined[allowed], sizes * TEXT_BYTES, documents, exact, threshold, ops, lambda done: None
        )
    return similarity
