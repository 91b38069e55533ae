"""Keys are ordered by Python's exact comparison of integers and floats, not as floats."""

import json
import random
from datetime import UTC, date, datetime, timedelta
from functools import cmp_to_key
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.errors import InputError, InputTypeError
from gpulsh.io.formats.blocks import Instant, parse_value, read_dates
from gpulsh.report.summary import funnel_table
from gpulsh.run.policy import Order, check_kinds, highest_first, kind_of
from tests.support.files import read_rows, write_rows
from tests.support.runs import evidence, run

EDGES = [0, 1, -1, 2**53, 2**53 + 1, 2**53 - 1, -(2**53) - 1, 2**63, 2**63 - 1, 2**63 - 513, 2**63 + 1025]
EDGES += [2**64, 2**64 - 1, 2**64 - 1025, -(2**63), -(2**63) + 1, -(2**63) - 1, 2**62 + 1, 10**30, -(10**30) + 1]
FLOATS = [0.0, -0.0, 1.5, 5e-324, -5e-324, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, 1.7e308]
FLOATS += [float("inf"), float("-inf"), float(np.nextafter(2.0**63, 0)), float(np.nextafter(2.0**53, 1e300))]


def near(numbers: Any) -> Any:
    """Numbers and integers near them; many integers may share a float."""
    return st.builds(lambda number, more: int(number) + more, numbers, st.integers(-3, 3))


wide = st.one_of(st.sampled_from(EDGES), near(st.sampled_from(EDGES)), st.integers(-(2**70), 2**70))
floats = st.one_of(st.sampled_from(FLOATS), st.floats(allow_nan=False))


def assert_highest_first(order: Order, keys: list[Any]) -> None:
    """Check the order: exact comparison, ties by position, null last."""

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


def integers(least: int, most: int) -> Any:
    inside = [least, least + 1, most, most - 1, *(edge for edge in EDGES if least <= edge <= most)]
    return st.one_of(st.sampled_from(inside), st.integers(least, most))


def real(width: int) -> Any:
    return st.one_of(st.sampled_from(FLOATS[:3]), st.floats(allow_nan=False, width=width))


INSTANTS = st.one_of(st.integers(-3, 3), st.integers(2**28 - 2, 2**28))
TYPES = {
    **{getattr(pa, f"int{bits}")(): integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 32, 64)},
    **{getattr(pa, f"uint{bits}")(): integers(0, 2**bits - 1) for bits in (32, 64)},
    pa.float64(): real(64),
    pa.float32(): real(32),
    pa.date64(): INSTANTS.map(lambda day: day * 86_400_000),
    **dict.fromkeys([pa.date32(), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.time64("us")], INSTANTS),
}

TICKS = {pa.date32(): 86_400 * 10**9, pa.date64(): 10**6, pa.timestamp("s"): 10**9, pa.timestamp("us", "UTC"): 1000}
TICKS[pa.timestamp("ns")] = 1


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(st.data())
def test_keys_of_each_type_are_ordered_exactly(kind: Any, data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.one_of(st.none(), TYPES[kind]), max_size=12))
    plain = {pa.date32(): pa.int32()}.get(kind, pa.int64()) if pa.types.is_temporal(kind) else kind
    assert_highest_first(ordered(pa.array(keys, plain).view(kind)), keys)
    sliced = pa.array([7, None, *keys, 3], plain).view(kind).slice(2, len(keys))
    assert_highest_first(ordered(sliced), keys)


@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), max_size=6),
    st.lists(st.one_of(st.none(), st.integers(0, 2**64 - 1)), max_size=6),
    st.lists(st.one_of(st.none(), floats), max_size=6),
    st.lists(st.one_of(st.none(), wide, floats, near(st.floats(-1e19, 1e19))), max_size=12),
)
def test_mixed_types_are_ordered(signed: list[Any], unsigned: list[Any], real: list[Any], mixed: list[Any]) -> None:
    """Files of several formats give such keys."""
    blocks = [pa.array(signed, pa.int64()), pa.array(unsigned, pa.uint64()), pa.array(real, pa.float64()), mixed]
    blocks.append(pa.nulls(2))
    found = [ordered(block) for block in blocks]
    whole = Order(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
    assert_highest_first(whole, [*signed, *unsigned, *real, *mixed, None, None])
    check_kinds(map(kind_of, blocks), "key")


@given(st.lists(st.tuples(st.sampled_from([*TICKS]), st.integers(-(2**31), 2**31 - 1)), max_size=12))
def test_dates_of_all_units_are_ordered(dates: list[tuple[Any, int]]) -> None:
    blocks = [pa.array([tick], pa.int32() if kind == pa.date32() else pa.int64()).view(kind) for kind, tick in dates]
    found = [ordered(block) for block in [pa.nulls(1), *blocks]]
    whole = Order(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
    assert_highest_first(whole, [None, *(tick * TICKS[kind] for kind, tick in dates)])
    check_kinds(map(kind_of, blocks), "date")


def test_an_integer_beyond_floats_is_refused() -> None:
    with pytest.raises(InputError, match=r"^row 1: column 'key' is an integer of 401 digits"):
        highest_first([1, -(10**400)], "key", lambda row: f"row {row}")
    with pytest.raises(InputError, match="integer of"):  # the rest of it does not fit
        highest_first([10**300], "key", lambda row: f"row {row}")


# --- dates that are text: the same document stays, whatever format the column comes in ---


Values = list[str | None]
PAGE = "the same page of some words"


def write(form: str, folder: Path, values: Values) -> Path:
    column = pa.array(values, pa.large_string())
    column = column.dictionary_encode() if form == "arrow" else column
    return Path(write_rows(folder / f"a.{form}", pa.table({"text": [PAGE] * len(values), "date": column}), 2))


FORMS = ["csv", "jsonl", "parquet", "arrow"]


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (["2023-12-31", None, "2024-01-01", "2024-01-01"], 2),
        # Midnight in UTC, an instant before it, and the same instant by another clock, which is a tie.
        (["2023-12-31T23:59:59.999999Z", "2024-01-01T01:00:00+01:00", "2024-01-01T00:00:00Z", "2024-01-01"], 1),
        (["2024-01-01 10:00", "2024-01-01T08:30:00-0400", "2024-01-01T12:29:59,5Z", None], 1),
        (["0001-01-01T00:00+05:00", None, "9999-12-31T23:59:59-05:00", "2024-06-01"], 2),
        (["9", "10", None, "-3.5"], 1),
    ],
)
def test_the_latest_is_kept(values: Values, kept: int, tmp_path: Path) -> None:
    """This holds in each format: every file is its own INPUT."""
    run([write(form, tmp_path, values) for form in FORMS], tmp_path / "out", keep="date", within=True)
    witnesses = pq.read_table(tmp_path / "out/duplicates.parquet")["duplicate_of_row"].to_pylist()
    assert witnesses == [kept] * 3 * len(FORMS)


BAD_DATES = [
    (["2024-01-01", None, "yesterday", "soon"], 2, "'date' is 'yesterday'; keep takes numbers, or dates as 2024-"),
    (["2024-02-30", "2024-01-01"], 0, "'date' is '2024-02-30'"),
    (["2024-01-01", "20240102", "2024-01-03"], 1, "'date' is a number, and {unit} {first} has a date"),
    (["1", "2024-01-01"], 1, "'date' is a date, and {unit} {first} has a number"),
    (["2024-01-01", "nan"], 1, "'date' is NaN"),
]


@pytest.mark.parametrize(
    ("form", "values", "row", "message"),
    [(form, *BAD_DATES[(number + turn) % 5]) for number, form in enumerate(FORMS) for turn in (0, 2, 4)],
)
def test_the_first_unreadable_value_is_named(form: str, values: Values, row: int, message: str, tmp_path: Path) -> None:
    path = write(form, tmp_path, values)
    unit, first = ("line", 2 if form == "csv" else 1) if form in ("csv", "jsonl") else ("row", 0)
    with pytest.raises((InputTypeError, InputError)) as raised:
        run(path, tmp_path / "out", keep="date")
    assert str(raised.value).startswith(f"{path}: {unit} {row + first}: ")
    assert message.format(unit=unit, first=first) in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("first", ["csv", "jsonl", "parquet"])
def test_null_compares_with_dates_and_numbers(first: str, tmp_path: Path) -> None:
    floats = pa.table({"text": [PAGE], "date": pa.nulls(1, pa.float64())})  # as pandas stores it
    for value in ("2024-01-01", "7"):
        inputs = [write(first, tmp_path / "none", [None, None]), write("jsonl", tmp_path, [None, value])]
        run([*inputs, write_rows(tmp_path / "b.parquet", floats)], tmp_path / "out", keep="date", overwrite=True)
        assert [row["duplicate_of_row"] for row in evidence(tmp_path / "out")] == [1] * 4


def test_text_and_typed_dates_compare_and_numbers_with_neither(tmp_path: Path) -> None:
    typed = pa.array([datetime(2024, 5, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    other = write_rows(tmp_path / "b.parquet", pa.table({"text": [PAGE], "date": typed}))
    days = write_rows(tmp_path / "c.parquet", pa.table({"text": [PAGE], "date": [date(2024, 5, 1)]}))
    run([other, days, write("csv", tmp_path, ["2024-04-30", "2024-05-02"])], tmp_path / "out", keep="date")
    assert {row["duplicate_of_file"] for row in evidence(tmp_path / "out")} == {str(tmp_path / "a.csv")}
    inputs = [write("csv", tmp_path, ["1"]), write("jsonl", tmp_path, ["2024-01-01"])]
    with pytest.raises(InputError, match="'date' is date and number"):
        run(inputs, tmp_path / "no", keep="date")


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.timestamp("s")])
def test_a_dictionary_is_ordered_by_its_values(kind: pa.DataType, ending: str, tmp_path: Path) -> None:
    table = pa.table({"text": [PAGE] * 4, "date": pa.array([3, None, 8, 8], kind).dictionary_encode()})
    run(write_rows(tmp_path / f"a.{ending}", table, 2), tmp_path / "out", keep="date")
    assert [row["duplicate_of_row"] for row in evidence(tmp_path / "out")] == [2] * 3


@given(st.datetimes(), st.integers(-14 * 60, 14 * 60))
def test_dates_with_offsets_are_instants(when: datetime, minutes: int) -> None:
    offset = timedelta(minutes=minutes)
    sign, size = ("-", -minutes) if minutes < 0 else ("+", minutes)
    text = f"{when.isoformat()}{sign}{size // 60:02}:{size % 60:02}"
    assert parse_value(text) == Instant((when - datetime(1970, 1, 1) - offset) // timedelta(microseconds=1))


PARTS = [
    *(["0000", "0999", "2024"], ["-02", "-13"], ["-01", "-29", "-30"]),
    ["", "T12", "T12:34", " 24:00", "t12:34", "T12:34:56", "T12:34:60"],
    *(["", ".", ".123456", ",5", ".1234567"], ["", "Z", "z", "-0530", "+14", "+24:00"]),
]
DATES = st.builds("".join, st.tuples(*map(st.sampled_from, PARTS)))


@given(st.lists(st.none() | DATES, max_size=3))
def test_dates_that_are_read_at_once_are_those_read_alone(texts: list[str | None]) -> None:
    found = read_dates(pa.array(texts, pa.string()))
    if found is not None:
        alone = [None if text is None else parse_value(text) for text in texts]
        assert {type(value) for value in alone} <= {Instant, type(None)}
        assert found.view(pa.int64()).to_pylist() == alone


@pytest.mark.parametrize("end", ["", "T12:34", " 12:34:56", "T12:34:56.5", "T12:34Z", "T12:34:56.123456-05:30"])
def test_plain_dates_are_read_at_once(end: str) -> None:
    assert read_dates(pa.array(["2024-01-31" + end, None, "1066-10-14" + end])) is not None


@pytest.mark.parametrize("text", ["2024-13-01", "2024-01-01x10:00", "01/02/2024", "2024-01", "", "2024-01-01T25:00"])
def test_other_text_is_no_date(text: str) -> None:
    assert not isinstance(parse_value(text), Instant)


# --- witnesses beyond the order of keys: order of inputs, protected documents, separate sources ---


WORDS = [f"word{i}" for i in range(300)]


def page(seed: int) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=40))


def near_copy(text: str) -> str:
    return text.replace(" ", "  ", 1) + " more"


def kept(inputs: list[str], out: Path, **options: Any) -> dict[str, list[str]]:
    run(inputs, out, **options)
    return {path.name: [row["text"] for row in read_rows(path)] for path in sorted((out / "data").iterdir())}


@pytest.mark.parametrize(
    ("keep", "first"),
    [
        ("source:b/x,a/x", "b/x/"),
        ("source:b/x/", "b/x/"),
        ("source:a/x", "a/x"),
        ("source:x,b/x", "x"),  # as it was given, though others end so
        ("source:../policies/b/x", "../policies/b/x"),
    ],
)
def test_keep_names_inputs_by_any_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str, first: str) -> None:
    (tmp_path / "policies").mkdir()
    monkeypatch.chdir(tmp_path / "policies")
    for name in ("a/x", "b/x", "x"):
        write_rows(f"{name}/part.jsonl", [page(1)])
    inputs = ["a/x", first if first.startswith("..") else "b/x/", "x"]
    run(inputs, "out", keep=keep)
    assert {row["duplicate_of_file"] for row in evidence("out")} == {f"{first.rstrip('/')}/part.jsonl"}


@pytest.mark.parametrize("options", [{}, {"measure": "containment"}], ids=str)
def test_protected_documents_are_compared_with_every_input(tmp_path: Path, options: dict[str, str]) -> None:
    """Even with inputs kept apart, no copy of a test document may stay in a training set."""
    guarded = write_rows(tmp_path / "test.jsonl", [page(1), page(2)])
    a = write_rows(tmp_path / "a.jsonl", [page(1), page(3), near_copy(page(2))])
    b = write_rows(tmp_path / "b.jsonl", [page(3), page(1), page(1)])
    found = kept([a, b], tmp_path / "out", within=True, protect=[guarded], **options)
    assert found == {"a.jsonl": [page(3)], "b.jsonl": [page(3)]}
    assert {row["duplicate_of_file"] for row in evidence(tmp_path / "out")} == {guarded}
    more, c = write_rows(tmp_path / "more.jsonl", [page(1)]), write_rows(tmp_path / "c.jsonl", [page(3)])
    assert kept([c], tmp_path / "one", within=True, protect=[guarded, more], **options) == {"c.jsonl": [page(3)]}


def test_protected_files_need_the_named_columns(tmp_path: Path) -> None:
    given = write_rows(tmp_path / "a.jsonl", [{"text": page(1), "id": 1, "n": 2}])
    test = write_rows(tmp_path / "test.jsonl", [page(1)])
    advice = ", which id_column names for every input file; add it, or leave id_column"
    named = (("id_column", "id", advice), ("keep", "n", ""), ("source_column", "id", ""), ("key", "id", ""))
    for option, name, more in named:
        with pytest.raises(InputError, match=rf"test\.jsonl: has no column '{name}'{more}"):
            run(given, tmp_path / "out", protect=test, **{option: name})
        assert not (tmp_path / "out").exists()


def test_across_with_a_single_input_gives_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Such a run can drop no document, and might work for hours before that shows."""
    for name in ("in/a.jsonl", "in/b.jsonl", "c.jsonl"):
        write_rows(tmp_path / name, [page(1)])
    both, message = [str(tmp_path / "in"), str(tmp_path / "c.jsonl")], "all documents are of one INPUT"
    assert all(kept(both[:1], tmp_path / "one", across=True).values()) and message in caplog.text
    caplog.clear()
    guarded = kept(both[:1], tmp_path / "guarded", protect=both[1:], across=True)
    assert not any(guarded.values()) and message not in caplog.text
