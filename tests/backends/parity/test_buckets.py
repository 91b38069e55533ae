"""Signatures to components: band_digests, collisions, candidates, components; examples."""

import numpy as np
import pytest

from gpulsh.arrays import Array, Values
from gpulsh.backends.protocol import INSTEAD_OF_NO_DIGEST, NO_DIGEST, NO_VALUE, Backend
from gpulsh.params import BandShape
from tests.backends.parity.agreement import agree, fewer
from tests.backends.parity.test_any import buckets_of, check_candidates
from tests.support import naive

# Found by lattice reduction: each line is a band, 0 to 2, whose sum is what mixing maps to 2^64 - 1.
NO_DIGEST_BANDS = [
    *(2147484572, 2147483710, 2147483751, 2147483253, 2147483511, 2147484394),
    *(2147483843, 2147484473, 2147484032, 2147484056, 2147483727, 2147483005),
    *(2147483170, 2147483804, 2147483427, 2147484054, 2147484401, 2147482853),
]


def test_long_bands_and_many(ops: Backend) -> None:
    generator = np.random.default_rng(1)
    for rows in (1, 63, 64, 65, 130):
        signatures = generator.integers(0, 2**32, (7, 2 * rows + 1), np.uint32)
        signatures[[2, 4]] = NO_VALUE
        signatures[4, -1] = 0  # a value no band takes, yet the row is not one of all ones
        agree(ops, "band_digests", signatures, BandShape(bands=2, rows=rows))
        agree(ops, "band_digests", signatures[:0], BandShape(bands=2, rows=rows))
    many = generator.integers(0, 2**32, (1700, 64), np.uint32)  # more blocks than threads
    agree(ops, "band_digests", many, BandShape(bands=1, rows=64))


def test_a_digest_that_comes_out_as_none_and_rows_of_all_ones(ops: Backend) -> None:
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


@pytest.mark.parametrize(("universe", "count"), [(1, 24), (3, 25), (700, 1000), (2**64, 25)])
def test_collisions_of_many(ops: Backend, universe: int, count: int) -> None:
    """Cells of few and of many digests, small numbers, which are no hashes, and ids in any order."""
    generator = np.random.default_rng(universe % 1000 + count)
    ids = generator.permutation(3 * count)[:count].astype(np.int64)
    drawn = generator.integers(0, universe, count, np.uint64)
    for values in (drawn, drawn * np.uint64(2**64 // universe % 2**64), NO_DIGEST - drawn):
        buckets = agree(ops, "collisions", values, ids)
        if universe > 30:
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


@pytest.mark.parametrize(("distinct", "upper"), [(1, 1 << 64), (3, 1 << 20), (50, 1 << 64), (3000, 1 << 20)])
def test_collisions_of_long_runs(ops: Backend, distinct: int, upper: int) -> None:
    rng, count = np.random.default_rng(distinct), fewer(ops, 10_000, 1000)
    values = rng.choice(rng.integers(0, upper, distinct, dtype=np.uint64), count)
    for ids in (np.arange(count), rng.permutation(count)):
        agree(ops, "collisions", values, ids)


@pytest.mark.parametrize("first", [0, 5, NO_DIGEST - 3])
def test_collisions_of_fewer_values_than_ranges(ops: Backend, first: int) -> None:
    ids = np.arange(1300, dtype=np.int64)
    for distinct in (1, 2, 3):
        agree(ops, "collisions", np.uint64(first) + (ids % distinct).astype(np.uint64), ids)
    agree(ops, "collisions", np.where(ids % 3, np.uint64(first), np.uint64(NO_DIGEST)), ids)


def of_columns(ops: Backend, digests: Values) -> Array:
    """The members of the buckets of all columns, found in parallel."""
    ids = ops.asarray(np.arange(len(digests)))
    found = ops.parallel_map(range(digests.shape[1]), lambda one, band: one.collisions(digests[:, band], ids))
    return np.concatenate([buckets.ids for buckets in found])


def test_collisions_of_columns(ops: Backend) -> None:
    columns = np.random.default_rng(1).integers(0, 30, (50, 21), np.uint64) << np.uint64(50)
    agree(ops, "collisions", columns[:, 1], np.arange(50))
    agree(ops, of_columns, columns)
    assert list(ops.parallel_map([], of_columns)) == []
    with pytest.raises(ZeroDivisionError):
        list(ops.parallel_map(range(3), lambda _, band: 1 // (band - 1)))


def test_candidates_of_many_sizes(ops: Backend) -> None:
    sizes = [2, 3, 4, 31, 33, 64, 2, 90]
    check_candidates(ops, buckets_of([range(start, start + size) for start, size in enumerate(sizes)]))
    check_candidates(ops, buckets_of([[4], [], [5]]))
    check_candidates(ops, buckets_of([[2**32 - 1, 2**32 - 1], [2**32 - 2, 2**32 - 1]]))


@pytest.mark.parametrize("documents", [400, 200_000])  # neighbours that are close together, and far apart
def test_candidates_of_many_neighbours(ops: Backend, documents: int) -> None:
    rng, count = np.random.default_rng(documents), fewer(ops, 10, 1)
    rows = [np.sort(rng.choice(documents, 60, replace=False)) for _ in range(6 * count)]
    rows += [np.sort(np.append(rng.choice(np.arange(1, documents), 40, replace=False), 0)) for _ in range(count)]
    agree(ops, "candidates", buckets_of(rows))
    bands = [np.sort(rng.choice(40, size, replace=False)) + 2**32 - 3 for size in rng.integers(2, 12, 60)] * 2
    check_candidates(ops, buckets_of(bands))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 500, 5000])
def test_chains_and_stars(ops: Backend, count: int) -> None:
    ids, generator = np.arange(count, dtype=np.int64), np.random.default_rng(2)
    chain, shuffled = np.stack((ids[:-1], ids[1:]), 1), generator.permutation(count)
    last = np.full(max(count - 1, 0), count - 1)
    stars = [np.stack((ids[1:], last), 1), np.stack((ids[:-2], ids[2:]), 1), np.stack((np.zeros_like(ids), ids), 1)]
    drawn = [generator.permutation(chain), generator.integers(0, max(count, 1), (count, 2))]
    for pairs in (chain, chain[::-1], chain[:, ::-1], shuffled[chain], chain[::2], *stars, *drawn):
        agree(ops, "components", count, pairs)
