"""gather: the bytes of texts; examples."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from gpulsh.backends.cpu.backend import CpuBackend
from gpulsh.backends.protocol import Backend
from gpulsh.errors import ParameterError
from tests.backends.parity.agreement import REFERENCE, agree, far_array

TEXT = "aé語\0😀".encode() + b"\xff" + bytes(range(256)) * 3


def check(ops: Backend, rows: Sequence[tuple[int, int]]) -> None:
    begin, end = np.array(rows, np.int64).reshape(-1, 2).T
    wanted = agree(ops, "gather", np.frombuffer(TEXT, np.uint8), begin, end)
    assert wanted.offset[0] == 0 and wanted.offset[-1] == len(wanted.values)
    found = [wanted.values[start:stop].tobytes() for start, stop in pairwise(wanted.offset.tolist())]
    assert found == [TEXT[start:stop] for start, stop in rows]


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


def test_awkward_rows(ops: Backend) -> None:
    for rows in AWKWARD:
        check(ops, rows)


@pytest.mark.parametrize(("begin", "end"), [(-1, 1), (0, 5), (3, 2)])
def test_a_text_outside_of_the_bytes_is_refused(begin: int, end: int) -> None:
    with pytest.raises(ParameterError, match=r"outside \[0, 4\]"):
        CpuBackend(1).gather(np.zeros(4, np.uint8), np.array([0, begin]), np.array([1, end]))


def test_rows_beyond_4_gib(ops: Backend) -> None:
    far = 2**32 + 5
    begin, end = np.array([far, 0, far + 2], np.int64), np.array([far + 3, 2, far + 3], np.int64)
    for judged in (ops, REFERENCE):
        values = far_array(judged, far, np.array([1, 2, 3], np.uint8))
        found = judged.gather(values, judged.asarray(begin), judged.asarray(end))
        assert judged.asnumpy(found.values).tolist() == [1, 2, 3, 0, 0, 3]
