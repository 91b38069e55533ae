"""Every operation behind the text, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpulsh.arrays import Buckets, Fingerprints
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.protocol import INSTEAD_OF_NO_DIGEST, NO_DIGEST, NO_VALUE, sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import BandShape, Family
from tests.kernels.conftest import far_array

pytestmark = pytest.mark.kernels
REFERENCE = ReferenceBackend()
EDGES = [0, 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
# Found by lattice reduction: each line is a band, 0 to 2, whose sum is what mix64 maps to 2^64 - 1.
NO_DIGEST_BANDS = [
    *(2147484572, 2147483710, 2147483751, 2147483253, 2147483511, 2147484394),
    *(2147483843, 2147484473, 2147484032, 2147484056, 2147483727, 2147483005),
    *(2147483170, 2147483804, 2147483427, 2147484054, 2147484401, 2147482853),
]
LENGTHS = [0, 1, 31, 32, 33, 127, 128, 129, 255, 256, 257, 700, 0]

hashes = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from(EDGES), st.integers(0, 7).map(lambda x: x << 61))
tables = st.lists(st.lists(hashes, max_size=60), max_size=10)


def rows_of(rows: list[list[int]], before: int = 0) -> Fingerprints:
    """Rows end to end, behind `before` values that belong to none."""
    values = np.array([7] * before + [value for row in rows for value in row] + [9], np.uint64)
    return Fingerprints(values, before + np.cumsum([0, *map(len, rows)], dtype=np.int64))


def random_rows(lengths: list[int], universe: int = 2**64) -> Fingerprints:
    """Rows of given lengths, of values below `universe` spread over all 64 bits."""
    generator = np.random.default_rng(5)
    rows = [(generator.integers(0, universe, n, np.uint64) * np.uint64(2**64 // universe)).tolist() for n in lengths]
    return rows_of(rows)


def on_device(cuda: CudaBackend, rows: Fingerprints) -> Fingerprints:
    return Fingerprints(cuda.asarray(rows.values), cuda.asarray(rows.offset))


def assert_rows(cuda: CudaBackend, found: Fingerprints, wanted: Fingerprints) -> None:
    np.testing.assert_array_equal(cuda.asnumpy(found.offset), wanted.offset)
    np.testing.assert_array_equal(cuda.asnumpy(found.values), wanted.values)
    assert found.values.dtype == np.uint64 and found.offset.dtype == np.int64


def check_minhash(cuda: CudaBackend, rows: Fingerprints, columns: int) -> None:
    family = Family(num_perm=columns, seed=3)
    found = cuda.asnumpy(sketched(cuda, on_device(cuda, rows), family))
    np.testing.assert_array_equal(found, sketched(REFERENCE, rows, family))
    assert found.dtype == np.uint32


@pytest.mark.parametrize("columns", [1, 31, 33, 64, 65, 127, 128, 129, 192, 256, 260])
def test_minhash_of_awkward_rows(cuda: CudaBackend, columns: int) -> None:
    check_minhash(cuda, random_rows(LENGTHS), columns)
    check_minhash(cuda, random_rows([0, 0, 0]), columns)
    check_minhash(cuda, random_rows([]), columns)


def test_minhash_of_one_long_row_and_of_runs_of_empty_ones(cuda: CudaBackend) -> None:
    check_minhash(cuda, random_rows([2, 2600, 1]), 40)
    check_minhash(cuda, random_rows([0] * 70 + [3] + [0] * 31 + [4] + [0] * 32 + [5] + [0] * 33 + [6] * 40), 9)


@settings(max_examples=25)
@given(tables, st.integers(0, 5), st.integers(1, 140))
def test_minhash(cuda: CudaBackend, rows: list[list[int]], before: int, columns: int) -> None:
    check_minhash(cuda, rows_of(rows, before), columns)


def check_digests(cuda: CudaBackend, signatures: NDArray[np.uint32], bands: int, rows: int) -> None:
    shape = BandShape(bands=bands, rows=rows)
    found = cuda.asnumpy(cuda.band_digests(cuda.asarray(signatures), shape))
    np.testing.assert_array_equal(found, REFERENCE.band_digests(signatures, shape))


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.sampled_from([0, 1, 2**31, NO_VALUE - 1, NO_VALUE, NO_VALUE]), min_size=9, max_size=9)),
    st.sampled_from([(9, 1), (1, 9), (3, 3), (4, 2), (2, 4), (1, 1)]),
)
def test_band_digests(cuda: CudaBackend, signatures: list[list[int]], shape: tuple[int, int]) -> None:
    check_digests(cuda, np.array(signatures, np.uint32).reshape(-1, 9), *shape)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 130])
def test_band_digests_of_long_bands(cuda: CudaBackend, rows: int) -> None:
    signatures = np.random.default_rng(1).integers(0, 2**32, (7, 2 * rows + 1), np.uint32)
    signatures[[2, 4]] = NO_VALUE
    signatures[4, -1] = 0  # a value no band takes, yet the row is not one of all ones
    check_digests(cuda, signatures, 2, rows)
    check_digests(cuda, signatures[:0], 2, rows)


def test_band_digests_of_more_blocks_than_threads(cuda: CudaBackend) -> None:
    check_digests(cuda, np.random.default_rng(4).integers(0, 2**32, (1700, 64), np.uint32), 1, 64)


def test_a_digest_that_comes_out_as_no_digest(cuda: CudaBackend) -> None:
    values = np.array([NO_DIGEST_BANDS], np.uint32)
    found = cuda.asnumpy(cuda.band_digests(cuda.asarray(values), BandShape(bands=3, rows=6)))
    assert found.tolist() == [[INSTEAD_OF_NO_DIGEST] * 3]
    check_digests(cuda, values, 3, 6)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from([*EDGES, 5, NO_DIGEST]), st.one_of(st.integers(0, 12), st.integers(0, 2**62))),
        max_size=50,
    ),
    st.booleans(),
)
def test_collisions(cuda: CudaBackend, members: list[tuple[int, int]], ascending: bool) -> None:
    if ascending:
        members = sorted(members, key=lambda member: member[1])
    digests = np.array([digest for digest, _ in members], np.uint64)
    ids = np.array([document for _, document in members], np.int64)
    found, wanted = cuda.collisions(cuda.asarray(digests), cuda.asarray(ids)), REFERENCE.collisions(digests, ids)
    np.testing.assert_array_equal(cuda.asnumpy(found.offset), wanted.offset)
    np.testing.assert_array_equal(cuda.asnumpy(found.ids), wanted.ids)


def check_candidates(cuda: CudaBackend, rows: list[list[int]], before: int = 0) -> None:
    ids = np.array([1] * before + [document for row in rows for document in row], np.int64)
    offset = before + np.cumsum([0, *map(len, rows)], dtype=np.int64)
    found = cuda.asnumpy(cuda.candidates(Buckets(cuda.asarray(ids), cuda.asarray(offset))))
    np.testing.assert_array_equal(found, REFERENCE.candidates(Buckets(ids, offset)))
    middle = int(np.median(ids)) if len(ids) else 0
    for first in ((0, middle), (middle, 2**62)):
        part = cuda.asnumpy(cuda.candidates(Buckets(cuda.asarray(ids), cuda.asarray(offset)), first))
        np.testing.assert_array_equal(part, REFERENCE.candidates(Buckets(ids, offset), first))
    assert found.dtype == np.int64


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.integers(0, 30), min_size=2, max_size=25).map(sorted), max_size=9),
    st.sampled_from([0, 3]),
    st.sampled_from([0, 2**32 - 20, 2**40]),
)
def test_candidates(cuda: CudaBackend, rows: list[list[int]], before: int, shift: int) -> None:
    check_candidates(cuda, [[document + shift for document in row] for row in rows], before)


def test_candidates_of_many_sizes(cuda: CudaBackend) -> None:
    check_candidates(
        cuda, [list(range(start, start + size)) for start, size in enumerate([2, 3, 4, 31, 33, 64, 2, 90])]
    )
    check_candidates(cuda, [[4], [], [5]])
    check_candidates(cuda, [[2**32 - 1, 2**32 - 1], [2**32 - 2, 2**32 - 1]])


@settings(max_examples=40)
@given(tables, st.integers(0, 4))
def test_unique(cuda: CudaBackend, rows: list[list[int]], before: int) -> None:
    table = rows_of(rows, before)
    assert_rows(cuda, cuda.unique(on_device(cuda, table)), REFERENCE.unique(table))


def check_intersect(cuda: CudaBackend, rows: Fingerprints, pairs: list[tuple[int, int]]) -> None:
    array = np.array(pairs, np.int64).reshape(-1, 2)
    found = cuda.intersect(cuda.asarray(array), on_device(cuda, rows))
    for one, other in zip(found, REFERENCE.intersect(array, rows), strict=True):
        np.testing.assert_array_equal(cuda.asnumpy(one), other)
        assert one.dtype == np.int64


@settings(max_examples=40)
@given(tables.filter(bool), st.integers(0, 4), st.data())
def test_intersect(cuda: CudaBackend, rows: list[list[int]], before: int, data: st.DataObject) -> None:
    position = st.integers(0, len(rows) - 1)
    pairs = data.draw(st.lists(st.tuples(position, position), max_size=30))
    check_intersect(cuda, rows_of([sorted(set(row)) for row in rows], before), pairs)


def test_intersect_of_awkward_rows(cuda: CudaBackend) -> None:
    rows = REFERENCE.unique(random_rows(LENGTHS, 1024))
    pairs = [(i, j) for i in range(len(LENGTHS)) for j in range(i + 1, len(LENGTHS))]
    check_intersect(cuda, rows, pairs)
    check_intersect(cuda, rows, [])
    check_intersect(cuda, rows, [(0, 12), (0, 1)])


def check_bitmaps(cuda: CudaBackend, rows: Fingerprints, pairs: list[tuple[int, int]], words: int = 16) -> None:
    bits, sizes, array = REFERENCE.bitmaps(rows, words), np.diff(rows.offset), np.array(pairs, np.int64).reshape(-1, 2)
    found = cuda.bitmaps(on_device(cuda, rows), words)
    np.testing.assert_array_equal(cuda.asnumpy(found), bits)
    bounds = cuda.asnumpy(cuda.overlap_bounds(cuda.asarray(array), found, cuda.asarray(sizes)))
    np.testing.assert_array_equal(bounds, REFERENCE.overlap_bounds(array, bits, sizes))
    assert found.dtype == np.uint64 and bounds.dtype == np.int64


@settings(max_examples=40)
@given(tables.filter(bool), st.integers(0, 4), st.data())
def test_bitmaps(cuda: CudaBackend, rows: list[list[int]], before: int, data: st.DataObject) -> None:
    position = st.integers(0, len(rows) - 1)
    pairs = data.draw(st.lists(st.tuples(position, position), max_size=30))
    words = data.draw(st.sampled_from([16, 32, 256]))
    check_bitmaps(cuda, rows_of([sorted(set(row)) for row in rows], before), pairs, words)


@pytest.mark.parametrize("words", [16, 64])
def test_bitmaps_of_awkward_rows(cuda: CudaBackend, words: int) -> None:
    rows = REFERENCE.unique(random_rows(LENGTHS, 4096))
    check_bitmaps(cuda, rows, [(i, j) for i in range(len(LENGTHS)) for j in range(i + 1, len(LENGTHS))], words)
    check_bitmaps(cuda, random_rows([]), [])


@settings(max_examples=40)
@given(st.integers(1, 90), st.data())
def test_components(cuda: CudaBackend, count: int, data: st.DataObject) -> None:
    node = st.integers(0, count - 1)
    pairs = np.array(data.draw(st.lists(st.tuples(node, node), max_size=120)), np.int64).reshape(-1, 2)
    found = cuda.asnumpy(cuda.components(count, cuda.asarray(pairs)))
    np.testing.assert_array_equal(found, REFERENCE.components(count, pairs))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 500])
def test_components_of_chains_and_stars(cuda: CudaBackend, count: int) -> None:
    ids = np.arange(count, dtype=np.int64)
    shuffled = np.random.default_rng(2).permutation(ids)
    for pairs in (
        np.stack((ids[:-1], ids[1:]), 1),
        np.stack((ids[:-1], ids[1:]), 1)[::-1].copy(),
        np.stack((shuffled[:-1], shuffled[1:]), 1),
        np.stack((ids[1:], np.full(max(count - 1, 0), count - 1)), 1),
        np.stack((ids[:-2], ids[2:]), 1),
    ):
        found = cuda.asnumpy(cuda.components(count, cuda.asarray(pairs)))
        np.testing.assert_array_equal(found, REFERENCE.components(count, pairs))


@settings(max_examples=40)
@given(tables, st.integers(0, 3), st.integers(0, 6), st.data())
def test_frequencies(cuda: CudaBackend, rows: list[list[int]], before: int, bits: int, data: st.DataObject) -> None:
    byte = st.sampled_from([0, 1, 2, 250, 253, 254, 255])
    counts = np.array(data.draw(st.lists(byte, min_size=2**bits, max_size=2**bits)), np.uint8)
    table = rows_of(rows, before)
    wanted = REFERENCE.frequencies(table, counts.copy())
    np.testing.assert_array_equal(
        cuda.asnumpy(cuda.frequencies(on_device(cuda, table), cuda.asarray(counts.copy()))), wanted
    )


def test_frequencies_stop_at_255(cuda: CudaBackend) -> None:
    table = rows_of([[1 << 62] * 300, [3 << 62] * 254])
    found = cuda.asnumpy(cuda.frequencies(on_device(cuda, table), cuda.asarray(np.zeros(4, np.uint8))))
    assert found.tolist() == [0, 255, 0, 254]


@settings(max_examples=60)
@given(tables, st.integers(0, 3), st.integers(0, 6), st.data())
def test_prefixes(cuda: CudaBackend, rows: list[list[int]], before: int, bits: int, data: st.DataObject) -> None:
    counts = np.array(
        data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 255]), min_size=2**bits, max_size=2**bits)), np.uint8
    )
    lengths = np.array([data.draw(st.integers(0, len(row) + 1)) for row in rows], np.int64)
    table = rows_of([sorted(set(row)) for row in rows], before)
    found = cuda.prefixes(on_device(cuda, table), cuda.asarray(counts), cuda.asarray(lengths))
    assert_rows(cuda, found, REFERENCE.prefixes(table, counts, lengths))


def test_rows_beyond_32_bits(cuda: CudaBackend) -> None:
    first = 2**31 + 3
    rows = REFERENCE.unique(random_rows([5, 0, 300, 40], 600))
    far = Fingerprints(far_array(cuda, first, rows.values), cuda.asarray(rows.offset + first))
    family = Family(num_perm=9)
    np.testing.assert_array_equal(cuda.asnumpy(sketched(cuda, far, family)), sketched(REFERENCE, rows, family))
    pairs = np.array([[0, 2], [1, 2], [2, 3]], np.int64)
    for one, other in zip(cuda.intersect(cuda.asarray(pairs), far), REFERENCE.intersect(pairs, rows), strict=True):
        np.testing.assert_array_equal(cuda.asnumpy(one), other)
    assert_rows(cuda, cuda.unique(far), rows)
