"""MinHash of rows on the device, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.arrays import Fingerprints
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.protocol import sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import Family
from tests.backends.parity.agreement import far_array

pytestmark = pytest.mark.kernels
REFERENCE = ReferenceBackend()
EDGES = [0, 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
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


def test_rows_beyond_32_bits(cuda: CudaBackend) -> None:
    first = 2**31 + 3
    rows = REFERENCE.unique(random_rows([5, 0, 300, 40], 600))
    far = Fingerprints(far_array(cuda, first, rows.values), cuda.asarray(rows.offset + first))
    family = Family(num_perm=9)
    np.testing.assert_array_equal(cuda.asnumpy(sketched(cuda, far, family)), sketched(REFERENCE, rows, family))
