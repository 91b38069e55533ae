"""collisions and candidates: who shares a digest, and every pair of those who do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.arrays import Array, Buckets, Numbers, Values
from gpulsh.backends.protocol import INSTEAD_OF_NO_DIGEST, NO_DIGEST, Backend
from tests.backends.parity.agreement import agree, fewer
from tests.support.rows import EDGES

digests = st.one_of(st.sampled_from([*EDGES, 5, INSTEAD_OF_NO_DIGEST, NO_DIGEST]), st.integers(0, 2**64 - 1))


@settings(max_examples=25)
@given(st.lists(digests, max_size=6), st.data(), st.sampled_from([0, 2**31, 2**32 - 3, 2**40]))
def test_collisions_of_any_digests(ops: Backend, pool: list[int], data: st.DataObject, first_id: int) -> None:
    chosen = data.draw(st.lists(st.sampled_from(pool), max_size=60)) if pool else []
    order = data.draw(st.one_of(st.just(range(len(chosen))), st.permutations(range(len(chosen)))))
    ids, values = first_id + np.array(order, np.int64), np.array(chosen, np.uint64)
    buckets = agree(ops, "collisions", values, ids)
    agree(ops, "collisions", np.repeat(values, 3)[::3], ids)  # not contiguous
    agree(ops, "candidates", buckets)


@settings(max_examples=25)
@given(st.lists(st.tuples(digests, st.one_of(st.integers(0, 12), st.integers(0, 2**62))), max_size=50), st.booleans())
def test_collisions_of_any_ids(ops: Backend, members: list[tuple[int, int]], ascending: bool) -> None:
    """Ids that repeat, too."""
    if ascending:
        members = sorted(members, key=lambda member: member[1])
    values, ids = (np.array([member[i] for member in members], dtype) for i, dtype in enumerate((np.uint64, np.int64)))
    agree(ops, "collisions", values, ids)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60), st.booleans())
def test_collisions_of_digests_that_differ_in_few_bits(
    ops: Backend, parts: list[tuple[int, int]], ascending: bool
) -> None:
    values, ids = np.array([upper << 62 | lower for upper, lower in parts], np.uint64), np.arange(len(parts))
    agree(ops, "collisions", values, ids if ascending else ids[::-1].copy())


@pytest.mark.parametrize("universe", [1, 3, 30, 700, 2**64])
@pytest.mark.parametrize("count", [1, 24, 25, 1000])
def test_collisions_of_many(ops: Backend, universe: int, count: int) -> None:
    """Cells of few and of many digests, small numbers, which are no hashes, and ids in any order."""
    generator = np.random.default_rng(universe % 1000 + count)
    ids = generator.permutation(3 * count)[:count].astype(np.int64)
    drawn = generator.integers(0, universe, count, np.uint64)
    for values in (drawn, drawn * np.uint64(2**64 // universe % 2**64), NO_DIGEST - drawn):
        buckets = agree(ops, "collisions", values, ids)
        if universe > 3:
            agree(ops, "candidates", buckets)


@pytest.mark.parametrize("together", [10, 1 << 16])  # by partitions, and where they lie
def test_collisions_of_digests_that_repeat_and_of_none(
    ops: Backend, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulsh.backends.cpu.buckets.PARTITION_DOCUMENTS", together)
    generator, count = np.random.default_rng(8), 1500
    values = generator.integers(0, 2**64, count, np.uint64)
    values[generator.integers(0, count, 400)] = values[generator.integers(0, count, 400)]
    values[::5] = values[0]
    values[3::50] = NO_DIGEST
    ascending = np.arange(count, dtype=np.int64) + 2**40
    agree(ops, "collisions", values, ascending)
    agree(ops, "collisions", values, ascending[::-1].copy())
    agree(ops, "collisions", np.full(count, NO_DIGEST, np.uint64), ascending)
    agree(ops, "collisions", np.full(count, 5, np.uint64), generator.permutation(ascending))
    agree(ops, "collisions", np.repeat(values, 3)[:count], ascending)
    agree(ops, "collisions", values >> np.uint64(10), ascending)  # in a few ranges of the whole
    agree(ops, "collisions", values[values != NO_DIGEST], ascending[values != NO_DIGEST])


@pytest.mark.parametrize("distinct", [1, 3, 50, 3000])
@pytest.mark.parametrize("upper", [1 << 20, 1 << 64])
def test_collisions_of_long_runs(ops: Backend, distinct: int, upper: int) -> None:
    rng, count = np.random.default_rng(distinct), fewer(ops, 20_000, 1000)
    values = rng.choice(rng.integers(0, upper, distinct, dtype=np.uint64), count)
    for ids in (np.arange(count), rng.permutation(count)):
        agree(ops, "collisions", values, ids)


@pytest.mark.parametrize("first", [0, 1, 5, NO_DIGEST - 3])
@pytest.mark.parametrize("distinct", [1, 2, 3])
def test_collisions_of_fewer_values_than_ranges(ops: Backend, first: int, distinct: int) -> None:
    ids = np.arange(1300, dtype=np.int64)
    agree(ops, "collisions", np.uint64(first) + (ids % distinct).astype(np.uint64), ids)
    agree(ops, "collisions", np.where(ids % 3, np.uint64(first), np.uint64(NO_DIGEST)), ids)


def test_collisions_of_a_column(ops: Backend) -> None:
    columns = np.random.default_rng(1).integers(0, 30, (50, 3), np.uint64) << np.uint64(50)
    agree(ops, "collisions", columns[:, 1], np.arange(50))


def of_bands(ops: Backend, digests: Values) -> Array:
    """The members of the buckets of all columns, found abreast."""
    ids = ops.asarray(np.arange(len(digests)))
    found = ops.parallel_map(range(digests.shape[1]), lambda one, band: one.collisions(digests[:, band], ids))
    return np.concatenate([buckets.ids for buckets in found])


def test_collisions_of_bands_abreast(ops: Backend) -> None:
    columns = np.random.default_rng(1).integers(0, 30, (50, 21), np.uint64) << np.uint64(50)
    agree(ops, of_bands, columns)
    assert list(ops.parallel_map([], of_bands)) == []
    with pytest.raises(ZeroDivisionError):
        list(ops.parallel_map(range(3), lambda _, band: 1 // (band - 1)))


def check_candidates(ops: Backend, buckets: Buckets) -> None:
    whole = agree(ops, "candidates", buckets)
    middle = int(np.median(buckets.ids)) if len(buckets.ids) else 0
    parts = [agree(ops, "candidates", buckets, first) for first in ((0, middle), (middle, 1 << 62))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def buckets_of(rows: Sequence[Sequence[int] | Values], before: int = 0) -> Buckets:
    """Behind `before` ids that belong to none."""
    ids: Numbers = np.array([1] * before + [document for row in rows for document in row], np.int64)
    return Buckets(ids, before + np.cumsum([0, *map(len, rows)], dtype=np.int64))


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.integers(0, 40), min_size=2, max_size=25).map(sorted), max_size=12),
    st.sampled_from([0, 3]),
    st.sampled_from([0, 2**32 - 20, 2**40]),
    st.sampled_from([1, 2**21]),
)
def test_candidates_of_any_buckets(ops: Backend, rows: list[list[int]], before: int, shift: int, scale: int) -> None:
    check_candidates(ops, buckets_of([[document * scale + shift for document in row] for row in rows], before))


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=2, max_size=9, unique=True).map(sorted), max_size=12),
    st.sampled_from([1, 2**27, 2**33]),
)
@settings(max_examples=25)
def test_candidates_far_apart(ops: Backend, rows: list[list[int]], scale: int) -> None:
    check_candidates(ops, buckets_of([[scale * document for document in row] for row in rows]))


def test_candidates_of_many_sizes(ops: Backend) -> None:
    sizes = [2, 3, 4, 31, 33, 64, 2, 90]
    check_candidates(ops, buckets_of([range(start, start + size) for start, size in enumerate(sizes)]))
    check_candidates(ops, buckets_of([[4], [], [5]]))
    check_candidates(ops, buckets_of([[2**32 - 1, 2**32 - 1], [2**32 - 2, 2**32 - 1]]))


@pytest.mark.parametrize("shift", [0, 2**32 - 3, 2**50])
def test_candidates_of_many_bands(ops: Backend, shift: int) -> None:
    generator = np.random.default_rng(3)
    rows = [np.sort(generator.choice(40, size, replace=False)) + shift for size in generator.integers(2, 12, 60)] * 2
    check_candidates(ops, buckets_of(rows))


@pytest.mark.parametrize("documents", [400, 200_000])  # neighbours that lie close together, and far apart
def test_candidates_of_many_neighbours(ops: Backend, documents: int) -> None:
    rng, count = np.random.default_rng(documents), fewer(ops, 20, 1)
    rows = [np.sort(rng.choice(documents, 60, replace=False)) for _ in range(6 * count)]
    rows += [np.sort(np.append(rng.choice(np.arange(1, documents), 40, replace=False), 0)) for _ in range(count)]
    agree(ops, "candidates", buckets_of(rows))
