"""Token sums to band digests in one kernel, against the reference's separate operations."""

import mmap
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.cuda.sketches import MAX_COLUMNS, MinHash
from gpulsh.backends.cuda.texts import TokenSums
from gpulsh.backends.protocol import NO_DIGEST, NO_VALUE
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.backends.reference.hashing import mix64, shingle_hash
from gpulsh.params import BandShape, Family, Shingling
from gpulsh.permutations import Coefficients, coefficients
from tests.kernels.device_arrays import DeviceArray
from tests.kernels.host import HostLauncher
from tests.support.texts import KEYS

pytestmark = pytest.mark.kernels
REFERENCE = ReferenceBackend()
# Columns, bands, rows: signature lengths that leave lanes idle, fill them, and need several groups of columns.
SHAPES = [(1, 1, 1), (20, 4, 5), (33, 33, 1), (65, 65, 1), (100, 1, 100), (192, 32, 6), (256, 4, 64)]
COUNTS = [0, 1, 2, 5, 0, 31, 32, 33, 0, 0, 127, 128, 129, 3, 255, 256, 257, 1, 0, 700, 64, 63, 0]

token_counts = st.lists(st.one_of(st.integers(0, 9), st.sampled_from([0, 0, 31, 33, 70, 140])), max_size=14)
sizes = st.one_of(st.integers(1, 8), st.sampled_from([31, 33, 63, 64]))


def tokens_of(counts: list[int], skip: int = 0) -> TokenSums:
    """That many tokens in each document, as `token_sums` gives them, in NumPy."""
    starts = np.array([0, *accumulate(counts)], np.int64)
    sums = np.random.default_rng(len(counts)).integers(0, 2**64, int(starts[-1]), np.uint64)
    return TokenSums(sums, starts, skip)


def documents_of(tokens: TokenSums) -> list[list[int]]:
    """The token hashes of each document."""
    bounds = tokens.starts.tolist()
    return [
        [mix64(value) for value in tokens.sums[start + tokens.skip : stop].tolist()] for start, stop in pairwise(bounds)
    ]


def wanted_digests(
    tokens: TokenSums, size: int, family: Coefficients, shape: BandShape
) -> tuple[NDArray[np.uint64], list[int]]:
    """By definition: every shingle, every minimum, every band."""
    rows = [
        [shingle_hash(document[i : i + size]) for i in range(max(len(document) - size, 0) + 1)] if document else []
        for document in documents_of(tokens)
    ]
    signatures = np.full((len(rows), len(family.multiplier)), NO_VALUE, np.uint32)
    for row, signature in zip(rows, signatures, strict=True):
        x = (np.array(row, np.uint64) >> np.uint64(32)).astype(np.uint32)
        if len(x):
            signature[:] = (x[:, None] * family.multiplier + family.addend).min(axis=0)
    return REFERENCE.band_digests(signatures, shape), [len(row) for row in rows]


def check(cuda: CudaBackend, tokens: TokenSums, size: int, family: Coefficients, shape: BandShape) -> Any:
    given = TokenSums(cuda.asarray(tokens.sums), cuda.asarray(tokens.starts), tokens.skip)
    sketch = MinHash(cuda._machine, Family(num_perm=len(family.multiplier)))
    sketch.functions = Coefficients(*map(cuda.asarray, family))
    digests, shingles = sketch.digests(given, size, shape)
    wanted, counts = wanted_digests(tokens, size, family, shape)
    np.testing.assert_array_equal(cuda.asnumpy(digests), wanted)
    assert cuda.asnumpy(shingles).tolist() == counts
    assert digests.dtype == np.uint64 and shingles.dtype == np.int64
    return wanted


@pytest.mark.parametrize(("columns", "bands", "rows"), SHAPES)
def test_awkward_documents(cuda: CudaBackend, columns: int, bands: int, rows: int) -> None:
    family, shape = coefficients(Family(num_perm=columns, seed=3)), BandShape(bands=bands, rows=rows)
    check(cuda, tokens_of(COUNTS), 5, family, shape)
    check(cuda, tokens_of([count + 1 if count else 0 for count in COUNTS], skip=1), 3, family, shape)


@pytest.mark.parametrize("columns", [MAX_COLUMNS, MAX_COLUMNS + 1])
def test_the_longest_signature_and_one_longer(cuda: CudaBackend, columns: int) -> None:
    family = coefficients(Family(num_perm=columns))
    check(cuda, tokens_of([0, 40, 300, 2]), 4, family, BandShape(bands=columns // 3, rows=3))
    check(cuda, tokens_of([7, 3]), 4, family, BandShape(bands=2, rows=columns // 2))
    check(cuda, tokens_of([3] * 40), 4, family, BandShape(bands=4, rows=128))  # each inside a span, warps side by side


@pytest.mark.parametrize(("size", "skip"), [(1, 0), (2, 1), (63, 1), (64, 0)])
def test_every_size_around_the_ends_of_spans(cuda: CudaBackend, size: int, skip: int) -> None:
    family, shape = coefficients(Family(num_perm=12)), BandShape(bands=4, rows=3)
    counts = [skip + count for count in (size - 1, size, size + 1, 3 * size, 0, 1, 290 - size, size, 10, 1030)]
    check(cuda, tokens_of(counts, skip), size, family, shape)


def test_one_long_document_and_runs_of_empty_ones(cuda: CudaBackend) -> None:
    family, shape = coefficients(Family(num_perm=16)), BandShape(bands=4, rows=4)
    check(cuda, tokens_of([2, 5300, 1]), 3, family, shape)
    check(cuda, tokens_of([0] * 70 + [3] + [0] * 31 + [4] + [0] * 32 + [5] + [0] * 33 + [6] * 40), 3, family, shape)
    for counts in ([], [0], [0, 0, 0]):
        assert (check(cuda, tokens_of(counts), 3, family, shape) == np.uint64(NO_DIGEST)).all()


@settings(max_examples=12)
@given(token_counts, st.integers(0, 1), sizes, st.sampled_from([(20, 4, 5), (33, 11, 3), (70, 1, 64), (130, 129, 1)]))
def test_any_documents(
    cuda: CudaBackend, counts: list[int], skip: int, size: int, columns: tuple[int, int, int]
) -> None:
    counts = [count + skip if count else 0 for count in counts]
    shape = BandShape(bands=columns[1], rows=columns[2])
    check(cuda, tokens_of(counts, skip), size, coefficients(Family(num_perm=columns[0], seed=5)), shape)


@pytest.mark.parametrize(("count", "spared"), [(1, None), (2, 0), (8, 39), (300, 32), (1500, None), (1500, 39)])
def test_minima_that_are_all_ones(cuda: CudaBackend, count: int, spared: int | None) -> None:
    """One fingerprint, repeated, that every function maps to all ones: no digest, unless one column says otherwise.

    The document behind it has others, in the next row of minima where both reach beyond a span.
    """
    sums = np.full(count + 10, 7, np.uint64)
    sums[count:] = np.arange(10)
    tokens = TokenSums(sums, np.array([0, count, count + 10], np.int64), 0)
    x = np.uint32(shingle_hash([mix64(7)] * min(count, 2)) >> 32)
    multiplier = coefficients(Family(num_perm=40)).multiplier
    addend = (np.int64(NO_VALUE) - (multiplier.astype(np.uint64) * x & np.uint64(NO_VALUE)).astype(np.int64)).astype(
        np.uint32
    )
    if spared is not None:
        addend[spared] -= np.uint32(1)
    found = check(cuda, tokens, 2, Coefficients(multiplier, addend), BandShape(bands=3, rows=13))
    assert (found[0] == np.uint64(NO_DIGEST)).all() == (spared is None)


@pytest.mark.parametrize("span_begin", [(1 << 29) + 1024, (1 << 30) + 1024, 1 << 31])
def test_a_document_of_more_tokens_than_32_bits_count(kernels_built: None, span_begin: int) -> None:
    """One warp in the midst of it, of a grid that the host could not run."""
    span, size, tokens, row = 1024, 5, (1 << 31) + 2005, 5
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE, which Python names from 3.13 on
    sums = np.frombuffer(mmap.mmap(-1, 8 * (tokens + 10), flags), np.uint64)
    sums[span_begin : span_begin + span + size] = np.random.default_rng(4).integers(0, 2**64, span + size, np.uint64)
    number, spans, family = span_begin // span, -(-(tokens + 10) // span), coefficients(Family(num_perm=1))
    minima, straddlers = np.full((spans, 1), NO_VALUE, np.uint32), np.full(spans, -9, np.int64)
    digests = np.full((3, 1), NO_DIGEST, np.uint64)
    out = [DeviceArray(array) for array in (digests, minima, straddlers)]
    launcher = HostLauncher()
    launcher.first_block = number
    launcher(
        *("sketch", "sketch_2_columns", (1, 1), 32, DeviceArray(sums), np.int64(tokens + 10)),
        *(DeviceArray(np.array([0, row, tokens, tokens + 10], np.int64)), np.int64(3), np.int32(0), np.int32(size)),
        *(DeviceArray(family.multiplier), DeviceArray(family.addend), np.int32(1), np.int32(1), np.int32(1)),
        *(np.int32(span), *out),
    )
    hashes = [mix64(value) for value in sums[span_begin : min(span_begin + span + size - 1, tokens)].tolist()]
    windows = [shingle_hash(hashes[i : i + size]) >> 32 for i in range(len(hashes) - size + 1)]
    values = np.array(windows, np.uint32) * family.multiplier[0] + family.addend[0]
    wanted = np.full((spans, 1), NO_VALUE, np.uint32)
    wanted[0] = values.min()  # with the span that the document begins in
    np.testing.assert_array_equal(out[1].get(), wanted)
    assert (out[0].get() == np.uint64(NO_DIGEST)).all()
    assert out[2].get()[number] == -1 and (np.delete(out[2].get(), number) == -9).all()


def test_sign_runs_it(cuda: CudaBackend) -> None:
    rows = [b"", "one two 語 three".encode(), b"\xff\0", b"a b c d e f g h"]
    text = TextBatch(np.frombuffer(b"".join(rows), np.uint8), np.array([0, *accumulate(map(len, rows))], np.int64))
    family, shape = Family(), BandShape(bands=21, rows=6)
    given = TextBatch(cuda.asarray(text.values), cuda.asarray(text.offset))
    for unit in ("word", "char"):
        shingling = Shingling(unit=unit, size=3)  # type: ignore[arg-type]
        wanted, found = (
            REFERENCE.sign(text, shingling, family, shape, KEYS),
            cuda.sign(given, shingling, family, shape, KEYS),
        )
        for name in ("digests", "exact", "shingles"):
            np.testing.assert_array_equal(cuda.asnumpy(getattr(found, name)), getattr(wanted, name))
        assert cuda.asnumpy(found.digests).flags.f_contiguous, "who reads a band gathers it from all rows"
