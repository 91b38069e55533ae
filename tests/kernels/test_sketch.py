"""Token sums to band digests in one kernel: minima and places at the ends of their numbers.

`tests/backends/parity/test_sketches.py` judges it with documents of every length.
"""

import mmap

import numpy as np
import pytest

from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.cuda.sketches import MinHash
from gpulsh.backends.cuda.texts import TokenSums
from gpulsh.backends.protocol import NO_DIGEST, NO_VALUE
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.backends.reference.hashing import mix64, shingle_hash
from gpulsh.params import BandShape, Family
from gpulsh.permutations import Coefficients, coefficients
from tests.kernels.device_arrays import DeviceArray
from tests.kernels.host import HostLauncher

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize(("count", "spared"), [(1, None), (2, 0), (8, 39), (300, 32), (1500, None), (1500, 39)])
def test_minima_that_are_all_ones(cuda: CudaBackend, count: int, spared: int | None) -> None:
    """One fingerprint, repeated, that every function maps to all ones: no digest, unless one column says otherwise.

    The document behind it has others, in the next row of minima where both reach beyond a span.
    """
    sums, family, shape = np.full(count + 10, 7, np.uint64), Family(num_perm=40), BandShape(bands=3, rows=13)
    sums[count:] = np.arange(10)
    hashes = [mix64(value) for value in sums.tolist()]
    documents = hashes[:count], hashes[count:]
    rows = [[shingle_hash(row[i : i + 2]) for i in range(max(len(row) - 1, 1))] for row in documents]
    upper = [np.array(row, np.uint64) >> np.uint64(32) for row in rows]
    multiplier = coefficients(family).multiplier
    addend = (np.uint64(NO_VALUE) - (multiplier * upper[0][0] & np.uint64(NO_VALUE))).astype(np.uint32)
    if spared is not None:
        addend[spared] -= np.uint32(1)
    sketch = MinHash(cuda._machine, family)
    sketch.functions = Coefficients(cuda.asarray(multiplier), cuda.asarray(addend))
    given = TokenSums(cuda.asarray(sums), cuda.asarray(np.array([0, count, count + 10], np.int64)), 0)
    digests, shingles = sketch.digests(given, 2, shape)
    signatures = np.stack([(x.astype(np.uint32)[:, None] * multiplier + addend).min(axis=0) for x in upper])
    np.testing.assert_array_equal(cuda.asnumpy(digests), ReferenceBackend().band_digests(signatures, shape))
    assert cuda.asnumpy(shingles).tolist() == list(map(len, rows))
    assert (cuda.asnumpy(digests)[0] == np.uint64(NO_DIGEST)).all() == (spared is None)


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
