"""Arrays from Python values: those of pyarrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gpulsh.io.arrow.buffers import python_array


@pytest.mark.parametrize(
    "values",
    [
        *(
            [],
            [None],
            ["a", "", None, "é\0"],
            ["x"] * 9,
            [1, None, -(2**63), 2**63 - 1],
            [0.5, None, -0.0],
            [True, None],
        ),
        [1, None, 2.5],
    ],
    ids=str,
)
def test_arrays_of_python_values_are_those_of_pyarrow(values: list[Any]) -> None:
    found, wanted = python_array(values), pa.array(values)
    found.validate(full=True)
    assert found.type == wanted.type and found.to_pylist() == wanted.to_pylist()
    assert found.null_count == wanted.null_count


@pytest.mark.parametrize("values", [["\ud800"], [2**63], ["a", 1]], ids=repr)
def test_what_pyarrow_refuses_is_refused(values: list[Any]) -> None:
    for make in (pa.array, python_array):
        with pytest.raises((pa.ArrowException, OverflowError, UnicodeError)):
            make(values)
