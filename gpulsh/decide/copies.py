"""Finds exact copies before anything is compared: documents whose token sequences have equal 128-bit hashes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array
from gpulsh.backends.protocol import Backend
from gpulsh.lsh.collisions import bucket_of_member
from gpulsh.ragged import first_of_runs

Ids = NDArray[np.int64]
SPARSE = 8  # documents per copy from which the numbers of copies are sorted


def first_copies(
    exact: Array, ids: Array, rank: Callable[[Ids], Ids], ops: Backend, source: Callable[[Ids], Ids] | None = None
) -> tuple[Ids, Ids]:
    """The later copies, ascending, and the first copy of each in decision order: int64 [c], int64 [c].

    `exact` [n, 2] are hashes, and `ids` the ascending rows that count, both in the backend's memory. `rank` gives rows
    distinct numbers that ascend in decision order. With `source`, only documents of one source are copies.

    The backend sorts the first halves of the hashes, so rows that share one are neighbours. Hardly ever do their second
    halves differ; only then all are sorted by these, too.
    """
    if len(ids) < 2:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    met = ops.collisions(exact[ids, 0], ids)  # usually few
    if len(met) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    of_bucket = bucket_of_member(met)
    second = exact[met.ids, 1]
    whole = bool((second == second[met.offset[:-1]][of_bucket]).all())
    members, group = ops.asnumpy(met.ids), ops.asnumpy(of_bucket)
    if not whole or source is not None:
        sources = np.zeros(len(members), np.int64) if source is None else source(members)
        order = np.lexsort((sources, ops.asnumpy(second), group))
        members, sources, hashes, group = members[order], sources[order], ops.asnumpy(second)[order], group[order]
        begins = first_of_runs(group) | first_of_runs(hashes) | first_of_runs(sources)
        group = np.cumsum(begins) - 1
    return _later(members, group, rank(members), int(exact.shape[0]))


def _later(members: Ids, group: Ids, ranks: Ids, count: int) -> tuple[Ids, Ids]:
    """`members` [m], below `count`, except the first of each `group` [m], ascending; and that first."""
    starts = np.flatnonzero(first_of_runs(group))
    is_first = ranks == np.minimum.reduceat(ranks, starts)[group]
    first = members[is_first]
    copies, first = members[~is_first], first[group[~is_first]]
    if len(copies) * SPARSE < count:
        order = np.argsort(copies)
        return copies[order], first[order]
    first_of = np.full(count, -1, np.int64)
    first_of[copies] = first
    copies = np.flatnonzero(first_of >= 0)
    return copies, first_of[copies]
