"""Finds the held documents that are similar to those asked about."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.relation import Relation
from gpulsh.index.admission import Arrivals
from gpulsh.index.holdings import Holdings
from gpulsh.index.meetings import meet
from gpulsh.index.readable import fingerprint_sets
from gpulsh.method import Method


def similar(
    arrivals: Arrivals, holdings: Holdings, method: Method, ops: Backend
) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    """Rows [m] of asking documents, ascending, numbers [m] of held ones and their Jaccard, highest first in a row."""
    asking = np.flatnonzero(arrivals.with_token)
    with ops.here():
        met = meet(arrivals.digests[asking], holdings, ops, one_another=False)
        base = len(met.held)
        sets = fingerprint_sets(arrivals.batch, asking, method.shingling, arrivals.keys, ops)
        meeting = met.compared_by(sets, holdings, Relation(protected=base, asking=base), method, ops)
        _, edges = meeting.resolve(meeting.similar())
    number, row = met.held[edges.earlier], asking[edges.later - base]
    order = np.lexsort((number, -edges.similarity, row))
    return row[order], number[order], edges.similarity[order]
