"""The order of keys is the one of Python's exact comparison, integers and floats mixed, and of no sorted float."""

import datetime
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh.errors import InputError
from gpulsh.run.policy import Order, check_kinds, highest_first, kind_of, longest_first

EDGES = [0, 1, -1, 2**53, 2**53 + 1, 2**53 - 1, -(2**53) - 1, 2**63, 2**63 - 1, 2**63 - 513, 2**63 + 1025]
EDGES += [2**64, 2**64 - 1, 2**64 - 1025, -(2**63), -(2**63) + 1, -(2**63) - 1, 2**62 + 1, 10**30, -(10**30) + 1]
FLOATS = [0.0, -0.0, 1.5, 5e-324, -5e-324, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, 1.7e308]
FLOATS += [float("inf"), float("-inf"), float(np.nextafter(2.0**63, 0)), float(np.nextafter(2.0**53, 1e300))]


def near(numbers: Any) -> Any:
    """Those, and integers about them, also where a float is many integers."""
    return st.builds(lambda number, more: int(number) + more, numbers, st.integers(-3, 3))


wide = st.one_of(st.sampled_from(EDGES), near(st.sampled_from(EDGES)), st.integers(-(2**70), 2**70))
floats = st.one_of(st.sampled_from(FLOATS), st.floats(allow_nan=False))
finite = st.floats(-1e19, 1e19)


def assert_highest_first(order: Order, keys: list[Any]) -> None:
    """By exact comparison, ties by position, null last."""

    def compared(i: int, j: int) -> int:
        if keys[i] is None or keys[j] is None:
            return (keys[i] is None) - (keys[j] is None)
        return int(keys[i] < keys[j]) - int(keys[i] > keys[j])

    wanted = sorted(range(len(keys)), key=cmp_to_key(compared))  # stable
    rank = order.rank(np.zeros(len(keys), np.bool_))
    assert np.argsort(rank).tolist() == wanted
    for one, other in pairwise(wanted):  # equal keys are a tie, and go by position
        same = (order.major[one], order.minor[one]) == (order.major[other], order.minor[other])
        assert same == (compared(one, other) == 0)


def ordered(keys: Any) -> Order:
    return highest_first(keys, "key", str)


@given(st.lists(st.one_of(st.none(), wide, floats, near(finite)), max_size=12))
def test_numbers_of_both_kinds(keys: list[Any]) -> None:
    assert_highest_first(ordered(keys), keys)


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        *((pa.int64(), -(2**63), 2**63 - 1), (pa.uint64(), 0, 2**64 - 1), (pa.int8(), -128, 127)),
        *((pa.uint32(), 0, 2**32 - 1), (pa.int32(), -(2**31), 2**31 - 1)),
    ],
)
@given(st.data())
def test_integers(kind: Any, least: int, most: int, data: st.DataObject) -> None:
    inside = [edge for edge in EDGES if least <= edge <= most]
    integers = st.one_of(st.sampled_from([least, least + 1, most, most - 1, *inside]), st.integers(least, most))
    keys = data.draw(st.lists(st.one_of(st.none(), integers), max_size=12))
    assert_highest_first(ordered(pa.array(keys, kind)), keys)
    sliced = pa.array([7, None, *keys, 3], kind).slice(2, len(keys))
    assert_highest_first(ordered(sliced), keys)


@pytest.mark.parametrize(("kind", "width"), [(pa.float64(), 64), (pa.float32(), 32)])
@given(st.data())
def test_floats(kind: Any, width: int, data: st.DataObject) -> None:
    given_floats = st.one_of(st.sampled_from(FLOATS[:3]), st.floats(allow_nan=False, width=width))
    keys = data.draw(st.lists(st.one_of(st.none(), given_floats), max_size=12))
    assert_highest_first(ordered(pa.array(keys, kind)), keys)


@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), max_size=6),
    st.lists(st.one_of(st.none(), st.integers(0, 2**64 - 1)), max_size=6),
    st.lists(st.one_of(st.none(), floats), max_size=6),
    st.lists(st.one_of(st.none(), wide, floats), max_size=6),
)
def test_blocks_of_several_types_compare(
    signed: list[Any], unsigned: list[Any], real: list[Any], mixed: list[Any]
) -> None:
    """As they come from files of several formats."""
    blocks = [pa.array(signed, pa.int64()), pa.array(unsigned, pa.uint64()), pa.array(real, pa.float64()), mixed]
    blocks.append(pa.nulls(2))
    found = [ordered(block) for block in blocks]
    whole = Order(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
    assert_highest_first(whole, [*signed, *unsigned, *real, *mixed, None, None])
    check_kinds(map(kind_of, blocks), "key")


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.date64(), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.time64("us")]
)
@given(st.data())
def test_dates_and_times(kind: Any, data: st.DataObject) -> None:
    day = 86_400_000 if kind == pa.date64() else 1
    keys = data.draw(st.lists(st.one_of(st.none(), st.integers(-3, 3), st.integers(2**28 - 2, 2**28)), max_size=9))
    keys = [key if key is None else key * day for key in keys]
    storage = pa.int32() if kind.bit_width == 32 else pa.int64()
    assert_highest_first(ordered(pa.array(keys, storage).view(kind)), keys)


@given(st.lists(st.sampled_from([0, 1, 2, 2**31, 2**62]), max_size=9))
def test_longest_first(sizes: list[int]) -> None:
    assert_highest_first(longest_first(np.array(sizes, np.int64)), sizes)


@pytest.mark.parametrize(
    "keys",
    [[1, None, float("nan")], pa.array([1.0, None, float("nan")]), pa.array([1, None, float("nan")], pa.float32())],
)
def test_nan_is_told_with_its_place(keys: Any) -> None:
    with pytest.raises(InputError, match=r"^row 2: column 'key' is NaN"):
        highest_first(keys, "key", lambda row: f"row {row}")


def test_an_integer_that_no_float_is_near_is_told() -> None:
    with pytest.raises(InputError, match=r"^row 1: column 'key' is an integer of 401 digits"):
        highest_first([1, -(10**400)], "key", lambda row: f"row {row}")
    with pytest.raises(InputError, match="integer of"):  # the rest of it does not fit
        highest_first([10**300], "key", lambda row: f"row {row}")


def test_keys_that_do_not_compare_are_told() -> None:
    blocks = [pa.array([datetime.date(2024, 1, 1)]), pa.array([1]), pa.nulls(3)]
    with pytest.raises(InputError, match=r"column 'key' is date32\[day\] and number in different files"):
        check_kinds(map(kind_of, blocks), "key")
