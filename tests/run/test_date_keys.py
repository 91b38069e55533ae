"""`keep=COLUMN` of dates that are text: the same document stays, whatever format the column comes in."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh.errors import InputError, InputTypeError
from gpulsh.io.formats.keys import Instant, parsed_key
from tests.support.files import write_rows
from tests.support.runs import evidence, run

Values = list[str | None]
PAGE = "the same page of some words"


def write(form: str, folder: Path, values: Values) -> Path:
    column = pa.array(values, pa.large_string())
    column = column.dictionary_encode() if form == "arrow" else column
    return Path(write_rows(folder / f"a.{form}", pa.table({"text": [PAGE] * len(values), "date": column}), 2))


FORMATS = ["csv", "jsonl", "parquet", "arrow"]


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
    """In each format: every file is an INPUT of its own."""
    run([write(form, tmp_path, values) for form in FORMATS], tmp_path / "out", keep="date", within=True)
    witnesses = pq.read_table(tmp_path / "out/duplicates.parquet")["duplicate_of_row"].to_pylist()
    assert witnesses == [kept] * 3 * len(FORMATS)


BAD_DATES = [
    (["2024-01-01", None, "yesterday", "soon"], 2, "'date' is 'yesterday'; keep takes numbers, or dates as 2024-"),
    (["2024-02-30", "2024-01-01"], 0, "'date' is '2024-02-30'"),
    (["2024-01-01", "20240102", "2024-01-03"], 1, "'date' is a number, and {unit} {first} has a date"),
    (["1", "2024-01-01"], 1, "'date' is a date, and {unit} {first} has a number"),
    (["2024-01-01", "nan"], 1, "'date' is NaN"),
]


@pytest.mark.parametrize(
    ("form", "values", "row", "told"),
    [(form, *BAD_DATES[(number + turn) % 5]) for number, form in enumerate(FORMATS) for turn in (0, 2, 4)],
)
def test_the_first_that_cannot_be_read_is_named(form: str, values: Values, row: int, told: str, tmp_path: Path) -> None:
    path = write(form, tmp_path, values)
    unit, first = ("line", 2 if form == "csv" else 1) if form in ("csv", "jsonl") else ("row", 0)
    with pytest.raises((InputTypeError, InputError)) as raised:
        run(path, tmp_path / "out", keep="date")
    assert str(raised.value).startswith(f"{path}: {unit} {row + first}: ")
    assert told.format(unit=unit, first=first) in str(raised.value) and "\n" not in str(raised.value)


def test_files_of_numbers_and_of_dates_do_not_compare(tmp_path: Path) -> None:
    inputs = [write("csv", tmp_path, ["1"]), write("jsonl", tmp_path, ["2024-01-01"])]
    with pytest.raises(InputError, match="'date' is number and timestamp"):
        run(inputs, tmp_path / "out", keep="date")


@pytest.mark.parametrize("first", ["csv", "jsonl", "parquet"])
def test_null_goes_with_dates_and_numbers(first: str, tmp_path: Path) -> None:
    for value in ("2024-01-01", "7"):
        inputs = [write(first, tmp_path / "none", [None, None]), write("jsonl", tmp_path, [None, value])]
        run(inputs, tmp_path / "out", keep="date", overwrite=True)
        assert [row["duplicate_of_row"] for row in evidence(tmp_path / "out")] == [1] * 3


def test_text_and_typed_dates_compare(tmp_path: Path) -> None:
    typed = pa.array([datetime(2024, 5, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    other = write_rows(tmp_path / "b.parquet", pa.table({"text": [PAGE], "date": typed}))
    run([other, write("csv", tmp_path, ["2024-04-30", "2024-05-02"])], tmp_path / "out", keep="date")
    assert {row["duplicate_of_file"] for row in evidence(tmp_path / "out")} == {str(tmp_path / "a.csv")}


@given(st.datetimes(), st.integers(-14 * 60, 14 * 60))
def test_instants_are_those_of_the_clock(when: datetime, minutes: int) -> None:
    offset = timedelta(minutes=minutes)
    sign, size = ("-", -minutes) if minutes < 0 else ("+", minutes)
    text = f"{when.isoformat()}{sign}{size // 60:02}:{size % 60:02}"
    assert parsed_key(text) == Instant((when - datetime(1970, 1, 1) - offset) // timedelta(microseconds=1))


@pytest.mark.parametrize("text", ["2024-13-01", "2024-01-01x10:00", "01/02/2024", "2024-01", "", "2024-01-01T25:00"])
def test_other_text_is_no_date(text: str) -> None:
    assert not isinstance(parsed_key(text), Instant)
