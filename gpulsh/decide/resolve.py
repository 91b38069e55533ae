"""Resolves similar pairs into kept and dropped documents, all in decision order.

The kept documents are the lexicographically first maximal set without duplicates: a document is dropped exactly when an
earlier kept one is its duplicate. A definition leaves nothing to the order of work. `settle` decides in rounds all
documents whose earlier neighbours are decided (Blelloch, Fineman, Shun 2012: random orders take few rounds), and walks
what long chains leave. All but this walk is array code, in the memory of the backend: NumPy's or CuPy's arrays.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.large_buckets import LargeBucketJoin
from gpulsh.decide.relation import Edges
from gpulsh.lsh.pairs import order_by, order_of, packed, renumbered, unpacked
from gpulsh.ragged import first_of_runs

UNDECIDED, KEPT, DROPPED = 0, 1, 2
ROUNDS = 64
WALKED_AT_ONCE = 1 << 16  # pairs as Python's numbers


def settle(status: Array, start: int, stop: int, earlier: Array, later: Array, ops: Backend) -> None:
    """Decide the places [start, stop) of `status` int8 [n]; all places before are decided.

    `earlier` and `later` int64 [m] are pairs of places in decision order, `later` in the range.
    """
    view = status[start:stop]
    for _ in range(ROUNDS):
        open_pairs = (status[later] == UNDECIDED) & (status[earlier] != DROPPED)
        earlier, later = earlier[open_pairs], later[open_pairs]
        if len(later) == 0:
            break
        status[later[status[earlier] == KEPT]] = DROPPED
        blocked = np.zeros(stop - start, bool, like=status)
        blocked[later[status[later] == UNDECIDED] - start] = True
        view[(view == UNDECIDED) & ~blocked] = KEPT
    else:
        _walk(status, earlier, later, ops)
    view[view == UNDECIDED] = KEPT


def _walk(status: Array, earlier: Array, later: Array, ops: Backend) -> None:
    """Decide pair after pair on the host."""
    places, rows = renumbered(np.stack([later, earlier], axis=1), len(status))
    pairs = unpacked(ops.asnumpy(np.sort(packed(rows[:, 0], rows[:, 1]))))
    decided = bytearray(ops.asnumpy(status[places]))
    for start in range(0, len(pairs), WALKED_AT_ONCE):
        for j, i in pairs[start : start + WALKED_AT_ONCE].tolist():
            # All pairs with i as the later one came before this one: i stays if it is still undecided.
            if decided[i] != DROPPED:
                decided[i] = KEPT
                decided[j] = DROPPED
    status[places] = ops.asarray(np.frombuffer(decided, np.int8))


def resolved(
    status: Array, small: Edges, join: LargeBucketJoin | None, in_large: Numbers, ops: Backend
) -> Iterator[Edges]:
    """Decide `status` int8 [n] from its start; yield the verified pairs whose later document is decided, once each.

    `small` holds the verified pairs of small buckets; `in_large` [c] are the ascending places of the documents of
    `join`, on the host like its blocks.
    """
    count, done = len(status), 0
    if join is not None:
        by_later = small.where(order_of(small.later, count))
        for block in join.blocks():
            end = int(in_large[block.stop - 1]) + 1
            own, by_later = _cut(by_later, end, ops)
            with_kept, within = (part.named(in_large).moved(ops.asarray) for part in (block.with_kept, block.within))
            known = Edges.joined([own, with_kept, within])
            settle(status, done, end, known.earlier, known.later, ops)
            join.keep(block, ops.asnumpy(status[ops.asarray(in_large[block.start : block.stop])] == KEPT))
            # A pair of a small bucket and of a large one is there twice.
            found = Edges.joined([own, with_kept, within.where(status[within.earlier] == KEPT)])
            yield distinct_edges(found)
            done = end
        small = small.where(small.later >= done)  # keeps the order of pairs, so sorting again is fast
    settle(status, done, count, small.earlier, small.later, ops)
    yield small


def _cut(edges: Edges, end: int, ops: Backend) -> tuple[Edges, Edges]:
    """The edges, ordered by `later`, whose later document is before `end`, and the others."""
    at = int(ops.asnumpy(np.searchsorted(edges.later, ops.asarray(np.array([end]))))[0])
    return edges.where(slice(at)), edges.where(slice(at, None))


def witnesses(kept: Array, edges: Edges) -> Edges:
    """Each dropped place with its most similar earlier kept one, ties to the earlier; `later` ascends."""
    possible = edges.where(kept[edges.earlier] & ~kept[edges.later])
    ordered = possible.where(order_by(possible.later, -possible.similarity, possible.earlier))
    return ordered.where(first_of_runs(ordered.later))


def distinct_edges(edges: Edges) -> Edges:
    """Each edge once, lexicographic."""
    pairs = packed(edges.earlier, edges.later)
    order = np.argsort(pairs)  # equal pairs may come in any order, and an unstable sort is three times as fast
    return edges.where(order[first_of_runs(pairs[order])])
