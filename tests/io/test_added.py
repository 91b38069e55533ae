"""Added columns as JSON: each value as orjson writes it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from gpulsh.io.changes import json_texts

LISTS = [["q"], ["a", 'b"\\', "é\n"], None, [], ["x", None]]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, None, False]),
        pa.array([0, None, -(2**63), 2**63 - 1]),
        pa.array([1.0, None, 0.1, 1e300]),
        pa.array(["a", None, '"\\\0', "\u2028é"]),
        pa.array([None, None]),
        pa.array([None, None], pa.list_(pa.string())),
        pa.array([], pa.list_(pa.string())),
        pa.array(LISTS),
        pa.array(LISTS)[1:4],
        pa.array(LISTS)[2:3],
    ],
)
def test_json_texts(values: pa.Array) -> None:
    assert [json.loads(text) for text in json_texts(values).to_pylist()] == values.to_pylist()
