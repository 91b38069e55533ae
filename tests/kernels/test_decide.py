"""The decision's array code on a device: rounds, witnesses, copies and tiles are those of NumPy's arrays."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.protocol import Sizes
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.decide import resolve
from gpulsh.decide.compare import grouped_by_tile
from gpulsh.decide.copies import first_copies
from gpulsh.decide.relation import Edges
from gpulsh.decide.resolve import settle, witnesses
from tests.kernels.cuts import DEFAULT_CUT, on_host

pytestmark = [pytest.mark.kernels, DEFAULT_CUT]
REFERENCE = ReferenceBackend()
PLACES = 15
pairs_of_places = st.lists(
    st.tuples(st.integers(0, PLACES - 1), st.integers(0, PLACES - 1)).filter(lambda pair: pair[0] < pair[1]),
    max_size=40,
    unique=True,
)


@given(pairs_of_places, st.sampled_from([1, 2, 64]), st.randoms(use_true_random=False))
def test_kept_documents_and_their_witnesses(
    cuda: CudaBackend, pairs: list[tuple[int, int]], rounds: int, chance: Random
) -> None:
    similar = {pair: chance.choice([0.8, 0.9, 1.0]) for pair in pairs}
    wanted: list[bool] = []
    for j in range(PLACES):
        wanted.append(not any(wanted[i] for i, later in pairs if later == j))
    best = {}
    for j in np.flatnonzero(~np.array(wanted)).tolist():
        best[j] = min((-similar[i, j], i) for i in range(j) if wanted[i] and (i, j) in similar)
    edges = Edges(*np.array(pairs, np.int64).reshape(-1, 2).T.copy(), np.array(list(similar.values()), np.float64))
    with pytest.MonkeyPatch.context() as patch, cuda.here():
        patch.setattr(resolve, "ROUNDS", rounds)
        for ops in (cuda, REFERENCE):
            there, status = edges.moved(ops.asarray), ops.asarray(np.zeros(PLACES, np.int8))
            settle(status, 0, PLACES, there.earlier, there.later, ops)
            assert (ops.asnumpy(status) == resolve.KEPT).tolist() == wanted
            found = witnesses(status == resolve.KEPT, there).moved(ops.asnumpy)
            rows = zip(found.later.tolist(), found.earlier.tolist(), found.similarity.tolist(), strict=True)
            assert list(rows) == [(j, i, -value) for j, (value, i) in sorted(best.items())]


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=30),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_copies(
    cuda: CudaBackend, rows: list[tuple[int, int, int, bool]], ranked: bool, by_source: bool, chance: Random
) -> None:
    """Halves of few values, so that rows often share one of them alone; by rank and position, with many copies."""
    columns = np.array(rows, np.int64).reshape(-1, 4)
    rank = np.array(chance.sample(range(len(rows)), len(rows)), np.int64)

    def copies(ops: Any) -> list[list[int]]:
        ids = ops.asarray(np.flatnonzero(columns[:, 3]))
        exact = ops.asarray(columns[:, :2].astype(np.uint64))
        by = ops.asarray(rank).__getitem__ if ranked else None
        source = ops.asarray(columns[:, 2].copy()).__getitem__ if by_source else None
        return [on_host(part).tolist() for part in first_copies(exact, ids, by, ops, source)]

    with cuda.here():
        assert copies(cuda) == copies(REFERENCE)


@settings(max_examples=20)
@given(pairs_of_places, st.lists(st.integers(0, 9), min_size=PLACES, max_size=PLACES), st.integers(1, 30))
def test_tiles(cuda: CudaBackend, pairs: list[tuple[int, int]], text: list[int], most: int) -> None:
    """Documents of a tile are no more than its bytes, components stay whole where they fit, and no pair is lost."""
    given, sizes = np.array(pairs, np.int64).reshape(-1, 2), np.array(text)
    component = REFERENCE.components(PLACES, given)
    cut = Sizes(batch=most, tile=most, largest_tile=2 * most)
    with cuda.here():
        for ops in (cuda, REFERENCE):
            order, spans = grouped_by_tile(ops.asarray(given), ops.asarray(sizes), cut, ops)
            order = ops.asnumpy(order)
            assert sorted(order.tolist()) == list(range(len(pairs)))
            assert [stop for _, stop in spans[:-1]] == [start for start, _ in spans[1:]]
            if ops is cuda:
                wanted = order.tolist(), spans
            assert (order.tolist(), spans) == wanted
            for start, stop in spans:
                members = np.unique(given[order[start:stop]])
                whole = np.unique(component[members])
                held = sum(min(int(sizes[component == label].sum()), 4 * most) for label in whole)
                assert sizes[members].sum() <= max(most + held, 4 * most + 2 * max(text))
