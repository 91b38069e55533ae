"""Signatures to components: band_digests, collisions, candidates, components; examples."""

from __future__ import annotations

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


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 130])
def test_long_bands(ops: Backend, rows: int) -> None:
    signatures = np.random.default_rng(1).integers(0, 2**32, (7, 2 * rows + 1), np.uint32)
    signatures[[2, 4]] = NO_VALUE
    signatures[4, -1] = 0  # a value no band takes, yet the row is not one of all ones
    agree(ops, "band_digests", signatures, BandShape(bands=2, rows=rows))
    agree(ops, "band_digests", signatures[:0], BandShape(bands=2, rows=rows))


def test_more_blocks_than_threads(ops: Backend) -> None:
    signatures = np.random.default_rng(4).integers(0, 2**32, (1700, 64), np.uint32)
    agree(ops, "band_digests", signatures, BandShape(bands=1, rows=64))


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


@pytest.mark.parametrize("count", [0, 1, 2, 3, 500, 5000])
def test_chains_and_stars(ops: Backend, count: int) -> None:
    ids = np.arange(count, dtype=np.int64)
    chain = np.stack((ids[:-1], ids[1:]), 1)
    shuffled = np.random.default_rng(2).permutation(count)
    last = np.full(max(count - 1, 0), count - 1)
    stars = [np.stack((ids[1:], last), 1), np.stack((ids[:-2], ids[2:]), 1)]
    for pairs in (chain, chain[::-1], chain[:, ::-1], shuffled[chain], chain[::2], *stars):
        agree(ops, "components", count, pairs)


@pytest.mark.parametrize("shape", ["chain", "chain of numbers at random", "star", "star with the last", "random"])
def test_large_components(ops: Backend, shape: str) -> None:
    count = 20_000
    generator = np.random.default_rng(4)
    ids, shuffled = np.arange(count, dtype=np.int64), generator.permutation(count)
    pairs = {
        "chain": np.stack((ids[:-1], ids[1:]), 1),
        "chain of numbers at random": np.stack((shuffled[:-1], shuffled[1:]), 1),
        "star": np.stack((np.zeros_like(ids), ids), 1),
        "star with the last": np.stack((ids, np.full_like(ids, count - 1)), 1),
        "random": generator.integers(0, count, (count, 2)),
    }[shape]
    agree(ops, "components", count, generator.permutation(pairs))
