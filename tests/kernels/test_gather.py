"""gather on every backend: rows of text that lie apart, end to end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.protocol import Backend
from gpulsh.backends.reference import ReferenceBackend
from tests.kernels.conftest import far_array

pytestmark = pytest.mark.kernels
TEXT = "aé語\0😀".encode() + b"\xff" + bytes(range(256)) * 3

spans = st.tuples(st.integers(0, len(TEXT)), st.sampled_from([0, 0, 1, 2, 31, 32, 33, 255, 256, 257])).map(
    lambda span: (span[0], min(span[0] + span[1], len(TEXT)))
)


def check(ops: Backend, text: bytes, rows: Sequence[tuple[int, int]]) -> None:
    begin, end = np.array(rows, np.int64).reshape(-1, 2).T
    found = ops.gather(ops.asarray(np.frombuffer(text, np.uint8)), ops.asarray(begin), ops.asarray(end))
    values, offset = ops.asnumpy(found.values), ops.asnumpy(found.offset)
    assert values.dtype == np.uint8 and offset.dtype == np.int64 and len(offset) == len(rows) + 1
    assert offset[0] == 0 and offset[-1] == len(values)
    wanted = [text[start:stop] for start, stop in rows]
    assert [values[start:stop].tobytes() for start, stop in pairwise(offset.tolist())] == wanted


AWKWARD = [
    [],
    [(0, 0)],
    [(len(TEXT), len(TEXT))] * 3,
    [(0, len(TEXT))],
    [(5, 9), (0, 0), (1, 2)],
    [(3, 3)] * 300 + [(0, 1)] + [(7, 7)] * 300 + [(len(TEXT) - 1, len(TEXT))] + [(2, 2)] * 40,
    [(place, place + 1) for place in reversed(range(300))],
    [(0, 257), (0, 256), (0, 255), (1, 33), (1, 32), (2, 33)],
]


@pytest.mark.parametrize("rows", AWKWARD)
def test_awkward_rows(cuda: CudaBackend, rows: list[tuple[int, int]]) -> None:
    check(cuda, TEXT, rows)


@settings(max_examples=25)
@given(st.lists(spans, max_size=40))
def test_any_rows(cuda: CudaBackend, rows: list[tuple[int, int]]) -> None:
    check(cuda, TEXT, rows)


@pytest.mark.parametrize("ops", [ReferenceBackend(), CpuBackend(2)], ids=lambda ops: ops.name)
@given(st.lists(spans, max_size=40))
def test_on_the_host(ops: Backend, rows: list[tuple[int, int]]) -> None:
    check(ops, TEXT, rows)


def test_rows_beyond_4_gib(cuda: CudaBackend) -> None:
    far = 2**32 + 5
    values = far_array(cuda, far, np.array([1, 2, 3], np.uint8))
    begin, end = np.array([far, 0, far + 2], np.int64), np.array([far + 3, 2, far + 3], np.int64)
    found = cuda.gather(values, cuda.asarray(begin), cuda.asarray(end))
    assert cuda.asnumpy(found.values).tolist() == [1, 2, 3, 0, 0, 3]
