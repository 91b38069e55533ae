"""Held documents that are similar to asking ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare.prefix_join import Edges
from gpulsh.index.admission import Arrivals
from gpulsh.index.comparing import Compared, compared
from gpulsh.index.holdings import Holdings
from gpulsh.index.meetings import meet
from gpulsh.index.readable import fingerprint_sets
from gpulsh.index.segments.segment import Numbers
from gpulsh.lsh.collisions import first_of_runs, packed
from gpulsh.method import Method


def similar(
    arrivals: Arrivals, holdings: Holdings, method: Method, ops: Backend
) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    """Rows [m] of asking documents, ascending, numbers [m] of held ones and their Jaccard, highest first in a row."""
    asking = np.flatnonzero(arrivals.with_token)
    with ops.here():
        met = meet(arrivals.digests[asking], holdings, ops, one_another=False)
        sets = fingerprint_sets(arrivals.batch, asking, method.shingling, arrivals.keys, ops)
        found = list(_with_held(compared(met, sets, holdings, method.threshold, ops), len(met.held)))
    held, place = (np.concatenate([getattr(edges, side) for edges in found]) for side in ("earlier", "later"))
    similarity = np.concatenate([edges.similarity for edges in found])
    once = np.argsort(packed(held, place), kind="stable")  # a pair may share small buckets and large ones
    once = once[first_of_runs(packed(held, place)[once])]
    number, row, similarity = met.held[held[once]], asking[place[once] - len(met.held)], similarity[once]
    order = np.lexsort((number, -similarity, row))
    return row[order], number[order], similarity[order]


def _with_held(found: Compared, base: int) -> Iterator[Edges]:
    """The pairs of held documents, places below `base`, with asking ones; these stay nowhere."""
    yield found.small
    for block in found.join.blocks() if found.join else ():
        for edges in (block.with_kept, block.within):
            earlier, later = found.crowd[edges.earlier], found.crowd[edges.later]
            yield Edges(earlier, later, edges.similarity).where(earlier < base)
        assert found.join is not None
        found.join.keep(block, found.crowd[block.start : block.stop] < base)
