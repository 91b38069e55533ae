"""Ids that Python has no value for: as text where files disagree in type, and in the report."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.io.arrow.ids import DAY, as_texts, one_type, values_in_parquet

FAR = 1 << 62
KINDS = [
    pa.timestamp("s"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("s", "Nowhere/Zone"),
    pa.duration("s"),
    pa.time64("us"),
]
TEXT = "the same words again and again in two documents of one file"


def of_kind(kind: pa.DataType, count: int = 1) -> pa.Array:
    return pa.array([FAR + row for row in range(count)], pa.int64()).view(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_python_has_no_value_for_is_its_number(kind: pa.DataType) -> None:
    assert as_texts(of_kind(kind)).to_pylist() == [str(FAR)]
    (nested,) = as_texts(pa.array([[None]], pa.list_(kind)).take([0])).to_pylist()
    assert nested == "[null]"
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), of_kind(kind))
    assert isinstance(as_texts(lists).to_pylist()[0], str)


def test_what_it_has_stays_as_it_was() -> None:
    values = pa.array([0, FAR, None], pa.int64()).view(pa.timestamp("s"))
    assert as_texts(values).to_pylist() == ['"1970-01-01 00:00:00"', str(FAR), None]


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us", "Nowhere/Zone"), pa.duration("s")])
@pytest.mark.parametrize("other", [None, "strings"])
def test_such_ids_in_files(kind: pa.DataType, other: str | None, tmp_path: Path) -> None:
    rows = pa.table({"text": [TEXT, TEXT], "id": of_kind(kind, 2)})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), rows.schema) as out:
        out.write_table(rows)
    inputs = [tmp_path / "a.arrow"]
    if other:
        pq.write_table(pa.table({"text": ["others"], "id": ["a"]}), tmp_path / "b.parquet")
        inputs.append(tmp_path / "b.parquet")
    gpulsh.deduplicate_files(inputs, tmp_path / "out", id_column="id", backend="reference")
    assert pq.read_metadata(tmp_path / "out/duplicates.parquet").num_rows == 1


def tables(kind: pa.DataType, first: int) -> pa.Table:
    second = first + (DAY if kind == pa.date64() else 1)
    return pa.table({"text": [TEXT, TEXT], "id": pa.array([first, second], pa.int64()).view(kind)})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("s"), FAR),
        (pa.timestamp("s"), -FAR),
        (pa.timestamp("s", "UTC"), FAR),
        (pa.date64(), FAR // DAY * DAY),
    ],
)
def test_ids_of_a_type_that_parquet_has_and_a_value_that_it_has_not(
    kind: pa.DataType, value: int, tmp_path: Path
) -> None:
    for number, table in enumerate([tables(kind, value), tables(kind, 0)]):
        with pa.ipc.new_file(str(tmp_path / f"{number}.arrow"), table.schema) as out:
            out.write_table(table)
    inputs = [tmp_path / "0.arrow", tmp_path / "1.arrow"]
    gpulsh.deduplicate_files(inputs, tmp_path / "out", id_column="id", backend="reference")
    found = pq.read_table(tmp_path / "out/duplicates.parquet")
    ids = [text for first in (value, 0) for text in as_texts(tables(kind, first).column("id").chunk(0)).to_pylist()]
    assert found.column("id").to_pylist() == ids[1:]
    assert found.column("duplicate_of_id").to_pylist() == ids[:1] * 3

    gpulsh.deduplicate_files(inputs[1:], tmp_path / "near", id_column="id", backend="reference")
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
def test_values_that_parquet_has_not_inside_of_others(wrap: Callable[[pa.Array], pa.Array]) -> None:
    kind = pa.timestamp("s")
    most = (1 << 63) // 1000 - 1
    for value, fits in ((most, True), (most + 2, False), (-most, True), (-most - 2, False), (None, True)):
        values = pa.array([value], pa.int64()).view(kind)
        assert values_in_parquet(wrap(values)) == fits == _is_written(wrap(values))


def _is_written(values: pa.Array) -> bool:
    try:
        pq.write_table(pa.table({"id": values}), pa.BufferOutputStream())
    except pa.ArrowInvalid:
        return False
    return True


def test_types_that_nulls_cannot_be_cast_to() -> None:
    views = pa.array([[1]], pa.list_view(pa.int64()))
    assert one_type([views, pa.nulls(2)], [views.type]).to_pylist() == [[1], None, None]
