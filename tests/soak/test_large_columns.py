"""Columns in chunks that hold more text together than offsets of 32 bits can count."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpulsh.io.arrow.given import given_column
from gpulsh.io.arrow.identities import given_identities

CHUNK = pa.Array.from_buffers(
    pa.string(),
    1,
    [None, pa.py_buffer(np.array([0, 1100 << 20], np.int32)), pa.py_buffer(np.zeros(1100 << 20, np.uint8))],
)
EMPTY = pa.chunked_array([], pa.string())


@pytest.mark.parametrize(
    "read", [lambda column: given_column("ids", column, 2), lambda column: given_identities(column, 2)]
)
def test_chunks_of_more_than_2_gib(read: Any) -> None:
    found = read(pa.chunked_array([CHUNK, CHUNK]))
    assert isinstance(found, pa.Array) and len(found) == 2 and found.buffers()[2].size >= 2200 << 20


def test_no_chunk() -> None:
    assert len(given_column("ids", EMPTY, 0)) == len(given_identities(EMPTY, 0)) == 0
