"""The order of the decision: priorities of any numbers or dates, of every library, and refused ones."""

from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpulsh


def targets(priority: Any) -> list[int]:
    return gpulsh.deduplicate(["one text"] * 5, priority=priority, backend="cpu").duplicate_of.tolist()


DAYS = ["2024-01-01", None, "2024-03-01", "2024-03-01", "2024-02-01"]
PANDAS_DAYS = [pd.Series(pd.to_datetime(DAYS, utc=utc), index=list("edcba")) for utc in (False, True)]


@pytest.mark.parametrize(
    ("priority", "kept"),
    [
        (None, 0),
        ([0, 0, 0, 0, 0], 0),
        ([1, 3, 2, 3, 0], 1),
        ((0.5, 0.25, 0.5, 0.75, 0.75), 3),
        (np.array([0.0, -0.0, 0.0, -0.0, 0.0]), 0),
        (np.array([-np.inf, 1, 5, np.inf, np.inf]), 3),
        (np.array([1, 2, 3, 4, 5], np.uint8), 4),
        (np.array([1, -2, 3, -4, 5], np.float16), 4),
        # Neighbours beyond 2^53 are one float, and not one integer.
        (np.array([2**63 - 3, 2**63 - 2, 2**63 - 1, 2**63 - 2, -(2**63)], np.int64), 2),
        (np.array([2**64 - 2, 2**64 - 1, 2**63, 0, 1], np.uint64), 1),
        ([2**63 - 2, 2**63 - 1, 2**63 - 3, -5, 0], 1),
        ([2**63, 2**63 + 1, 5, 1, 0], 1),
        ([2**63, -1, 2**63 + 1, 2**64, 2**64 + 1], 4),
        ([2.0**53, 2**53 + 1, 0, 0, 0], 1),
        (np.array(["NaT", "1969-12-31", "2024-01-02", "2024-01-01", "2024-01-02"], "datetime64[D]"), 2),
        (np.array(["NaT", "0001-01-01", "NaT", "NaT", "NaT"], "datetime64[us]"), 1),
        ([date(2024, 1, 1), None, date(2024, 1, 3), date(2024, 1, 2), date(2024, 1, 3)], 2),
        ([datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=h))) for h in (3, 2, -5, -4, -5)], 2),
        # A date among datetimes is its midnight, in either order.
        ([date(2024, 1, 1), datetime(2024, 1, 1, 5), None, datetime(2024, 1, 1, 4), date(2024, 1, 1)], 1),
        ([datetime(2024, 1, 1, 4), date(2024, 1, 1), None, date(2024, 1, 2), datetime(2024, 1, 1, 5)], 3),
        (np.array([1, 3, 2.5, 2**70, 2**70], object), 3),
        *((column([1.0, 2.0, 3.0, 3.0, 0.0]), 2) for column in (pd.Series, pl.Series, pa.array)),
        (pd.Series([1, 2, 5, 4, 3], index=list("edcba")), 2),
        *((made(days), 2) for days in PANDAS_DAYS for made in (pd.Series, pa.array, pl.from_pandas)),
    ],
)
def test_the_highest_priority_is_kept(priority: Any, kept: int) -> None:
    assert targets(priority) == [kept] * 5


@pytest.mark.parametrize(
    ("priority", "message"),
    [
        ([1.0, float("nan"), 0, 0, 0], "NaN or null at position 1"),
        (np.array([0, 0, 0, 0, np.nan], np.float32), "NaN or null at position 4"),
        ([2**60 + 1, float("nan"), 0, 0, 0], "NaN or null at position 1"),
        (pa.array([1, 2, None, 3, 0]), "NaN or null at position 2"),
        (np.ma.array(range(5), mask=[0, 0, 1, 0, 1]), "masked at position 2"),
        ([1, 2], r"shape \(2,\)"),
        (np.zeros((5, 1)), r"shape \(5, 1\)"),
        (["a"] * 5, r"priority\[0\] is 'a'; give floats, integers or dates"),
        ([1, None, 1, 1, 1], r"priority\[1\] is None; give"),
        ([True] * 5, "priority"),
        ([pa.array(["a"])] * 5, r"priority\[0\] is of type StringArray; give"),
        (np.ndarray, "priority is the class ndarray; give floats, integers or dates"),
        (3.0, r"shape \(\)"),
        (["2024-01-01"] * 5, "priority"),
        (np.zeros(5, "timedelta64[s]"), "priority"),
        (np.zeros(4, "datetime64[s]"), r"shape \(4,\)"),
        ([[1], [2, 3], [4], [5], [6]], "priority"),
        (pa.UnionArray.from_sparse(pa.array([0] * 5, pa.int8()), [pa.array(range(5))]), "priority is not an array"),
    ],
)
def test_wrong_priorities_are_refused(priority: Any, message: str) -> None:
    with pytest.raises(gpulsh.ParameterError, match=message):
        targets(priority)
