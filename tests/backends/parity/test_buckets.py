"""Signatures to components and decisions, and the decision's array code, with rarely drawn arguments."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpulsh.arrays import Array, Values
from gpulsh.backends.protocol import INSTEAD_OF_NO_DIGEST, NO_DIGEST, NO_VALUE, Backend, Sizes
from gpulsh.decide import meeting
from gpulsh.decide.compare import order_by_tile
from gpulsh.decide.copies import first_copies
from gpulsh.decide.edges import Edges
from gpulsh.decide.meeting import settle, witnesses
from gpulsh.params import BandShape
from tests.backends.parity.agreement import REFERENCE, agree, fewer
from tests.backends.parity.test_any import buckets_of, candidates
from tests.support import naive

# Found by lattice reduction: each line is a band, 0 to 2, whose sum is what mixing maps to 2^64 - 1.
NO_DIGEST_BANDS = [
    *(2147484572, 2147483710, 2147483751, 2147483253, 2147483511, 2147484394),
    *(2147483843, 2147484473, 2147484032, 2147484056, 2147483727, 2147483005),
    *(2147483170, 2147483804, 2147483427, 2147484054, 2147484401, 2147482853),
]


def test_digests_of_long_bands_and_of_many_rows(ops: Backend) -> None:
    generator = np.random.default_rng(1)
    for rows in (1, 63, 64, 65, 130):
        signatures = generator.integers(0, 2**32, (7, 2 * rows + 1), np.uint32)
        signatures[[2, 4]] = NO_VALUE
        signatures[4, -1] = 0  # a value that no band takes, though the row is not all ones
        agree(ops, "band_digests", signatures, BandShape(bands=2, rows=rows))
        agree(ops, "band_digests", signatures[:0], BandShape(bands=2, rows=rows))
    many = generator.integers(0, 2**32, (1700, 64), np.uint32)  # more blocks than threads
    agree(ops, "band_digests", many, BandShape(bands=1, rows=64))


def test_no_digest_marks_empty_rows_alone(ops: Backend) -> None:
    signatures = np.full((4, 18), NO_VALUE, np.uint32)
    signatures[1] = NO_DIGEST_BANDS
    signatures[2, 17] = 0
    signatures[3, 0] = 0
    digests = agree(ops, "band_digests", signatures, BandShape(bands=3, rows=6))
    assert (digests[0] == NO_DIGEST).all() and (digests[1] == INSTEAD_OF_NO_DIGEST).all()
    assert (digests[2:] < INSTEAD_OF_NO_DIGEST).all()
    # A row that only looks empty in the bands' columns is not empty.
    assert (agree(ops, "band_digests", signatures, BandShape(bands=2, rows=6))[2] != NO_DIGEST).all()
    for band in range(3):
        total = sum(
            naive.place_key(naive.BAND, place) * value
            for place, value in enumerate(NO_DIGEST_BANDS[6 * band : 6 * band + 6])
        )
        assert naive.mix(total + (band + 1) * naive.GOLDEN) == NO_DIGEST


@given(
    seed=st.integers(0, 99),
    count=st.sampled_from([24, 25, 1000, 1500]),
    distinct=st.sampled_from([1, 2, 3, 50, 700, 10_000]),
    spread=st.sampled_from([(0, 1), (5, 1), (NO_DIGEST - 20_000, 1), (0, 1 << 30), (0, 1 << 50)]),
    none=st.sampled_from([0, 0, 0.02, 0.7, 1]),
    order=st.sampled_from(["ascending", "descending", "any"]),
    together=st.sampled_from([10, 1 << 16]),  # by partitions, and in place
)
@example(8, 10_000, 50, (0, 1 << 50), 0.02, "any", 1 << 16)
@example(8, 10_000, 3000, (0, 1 << 7), 0, "ascending", 10)
def test_collisions_of_many_digests(
    ops: Backend, seed: int, count: int, distinct: int, spread: tuple[int, int], none: float, order: str, together: int
) -> None:
    """Cells hold few or many digests, long runs and small numbers that are no hashes; ids are in any order."""
    generator, count = np.random.default_rng(seed), fewer(ops, count, min(count, 1000))
    first, step = spread
    values = np.uint64(first) + generator.integers(0, distinct, count).astype(np.uint64) * np.uint64(step)
    values[generator.random(count) < none] = NO_DIGEST
    ids = np.arange(count, dtype=np.int64) * 3 + 2**40
    ids = {"ascending": ids, "descending": ids[::-1].copy(), "any": generator.permutation(ids)}[order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.backends.cpu.buckets.PARTITION_DOCUMENTS", together)
        buckets = agree(ops, "collisions", values, ids)
        if distinct > 30:
            agree(ops, "candidates", buckets)


def of_columns(ops: Backend, digests: Values) -> Array:
    """The members of the buckets of all columns; threads search the columns in parallel."""
    ids = ops.asarray(np.arange(len(digests)))
    found = ops.parallel_map(range(digests.shape[1]), lambda one, band: one.collisions(digests[:, band], ids))
    return np.concatenate([buckets.ids for buckets in found])


def test_collisions_of_columns_in_parallel(ops: Backend) -> None:
    columns = np.random.default_rng(1).integers(0, 30, (50, 21), np.uint64) << np.uint64(50)
    agree(ops, "collisions", columns[:, 1], np.arange(50))
    agree(ops, of_columns, columns)
    assert list(ops.parallel_map([], of_columns)) == []
    with pytest.raises(ZeroDivisionError):
        list(ops.parallel_map(range(3), lambda _, band: 1 // (band - 1)))


@pytest.mark.parametrize("documents", [400, 200_000])  # neighbours that are close together, and far apart
def test_candidates_of_buckets_of_many_sizes(ops: Backend, documents: int) -> None:
    rng, count, sizes = np.random.default_rng(documents), fewer(ops, 10, 1), [2, 3, 4, 31, 33, 64, 2, 90]
    near = [np.sort(rng.choice(documents, 60, replace=False)) for _ in range(6 * count)]
    near += [np.sort(np.append(rng.choice(np.arange(1, documents), 40, replace=False), 0)) for _ in range(count)]
    agree(ops, "candidates", buckets_of(near))
    bands = [np.sort(rng.choice(40, size, replace=False)) + 2**32 - 3 for size in rng.integers(2, 12, 60)] * 2
    runs = [range(start, start + size) for start, size in enumerate(sizes)]
    for rows in (bands, runs, [[4], [], [5]], [[2**32 - 1, 2**32 - 1], [2**32 - 2, 2**32 - 1]]):
        candidates(ops, buckets_of(rows))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 500, 5000])
def test_components_of_chains_and_stars(ops: Backend, count: int) -> None:
    ids, generator = np.arange(count, dtype=np.int64), np.random.default_rng(2)
    chain, shuffled = np.stack((ids[:-1], ids[1:]), 1), generator.permutation(count)
    last = np.full(max(count - 1, 0), count - 1)
    stars = [np.stack((ids[1:], last), 1), np.stack((ids[:-2], ids[2:]), 1), np.stack((np.zeros_like(ids), ids), 1)]
    drawn = [generator.permutation(chain), generator.integers(0, max(count, 1), (count, 2))]
    for pairs in (chain, chain[::-1], chain[:, ::-1], shuffled[chain], chain[::2], *stars, *drawn):
        agree(ops, "components", count, pairs)


# --- the decision's array code: rounds, witnesses, copies and tiles

PLACES = 15
place = st.integers(0, PLACES - 1)
pairs_of_places = st.lists(st.tuples(place, place).filter(lambda pair: pair[0] < pair[1]), max_size=40, unique=True)


@given(pairs_of_places, st.integers(0, PLACES), st.sampled_from([1, 2, 64]), st.randoms(use_true_random=False))
def test_greedy_decisions_in_rounds_equal_those_in_order(
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
    with pytest.MonkeyPatch.context() as patch, ops.use_device():
        patch.setattr(meeting, "ROUNDS", rounds)
        there, status = edges.moved(ops.asarray), ops.asarray(np.zeros(PLACES, np.int8))
        for start, stop in ((0, cut), (cut, PLACES)):
            inside = (there.later >= start) & (there.later < stop)
            settle(status, start, stop, there.earlier[inside], there.later[inside], ops)
        assert (ops.asnumpy(status) == meeting.KEPT).tolist() == wanted
        found = witnesses(status == meeting.KEPT, there).moved(ops.asnumpy)
    rows = zip(found.later.tolist(), found.earlier.tolist(), found.similarity.tolist(), strict=True)
    assert list(rows) == [(j, i, -value) for j, (value, i) in sorted(best.items())]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=30),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_copies_equal_those_of_a_plain_search(
    ops: Backend, rows: list[tuple[int, int, int, bool]], by_source: bool, chance: Random
) -> None:
    """Each half of a hash has few values, so rows often share only one half."""
    rank = chance.sample(range(len(rows)), len(rows))
    columns, ranks = np.array(rows, np.int64).reshape(-1, 4), np.array(rank, np.int64)
    groups: dict[Any, list[int]] = {}
    for number, row in enumerate(rows):
        if row[3]:
            groups.setdefault(row[: 3 if by_source else 2], []).append(number)
    firsts = {number: min(group, key=rank.__getitem__) for group in groups.values() for number in group}
    wanted = sorted((number, first) for number, first in firsts.items() if number != first)
    ids = np.flatnonzero(columns[:, 3])
    with ops.use_device():
        exact, by_rank = ops.asarray(columns[:, :2].astype(np.uint64)), ops.asarray(ranks).__getitem__
        of_row = ops.asarray(columns[:, 2].copy()).__getitem__ if by_source else None
        for some, by in ((ids, by_rank), (ids[np.argsort(ranks[ids])], None)):
            found = first_copies(exact, ops.asarray(some), by, ops, of_row)
            assert list(zip(*(ops.asnumpy(part).tolist() for part in found), strict=True)) == wanted


@settings(max_examples=20)
@given(pairs_of_places, st.lists(st.integers(0, 9), min_size=PLACES, max_size=PLACES), st.integers(1, 30))
def test_pairs_are_grouped_by_tile(ops: Backend, pairs: list[tuple[int, int]], text: list[int], most: int) -> None:
    """A tile's documents fit its bytes, components stay whole where they fit, and no pair is lost."""
    given, sizes = np.array(pairs, np.int64).reshape(-1, 2), np.array(text)
    component = REFERENCE.components(PLACES, given)
    cut = Sizes(batch=most, tile=most, largest_tile=2 * most)
    wanted_order, wanted_spans = order_by_tile(given, sizes, cut, REFERENCE)
    with ops.use_device():
        found, spans = order_by_tile(ops.asarray(given), ops.asarray(sizes), cut, ops)
    order = ops.asnumpy(found)
    assert (order.tolist(), spans) == (wanted_order.tolist(), wanted_spans)
    assert sorted(order.tolist()) == list(range(len(pairs)))
    assert [stop for _, stop in spans[:-1]] == [start for start, _ in spans[1:]]
    for start, stop in spans:
        members = np.unique(given[order[start:stop]])
        whole = np.unique(component[members])
        held = sum(min(int(sizes[component == label].sum()), 4 * most) for label in whole)
        assert sizes[members].sum() <= max(most + held, 4 * most + 2 * max(text))
