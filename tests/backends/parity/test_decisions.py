"""The decision's array code in every backend's memory: rounds, witnesses, copies and tiles."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.backends.protocol import Backend, Sizes
from gpulsh.decide import resolve
from gpulsh.decide.compare import grouped_by_tile
from gpulsh.decide.copies import first_copies
from gpulsh.decide.relation import Edges
from gpulsh.decide.resolve import settle, witnesses
from tests.backends.parity.agreement import REFERENCE

PLACES = 15
place = st.integers(0, PLACES - 1)
pairs_of_places = st.lists(st.tuples(place, place).filter(lambda pair: pair[0] < pair[1]), max_size=40, unique=True)


@given(pairs_of_places, st.integers(0, PLACES), st.sampled_from([1, 2, 64]), st.randoms(use_true_random=False))
def test_the_greedy_in_rounds_and_in_order(
    ops: Backend, pairs: list[tuple[int, int]], cut: int, rounds: int, chance: Random
) -> None:
    similar = {pair: chance.choice([0.8, 0.9, 1.0]) for pair in pairs}
    wanted: list[bool] = []
    for j in range(PLACES):
        wanted.append(not any(wanted[i] for i, later in pairs if later == j))
    best = {}
    for j in np.flatnonzero(~np.array(wanted)).tolist():
        best[j] = min((-similar[i, j], i) for i in range(j) if wanted[i] and (i, j) in similar)
    edges = Edges(*np.array(pairs, np.int64).reshape(-1, 2).T.copy(), np.array(list(similar.values()), np.float64))
    with pytest.MonkeyPatch.context() as patch, ops.here():
        patch.setattr(resolve, "ROUNDS", rounds)
        there, status = edges.moved(ops.asarray), ops.asarray(np.zeros(PLACES, np.int8))
        for start, stop in ((0, cut), (cut, PLACES)):
            inside = (there.later >= start) & (there.later < stop)
            settle(status, start, stop, there.earlier[inside], there.later[inside], ops)
        assert (ops.asnumpy(status) == resolve.KEPT).tolist() == wanted
        found = witnesses(status == resolve.KEPT, there).moved(ops.asnumpy)
    rows = zip(found.later.tolist(), found.earlier.tolist(), found.similarity.tolist(), strict=True)
    assert list(rows) == [(j, i, -value) for j, (value, i) in sorted(best.items())]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=30),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_copies_are_those_of_a_plain_search(
    ops: Backend, rows: list[tuple[int, int, int, bool]], by_source: bool, chance: Random
) -> None:
    """Halves of few values, so that rows often share one of them alone."""
    rank = chance.sample(range(len(rows)), len(rows))
    columns, ranks = np.array(rows, np.int64).reshape(-1, 4), np.array(rank, np.int64)
    groups: dict[Any, list[int]] = {}
    for number, row in enumerate(rows):
        if row[3]:
            groups.setdefault(row[: 3 if by_source else 2], []).append(number)
    firsts = {number: min(group, key=rank.__getitem__) for group in groups.values() for number in group}
    wanted = sorted((number, first) for number, first in firsts.items() if number != first)
    ids = np.flatnonzero(columns[:, 3])
    with ops.here():
        exact, by_rank = ops.asarray(columns[:, :2].astype(np.uint64)), ops.asarray(ranks).__getitem__
        of_row = ops.asarray(columns[:, 2].copy()).__getitem__ if by_source else None
        for some, by in ((ids, by_rank), (ids[np.argsort(ranks[ids])], None)):
            found = first_copies(exact, ops.asarray(some), by, ops, of_row)
            assert list(zip(*(ops.asnumpy(part).tolist() for part in found), strict=True)) == wanted


@settings(max_examples=20)
@given(pairs_of_places, st.lists(st.integers(0, 9), min_size=PLACES, max_size=PLACES), st.integers(1, 30))
def test_tiles(ops: Backend, pairs: list[tuple[int, int]], text: list[int], most: int) -> None:
    """Documents of a tile are no more than its bytes, components stay whole where they fit, and no pair is lost."""
    given, sizes = np.array(pairs, np.int64).reshape(-1, 2), np.array(text)
    component = REFERENCE.components(PLACES, given)
    cut = Sizes(batch=most, tile=most, largest_tile=2 * most)
    wanted_order, wanted_spans = grouped_by_tile(given, sizes, cut, REFERENCE)
    with ops.here():
        found, spans = grouped_by_tile(ops.asarray(given), ops.asarray(sizes), cut, ops)
    order = ops.asnumpy(found)
    assert (order.tolist(), spans) == (wanted_order.tolist(), wanted_spans)
    assert sorted(order.tolist()) == list(range(len(pairs)))
    assert [stop for _, stop in spans[:-1]] == [start for start, _ in spans[1:]]
    for start, stop in spans:
        members = np.unique(given[order[start:stop]])
        whole = np.unique(component[members])
        held = sum(min(int(sizes[component == label].sum()), 4 * most) for label in whole)
        assert sizes[members].sum() <= max(most + held, 4 * most + 2 * max(text))
