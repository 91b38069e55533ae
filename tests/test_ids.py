"""Ids that Python has no value for: as text where files disagree in type, and in the report."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.io.ids import as_texts

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
