"""`keep=COLUMN` of dates that are text: the same document stays, whatever format the column comes in."""

import csv
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh.errors import InputError, InputTypeError
from gpulsh.io.formats.keys import Instant, parsed_key
from tests.support.runs import run

Values = list[str | None]
PAGE = "the same page of some words"


def as_csv(path: Path, values: Values) -> Path:
    with open(path / "a.csv", "w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([("text", "date"), *((PAGE, value) for value in values)])
    return path / "a.csv"


def as_json(path: Path, values: Values) -> Path:
    (path / "a.jsonl").write_text("".join(json.dumps({"text": PAGE, "date": value}) + "\n" for value in values))
    return path / "a.jsonl"


def as_parquet(path: Path, values: Values) -> Path:
    table = pa.table({"text": [PAGE] * len(values), "date": pa.array(values, pa.string())})
    pq.write_table(table, path / "a.parquet", row_group_size=2)
    return path / "a.parquet"


def as_arrow(path: Path, values: Values) -> Path:
    column = pa.array(values, pa.large_string()).dictionary_encode()
    feather.write_feather(pa.table({"text": [PAGE] * len(values), "date": column}), path / "a.arrow", chunksize=2)
    return path / "a.arrow"


FORMATS = [as_csv, as_json, as_parquet, as_arrow]


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
    run([form(tmp_path, values) for form in FORMATS], tmp_path / "out", keep="date", within=True)
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
def test_the_first_that_cannot_be_read_is_named(
    form: Callable[[Path, Values], Path], values: Values, row: int, told: str, tmp_path: Path
) -> None:
    path = form(tmp_path, values)
    unit, first = ("line", 2 if form is as_csv else 1) if form in (as_csv, as_json) else ("row", 0)
    with pytest.raises((InputTypeError, InputError)) as raised:
        run(path, tmp_path / "out", keep="date")
    assert str(raised.value).startswith(f"{path}: {unit} {row + first}: ")
    assert told.format(unit=unit, first=first) in str(raised.value) and "\n" not in str(raised.value)


def test_files_of_numbers_and_of_dates_do_not_compare(tmp_path: Path) -> None:
    inputs = [as_csv(tmp_path, ["1"]), as_json(tmp_path, ["2024-01-01"])]
    with pytest.raises(InputError, match="'date' is number and timestamp"):
        run(inputs, tmp_path / "out", keep="date")


@pytest.mark.parametrize("first", [as_csv, as_json, as_parquet])
def test_null_goes_with_dates_and_numbers(first: Callable[[Path, Values], Path], tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    for value in ("2024-01-01", "7"):
        inputs = [first(tmp_path / "none", [None, None]), as_json(tmp_path, [None, value])]
        run(inputs, tmp_path / "out", keep="date", overwrite=True)
        rows = pq.read_table(tmp_path / "out/duplicates.parquet")
        assert set(rows["duplicate_of_row"].to_pylist()) == {1} and len(rows) == 3


def test_text_and_typed_dates_compare(tmp_path: Path) -> None:
    typed = pa.array([datetime(2024, 5, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"text": [PAGE], "date": typed}), tmp_path / "b.parquet")
    run([tmp_path / "b.parquet", as_csv(tmp_path, ["2024-04-30", "2024-05-02"])], tmp_path / "out", keep="date")
    kept = pq.read_table(tmp_path / "out/duplicates.parquet")
    assert set(kept["duplicate_of_file"].to_pylist()) == {str(tmp_path / "a.csv")}


@given(st.datetimes(), st.integers(-14 * 60, 14 * 60))
def test_instants_are_those_of_the_clock(when: datetime, minutes: int) -> None:
    offset = timedelta(minutes=minutes)
    sign, size = ("-", -minutes) if minutes < 0 else ("+", minutes)
    text = f"{when.isoformat()}{sign}{size // 60:02}:{size % 60:02}"
    assert parsed_key(text) == Instant((when - datetime(1970, 1, 1) - offset) // timedelta(microseconds=1))


@pytest.mark.parametrize("text", ["2024-13-01", "2024-01-01x10:00", "01/02/2024", "2024-01", "", "2024-01-01T25:00"])
def test_other_text_is_no_date(text: str) -> None:
    assert not isinstance(parsed_key(text), Instant)
