"""Resolves similar pairs into kept and dropped documents, all in decision order.

The kept documents are the lexicographically first maximal set without duplicates: a document is dropped exactly when an
earlier kept one is its duplicate. A definition leaves nothing to the order of work. `settle` decides in rounds all
documents whose earlier neighbours are decided (Blelloch, Fineman, Shun 2012: random orders take few rounds), and walks
what long chains leave.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.decide.large_buckets import LargeBucketJoin
from gpulsh.decide.relation import Edges
from gpulsh.lsh.pairs import order_of, packed
from gpulsh.ragged import first_of_runs

UNDECIDED, KEPT, DROPPED = 0, 1, 2
ROUNDS = 64
WALKED_AT_ONCE = 1 << 16  # pairs as Python's numbers


def settle(status: NDArray[np.int8], start: int, stop: int, earlier: Numbers, later: Numbers) -> None:
    """Decide the places [start, stop) of `status`; all places before are decided.

    `earlier` and `later` int64 [m] are pairs of places in decision order, `later` in the range.
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
            # All pairs with i as the later one came before this one: i stays if it is still undecided.
            if decided[i] != DROPPED:
                decided[i] = KEPT
                decided[j] = DROPPED


def resolve_kept(
    count: int, small: Edges, join: LargeBucketJoin | None, in_large: Numbers
) -> tuple[NDArray[np.bool_], Edges]:
    """(kept bool [count], all verified pairs), block by block where there are large buckets.

    `small` holds the verified pairs of small buckets; `in_large` [c] are the ascending places of the documents of
    `join`.
    """
    status = np.zeros(count, np.int8)
    if join is None:
        settle(status, 0, count, small.earlier, small.later)
        return status != DROPPED, small
    found, done = [small], 0
    small = small.where(order_of(small.later, count))
    for block in join.blocks():
        end = int(in_large[block.stop - 1]) + 1
        with_kept, within = block.with_kept.named(in_large), block.within.named(in_large)
        known = Edges.joined([_later_in(small, done, end), with_kept, within])
        settle(status, done, end, known.earlier, known.later)
        join.keep(block, status[in_large[block.start : block.stop]] == KEPT)
        found += [with_kept, within.where(status[within.earlier] == KEPT)]
        done = end
    rest = _later_in(small, done, count)
    settle(status, done, count, rest.earlier, rest.later)
    return status != DROPPED, distinct_edges(found)


def _later_in(edges: Edges, start: int, stop: int) -> Edges:
    return edges.where(slice(*np.searchsorted(edges.later, [start, stop])))


def witnesses(kept: NDArray[np.bool_], edges: Edges) -> Edges:
    """Each dropped place with its most similar earlier kept one, ties to the earlier; `later` ascends."""
    possible = edges.where(kept[edges.earlier] & ~kept[edges.later])
    ordered = possible.where(np.lexsort((possible.earlier, -possible.similarity, possible.later)))
    return ordered.where(first_of_runs(ordered.later))


def first_places(component: Numbers) -> Numbers:
    """int64 [count]: the first place of each place's component."""
    _, first, which = np.unique(component, return_index=True, return_inverse=True)
    return first[which]


def distinct_edges(parts: list[Edges]) -> Edges:
    """The edges of all parts, each once, lexicographic."""
    edges = Edges.joined(parts)
    pairs = packed(edges.earlier, edges.later)
    order = np.argsort(pairs, kind="stable")
    return edges.where(order[first_of_runs(pairs[order])])
