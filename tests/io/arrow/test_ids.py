"""Ids without a Python value, large ones, and arrays of Python values, which equal those of pyarrow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.io.arrow.buffers import python_array
from gpulsh.io.arrow.ids import DAY, fits_parquet, joined_ids, json_strings
from gpulsh.io.formats.parquet import group_tables
from tests.support.files import write_rows
from tests.support.runs import run

FAR = 1 << 62
KINDS = [pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.timestamp("s", "Nowhere/Zone"), pa.duration("s")]
TEXT = "the same words again and again in two documents of one file"


def of_kind(kind: pa.DataType, count: int = 1) -> pa.Array:
    return pa.array([FAR + row for row in range(count)], pa.int64()).view(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", [None, "strings"])
def test_dates_beyond_python_become_their_number(kind: pa.DataType, other: str | None, tmp_path: Path) -> None:
    """They keep their type where Parquet has it."""
    inputs = [write_rows(tmp_path / "a.arrow", pa.table({"text": [TEXT, TEXT], "id": of_kind(kind, 2)}))]
    if other:
        inputs.append(write_rows(tmp_path / "b.parquet", [{"text": "others", "id": "a"}]))
    run(inputs, tmp_path / "out", id_column="id")
    ids = pq.read_table(tmp_path / "out/duplicates.parquet")["id"].chunk(0)
    if pa.types.is_string(ids.type):
        assert ids.to_pylist() == [str(FAR + 1)]
    else:
        assert ids.cast(kind).equals(of_kind(kind, 2)[1:])


def test_an_unknown_time_zone_has_no_value_with_pytz_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pytz is installed, Arrow asks it; pandas 2 installs it."""
    zones: dict[str, object] = {}
    monkeypatch.setitem(sys.modules, "pytz", SimpleNamespace(timezone=zones.__getitem__))
    values = pa.array([1], pa.timestamp("s", "Nowhere/Zone"))
    with pytest.raises(KeyError):
        values.to_pylist()
    assert json_strings(values).to_pylist() == ["1"]


@pytest.mark.parametrize("kind", [*KINDS, pa.time64("us")])  # in a file such a time of day is damage
def test_dates_as_text_are_numbers_only_where_python_has_no_value(kind: pa.DataType) -> None:
    values = pa.array([FAR, None], pa.int64()).view(kind)
    assert json_strings(values).to_pylist() == [str(FAR), None]
    first, second = json_strings(pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), values)).to_pylist()
    assert isinstance(first, str) and second == "[null]"
    if kind == pa.timestamp("s"):
        assert json_strings(pa.array([0], kind)).to_pylist() == ['"1970-01-01 00:00:00"']


def test_bytes_among_other_ids_are_the_text_that_they_encode() -> None:
    """Some writers of Parquet store all strings as bytes."""
    parts = [pa.array(["a"]), pa.array([b"a", "é".encode(), b"\xff", None])]
    assert joined_ids(parts, [part.type for part in parts]).to_pylist() == ["a", "a", "é", r"\xff", None]


def tables(kind: pa.DataType, first: int) -> pa.Table:
    second = first + (DAY if kind == pa.date64() else 1)
    return pa.table({"text": [TEXT, TEXT], "id": pa.array([first, second], pa.int64()).view(kind)})


FAR_KINDS = [(pa.timestamp("s"), FAR), (pa.timestamp("s"), -FAR), (pa.timestamp("s", "UTC"), FAR)]


@pytest.mark.parametrize(("kind", "value"), [*FAR_KINDS, (pa.date64(), FAR // DAY * DAY)])
def test_ids_out_of_the_range_of_parquet_become_text(kind: pa.DataType, value: int, tmp_path: Path) -> None:
    inputs = [write_rows(tmp_path / f"{number}.arrow", tables(kind, first)) for number, first in enumerate((value, 0))]
    run(inputs, tmp_path / "out", id_column="id")
    found = pq.read_table(tmp_path / "out/duplicates.parquet")
    ids = [text for first in (value, 0) for text in json_strings(tables(kind, first).column("id").chunk(0)).to_pylist()]
    assert found.column("id").to_pylist() == ids[1:]
    assert found.column("duplicate_of_id").to_pylist() == ids[:1] * 3

    run(inputs[1:], tmp_path / "near", id_column="id")
    near = pq.read_table(tmp_path / "near/duplicates.parquet").column("id")
    assert near.cast(kind).to_pylist() == tables(kind, 0).column("id").to_pylist()[1:]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda values: values.dictionary_encode(),
        lambda values: pa.StructArray.from_arrays([values], ["a"]),
        lambda values: pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), values),
        lambda values: pa.LargeListArray.from_arrays(pa.array([0, 1]), values),
        lambda values: pa.FixedSizeListArray.from_arrays(values, 1),
        lambda values: pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), ["key"], values),
        lambda values: values,
    ],
)
def test_nested_values_out_of_the_range_of_parquet_are_found(wrap: Callable[[pa.Array], pa.Array]) -> None:
    kind = pa.timestamp("s")
    most = (1 << 63) // 1000 - 1
    for value, fits in ((most, True), (most + 2, False), (-most, True), (-most - 2, False), (None, True)):
        values = pa.array([value], pa.int64()).view(kind)
        assert fits_parquet(wrap(values)) == fits == _is_written(wrap(values))


def _is_written(values: pa.Array) -> bool:
    try:
        pq.write_table(pa.table({"id": values}), pa.BufferOutputStream())
    except pa.ArrowInvalid:
        return False
    return True


@pytest.mark.parametrize("write", ["data", "marked"])
def test_run_end_encoded_ids_become_text(write: str, tmp_path: Path) -> None:
    """Parquet has no such type, so the evidence holds text; flattening them ended in an AttributeError."""
    ids = pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array(["a", "b"]))
    write_rows(tmp_path / "a.arrow", pa.table({"text": [TEXT, TEXT, "others"], "id": ids}))
    run(tmp_path / "a.arrow", tmp_path / "out", id_column="id", write=write)
    found = pq.read_table(tmp_path / "out/duplicates.parquet", columns=["id", "duplicate_of_id"])
    assert found.to_pylist() == [{"id": "b", "duplicate_of_id": "a"}]


def test_nulls_are_added_to_types_without_a_cast() -> None:
    views = pa.array([[1]], pa.list_view(pa.int64()))
    assert joined_ids([views, pa.nulls(2)], [views.type]).to_pylist() == [[1], None, None]


# --- large ids: written a few at a time ---


ROWS = 200
IDS = [f"{row:03d}" + "x" * (1000 + row) for row in range(ROWS)]
TABLE = pa.table({"text": ["the same words in every row"] * ROWS, "id": IDS})


def test_large_ids_are_written_in_bounded_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rows(tmp_path / "a.parquet", TABLE, 70)
    run(path, tmp_path / "whole", id_column="id", write="duplicates")
    monkeypatch.setattr("gpulsh.run.stages.write.SMALL_BYTES", 0)
    monkeypatch.setattr("gpulsh.run.stages.write.BLOCK_BYTES", 5000)
    monkeypatch.setattr("gpulsh.io.formats.parquet.GROUP_BYTES", 50_000)
    run(path, tmp_path / "cut", id_column="id", write="duplicates")
    found = pq.read_table(tmp_path / "cut/duplicates.parquet")
    assert found == pq.read_table(tmp_path / "whole/duplicates.parquet")
    assert found.column("id").to_pylist() == IDS[1:] and set(found.column("duplicate_of_id").to_pylist()) == {IDS[0]}
    metadata = pq.ParquetFile(tmp_path / "cut/duplicates.parquet").metadata
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert 5 < len(sizes) < 15 and max(sizes) < 30


@pytest.mark.parametrize("piece", [1, 7, 30, 1000])
def test_row_groups_depend_on_the_rows_alone(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.io.formats.parquet.GROUP_BYTES", 100)
    monkeypatch.setattr("gpulsh.io.formats.parquet.GROUP_ROWS", 12)
    sizes = [5] * 30 + [99, 1, 3, 100, 200, 0, 0] + [40] * 5 + [0] * 30
    table = pa.table({"id": ["x" * size for size in sizes], "n": range(len(sizes))})
    groups = list(group_tables((table.slice(start, piece) for start in range(0, len(sizes), piece)), ["id"]))
    assert pa.concat_tables(groups).combine_chunks() == table
    assert [len(group) for group in groups] == [12, 12, 7, 3, 1, 5, 12, 12, 8]


# --- arrays of Python values ---


@pytest.mark.parametrize(
    "values",
    [
        *([], [None], ["a", "", None, "é\0"], ["x"] * 9, [1, None, -(2**63), 2**63 - 1], [0.5, None, -0.0]),
        *([True, None], [1, None, 2.5]),
    ],
    ids=str,
)
def test_python_array_equals_pa_array(values: list[Any]) -> None:
    found, wanted = python_array(values), pa.array(values)
    found.validate(full=True)
    assert found.type == wanted.type and found.to_pylist() == wanted.to_pylist()
    assert found.null_count == wanted.null_count


@pytest.mark.parametrize("values", [["\ud800"], [2**63], ["a", 1]], ids=repr)
def test_python_array_refuses_the_values_that_pa_array_refuses(values: list[Any]) -> None:
    for make in (pa.array, python_array):
        with pytest.raises((pa.ArrowException, OverflowError, UnicodeError)):
            make(values)
