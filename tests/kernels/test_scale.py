"""The operations that sort, group and join where they go other ways: long rows, spans, many repeats, large numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpulsh.arrays import Buckets, Fingerprints
from gpulsh.backends.cuda import CudaBackend, candidates
from gpulsh.backends.cuda.collisions import collisions, may_repeat
from gpulsh.backends.cuda.launcher import Geometry, Machine
from gpulsh.backends.protocol import NO_DIGEST
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.errors import BackendError
from tests.kernels.device_arrays import DeviceArray, DeviceModule, scarce_memory
from tests.kernels.host import HostLauncher

pytestmark = pytest.mark.kernels
REFERENCE = ReferenceBackend()
LENGTHS = [0, 1, 2, 31, 32, 33, 63, 64, 65, 255, 256, 257, 0, 511, 512, 513, 1024, 1025, 2047, 2048, 2049, 3]


@pytest.fixture(scope="module")
def host(kernels_built: None) -> Machine:
    return Machine(DeviceModule(), HostLauncher(), Geometry())


def rows_of(rows: list[NDArray[np.uint64]], before: int = 0) -> Fingerprints:
    values = np.concatenate([np.full(before, 7, np.uint64), *rows, np.full(1, 9, np.uint64)])
    return Fingerprints(values, before + np.cumsum([0, *map(len, rows)], dtype=np.int64))


def on_device(cuda: CudaBackend, rows: Fingerprints) -> Fingerprints:
    return Fingerprints(cuda.asarray(rows.values), cuda.asarray(rows.offset))


def assert_rows(cuda: CudaBackend, found: Fingerprints, wanted: Fingerprints) -> None:
    np.testing.assert_array_equal(cuda.asnumpy(found.offset), wanted.offset)
    np.testing.assert_array_equal(cuda.asnumpy(found.values), wanted.values)
    assert found.values.dtype == np.uint64 and found.offset.dtype == np.int64


def random_rows(lengths: list[int], universe: int, before: int = 0) -> Fingerprints:
    generator = np.random.default_rng(len(lengths))
    spread = np.uint64((2**64 - 1) // (universe - 1))  # the greatest value is among them
    return rows_of([generator.integers(0, universe, n, np.uint64) * spread for n in lengths], before)


@pytest.mark.parametrize("universe", [2, 100, 2**20])
def test_unique_of_awkward_rows(cuda: CudaBackend, universe: int) -> None:
    for lengths in (LENGTHS, LENGTHS[::-1], [40], [3000], [], [0, 0], [2] * 70, [0] * 300 + [290]):
        rows = random_rows(lengths, universe, before=5)
        assert_rows(cuda, cuda.unique(on_device(cuda, rows)), REFERENCE.unique(rows))


def test_unique_of_rows_in_order(cuda: CudaBackend) -> None:
    up = np.arange(300, dtype=np.uint64)
    rows = rows_of([up, up[::-1], up, np.full(300, NO_DIGEST, np.uint64), up[:2], np.zeros(33, np.uint64)])
    assert_rows(cuda, cuda.unique(on_device(cuda, rows)), REFERENCE.unique(rows))
    distinct = rows_of([up, up[5:], up[:0]])  # nothing to leave out
    assert_rows(cuda, cuda.unique(on_device(cuda, distinct)), REFERENCE.unique(distinct))


@pytest.mark.parametrize("bits", [0, 1, 6, 12])
def test_prefixes_of_awkward_rows(cuda: CudaBackend, bits: int) -> None:
    rows = REFERENCE.unique(random_rows(LENGTHS, 2**40))
    rows = Fingerprints(np.concatenate([np.full(3, 8, np.uint64), rows.values]), rows.offset + 3)
    generator = np.random.default_rng(bits)
    for frequencies in ([2], [0, 1, 2], [1, 2, 3, 254, 255], range(256)):
        counts = generator.choice(np.array(frequencies, np.uint8), 2**bits)
        sizes = np.diff(rows.offset)
        for lengths in (sizes // 3, sizes + 1, np.zeros(len(sizes), np.int64), np.minimum(sizes, 33), sizes - 1):
            found = cuda.prefixes(on_device(cuda, rows), cuda.asarray(counts), cuda.asarray(lengths))
            assert_rows(cuda, found, REFERENCE.prefixes(rows, counts, np.maximum(lengths, 0)))


def test_intersect_of_tiles(cuda: CudaBackend) -> None:
    up = np.arange(0, 4200, 3, dtype=np.uint64)
    rows = rows_of(
        [up, up[100:], up[:256], up[:257], up[700:], up + np.uint64(1), up[::7], up[:0], up[255:258], up[-1:]]
    )
    count = len(rows)
    pairs = np.array([(i, j) for i in range(count) for j in range(count)], np.int64)
    for one, other in zip(
        cuda.intersect(cuda.asarray(pairs), on_device(cuda, rows)), REFERENCE.intersect(pairs, rows), strict=True
    ):
        np.testing.assert_array_equal(cuda.asnumpy(one), other)


def check_collisions(cuda: CudaBackend, digests: NDArray[np.uint64], ids: NDArray[np.int64]) -> None:
    found, wanted = cuda.collisions(cuda.asarray(digests), cuda.asarray(ids)), REFERENCE.collisions(digests, ids)
    np.testing.assert_array_equal(cuda.asnumpy(found.offset), wanted.offset)
    np.testing.assert_array_equal(cuda.asnumpy(found.ids), wanted.ids)
    assert found.ids.dtype == np.int64 and found.offset.dtype == np.int64


def test_collisions_of_many(cuda: CudaBackend) -> None:
    generator = np.random.default_rng(8)
    count = 1500
    digests = generator.integers(0, 2**64, count, np.uint64)
    digests[generator.integers(0, count, 400)] = digests[generator.integers(0, count, 400)]
    digests[::5] = digests[0]
    digests[3::50] = NO_DIGEST
    ascending = np.arange(count, dtype=np.int64) + 2**40
    check_collisions(cuda, digests, ascending)
    check_collisions(cuda, digests, ascending[::-1].copy())
    check_collisions(cuda, np.full(count, NO_DIGEST, np.uint64), ascending)
    check_collisions(cuda, np.full(count, 5, np.uint64), generator.permutation(ascending))
    check_collisions(cuda, np.repeat(digests, 3)[:count], ascending)
    check_collisions(cuda, digests >> np.uint64(10), ascending)  # in a few ranges of the whole
    check_collisions(cuda, digests[digests != NO_DIGEST], ascending[digests != NO_DIGEST])


@pytest.mark.parametrize("first", [0, 1, 5, NO_DIGEST - 3])
@pytest.mark.parametrize("values", [1, 2, 3])
def test_collisions_of_few_values(cuda: CudaBackend, first: int, values: int) -> None:
    """Fewer than ranges to sort them in."""
    ids = np.arange(1300, dtype=np.int64)
    check_collisions(cuda, np.uint64(first) + (ids % values).astype(np.uint64), ids)
    check_collisions(cuda, np.where(ids % 3, np.uint64(first), np.uint64(NO_DIGEST)), ids)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60), st.booleans())
def test_collisions_of_digests_that_differ_in_few_bits(
    cuda: CudaBackend, parts: list[tuple[int, int]], ascending: bool
) -> None:
    digests = np.array([upper << 62 | lower for upper, lower in parts], np.uint64)
    ids = np.arange(len(parts), dtype=np.int64)
    check_collisions(cuda, digests, ids if ascending else ids[::-1].copy())


def test_collisions_of_a_column(cuda: CudaBackend) -> None:
    table = np.random.default_rng(1).integers(0, 30, (50, 3), np.uint64) << np.uint64(50)
    ids = np.arange(50, dtype=np.int64)
    found, wanted = (
        cuda.collisions(cuda.asarray(table)[:, 1], cuda.asarray(ids)),
        REFERENCE.collisions(table[:, 1], ids),
    )
    np.testing.assert_array_equal(cuda.asnumpy(found.ids), wanted.ids)


def test_few_digests_that_do_not_repeat_are_sorted(host: Machine) -> None:
    digests = np.random.default_rng(2).integers(0, 2**64, 8000, np.uint64)
    digests[-2:] = digests[:2]
    digests[4000] = NO_DIGEST
    ids = np.arange(len(digests), dtype=np.int64)
    taken, whose = may_repeat(host, DeviceArray(digests), DeviceArray(ids), 0, NO_DIGEST - 1, 8000)
    assert {0, 1, 7998, 7999} <= set(whose.get().tolist()) and 4000 not in whose.get()
    assert len(taken) < 0.14 * len(digests)  # 1 - exp(-1 / 8) and some deviations
    np.testing.assert_array_equal(taken.get(), digests[whose.get()])
    half = may_repeat(host, DeviceArray(digests), DeviceArray(ids), 2**63, NO_DIGEST - 1, 4000)
    assert half[0].get().min() >= 2**63 and 0 < len(half[0]) < 0.07 * len(digests)


def test_memory_of_collisions(host: Machine) -> None:
    count = 20_000
    digests = DeviceArray(np.random.default_rng(6).permutation(count).astype(np.uint64) * np.uint64(2**64 // count))
    spread = digests * np.uint64(0x9E3779B97F4A7C15)  # distinct in all bits
    ids = DeviceArray(np.arange(count, dtype=np.int64))
    with scarce_memory(1 << 40) as memory:
        before = memory.peak
        assert len(collisions(host, spread, ids)) == 0
        unique = memory.peak - before
    with scarce_memory(1 << 40) as memory:
        before = memory.peak
        repeated = DeviceArray(np.repeat(spread.host[: count // 2], 2))
        assert len(collisions(host, repeated, ids)) == count // 2
        members = memory.peak - before - repeated.nbytes
    assert unique < (5 + 40 * 0.14) * count and members < 45 * count


def check_candidates(cuda: CudaBackend, buckets: Buckets) -> None:
    found = cuda.asnumpy(cuda.candidates(Buckets(cuda.asarray(buckets.ids), cuda.asarray(buckets.offset))))
    np.testing.assert_array_equal(found, REFERENCE.candidates(buckets))
    assert found.dtype == np.int64


@pytest.mark.parametrize("shift", [0, 2**32 - 3, 2**50])
def test_candidates_of_many_bands(cuda: CudaBackend, shift: int) -> None:
    generator = np.random.default_rng(3)
    sizes = generator.integers(2, 12, 60)
    ids = [np.sort(generator.choice(40, size, replace=False)) for size in sizes] * 2
    offset = np.cumsum([0, *map(len, ids)], dtype=np.int64)
    check_candidates(cuda, Buckets(np.concatenate(ids).astype(np.int64) + shift, offset))


def test_too_many_members_are_refused(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MAX_MEMBERS", 2)
    with pytest.raises(BackendError, match="3 documents are in buckets, 2 fit on a device"):
        check_candidates(cuda, Buckets(np.array([1, 2, 2**32], np.int64), np.array([0, 3], np.int64)))


def test_pairs_beyond_32_bits(host: Machine) -> None:
    members = 100_000
    total = members * (members - 1) // 2
    keys = host.arrays.empty(300, np.uint64)
    host.run(
        *("candidates", "candidates", 300, 256, DeviceArray(np.arange(members, dtype=np.uint32))),
        *(DeviceArray(np.array([0, members], np.int64)), np.int64(1), DeviceArray(np.array([total], np.int64))),
        *(np.int64(total - 300), np.int64(total), keys),
    )
    wanted = np.arange(members - 301, members - 1, dtype=np.uint64) << np.uint64(32) | np.uint64(members - 1)
    np.testing.assert_array_equal(keys.get(), wanted)


def check_components(cuda: CudaBackend, count: int, pairs: NDArray[np.int64]) -> None:
    found = cuda.asnumpy(cuda.components(count, cuda.asarray(pairs)))
    np.testing.assert_array_equal(found, REFERENCE.components(count, pairs))
    assert found.dtype == np.int64


@pytest.mark.parametrize("shape", ["chain", "chain of numbers at random", "star", "star with the last", "random"])
def test_large_components(cuda: CudaBackend, shape: str) -> None:
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
    check_components(cuda, count, generator.permutation(pairs))


def test_labels_of_a_long_chain(host: Machine) -> None:
    count = 100_000  # were nothing shortened, 5 * 10^9 steps
    parent = DeviceArray(np.maximum(np.arange(count), 1).astype(np.uint64) - np.uint64(1))
    host.run("components", "components_label", count, 256, np.int64(count), parent)
    assert not parent.get().any()
