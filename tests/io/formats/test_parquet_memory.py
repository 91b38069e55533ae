"""Parquet files whose pages lie, whose rows hold nothing, and whose columns have odd names."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.errors import DamagedInputError
from gpulsh.io.columns import Columns
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.inputs import find_files
from gpulsh.io.formats.endings import format_of
from gpulsh.io.limits import Limit

LIMIT = Limit(16 << 20)


def write_kept(path: Path, keep: np.ndarray, target: Path, limit: Limit | None) -> pa.Table:
    (file,) = find_files([str(path)])
    format_of(file).write_kept(file, keep, str(target), limit=limit)
    with pq.ParquetFile(target) as written:  # the other way of reading one knows no two columns of one name
        return written.read()


def documents(path: Path, limit: Limit | None) -> int:
    texts = FileTexts(find_files([str(path)]), Columns(text="text"), limit=limit)
    return sum(len(batch) for batch in texts.batches(1 << 20))


def test_headers_that_are_none_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * 1_000_000] * 3}), path, use_dictionary=False, compression="zstd")
    place = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    for wrong in (b"\x00" * 20, b"\xff" * 20, b"\x15\x00\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"):
        content[place : place + len(wrong)] = wrong
        path.write_bytes(content)
        with pytest.raises(DamagedInputError, match=r"a\.parquet: cannot be read: "):
            documents(path, LIMIT)


def test_rows_of_nothing_are_cut_into_partitions(tmp_path: Path) -> None:
    table = pa.table({"text": pa.nulls(200_000, pa.string())})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1000)
    texts = FileTexts(find_files([str(tmp_path / "a.parquet")]), Columns(text="text"), limit=Limit(4 << 20))
    assert len(texts.partitions(1 << 20)) > 2


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_columns_of_one_name_and_with_points_in_it(kind: pa.DataType, tmp_path: Path) -> None:
    values = pa.array(["x" * 1000] * 3, pa.string()).cast(kind)
    table = pa.Table.from_arrays([pa.array(["a", "b", "c"]), values, values, values], ["text", "id", "id", "a.b"])
    pq.write_table(table, tmp_path / "a.parquet")
    assert write_kept(tmp_path / "a.parquet", np.ones(3, bool), tmp_path / "out", LIMIT).equals(table)


def test_a_large_row_group_is_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole rows, of which each part holds at most so many bytes; small row groups stay as they are."""
    monkeypatch.setattr("gpulsh.io.formats.parquet.RUN_ROWS", 1)
    monkeypatch.setattr("gpulsh.io.formats.parquet.GROUP_BYTES", 20_000)
    monkeypatch.setattr("gpulsh.io.formats.parquet.GROUP_BYTES", 20_000)
    table = pa.table({"text": [f"{row:04}" * 250 for row in range(100)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=60, use_dictionary=False)
    assert write_kept(tmp_path / "a.parquet", np.ones(100, bool), tmp_path / "out", None).equals(table)
    found = pq.read_metadata(tmp_path / "out")
    rows = [found.row_group(number).num_rows for number in range(found.num_row_groups)]
    assert sum(rows[:4]) == 60 and max(rows) < 20 and len(rows) == 7
