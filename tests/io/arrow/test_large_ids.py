"""Ids that are large: told of a few at a time, and refused by name where those of a partition do not fit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import LargeDocumentError
from gpulsh.io.files.inputs import find_files
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.parquet import in_groups
from gpulsh.io.limits import Limit

ROWS = 200
IDS = [f"{row:03d}" + "x" * (1000 + row) for row in range(ROWS)]
TABLE = pa.table({"text": ["the same words in every row"] * ROWS, "id": IDS})


def write(path: Path, table: Any = TABLE) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=70)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(str(path), table.schema) as out:
            out.write_table(table, max_chunksize=70)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


@pytest.mark.parametrize("ending", ["parquet", "arrow", "jsonl"])
def test_values_that_do_not_fit_together(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    write(path)
    (file,) = find_files([str(path)])
    rows = np.arange(ROWS)
    assert format_of(file).values(file, "id", rows, Limit(1 << 20)).to_pylist() == IDS
    with pytest.raises(
        LargeDocumentError, match=rf"a\.{ending}: {ROWS} values of column 'id' together: about 2\d{{5}} "
    ):
        format_of(file).values(file, "id", rows, Limit(400_000))
    if ending != "jsonl":  # one value of a dictionary, in each row
        write(path, TABLE.set_column(1, "id", pa.array(["y" * 2000] * ROWS).dictionary_encode()))
        with pytest.raises(LargeDocumentError, match="together"):
            format_of(file).values(file, "id", rows, Limit(800_000))


def test_the_evidence_tells_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.parquet")
    options: dict[str, Any] = {"id_column": "id", "backend": "reference", "write": "duplicates"}
    gpulsh.deduplicate_files(tmp_path / "a.parquet", tmp_path / "whole", **options)
    monkeypatch.setattr("gpulsh.run.stages.evidence.SMALL_BYTES", 0)
    monkeypatch.setattr("gpulsh.run.stages.evidence.BLOCK_BYTES", 5000)
    monkeypatch.setattr("gpulsh.io.formats.parquet.GROUP_BYTES", 50_000)
    gpulsh.deduplicate_files(tmp_path / "a.parquet", tmp_path / "cut", **options)
    found = pq.read_table(tmp_path / "cut/duplicates.parquet")
    assert found == pq.read_table(tmp_path / "whole/duplicates.parquet")
    assert found.column("id").to_pylist() == IDS[1:] and set(found.column("duplicate_of_id").to_pylist()) == {IDS[0]}
    metadata = pq.ParquetFile(tmp_path / "cut/duplicates.parquet").metadata
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert 5 < len(sizes) < 15 and max(sizes) < 30


@pytest.mark.parametrize("piece", [1, 7, 30, 1000])
def test_groups_follow_from_the_rows(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.io.formats.parquet.GROUP_BYTES", 100)
    monkeypatch.setattr("gpulsh.io.formats.parquet.GROUP_ROWS", 12)
    sizes = [5] * 30 + [99, 1, 3, 100, 200, 0, 0] + [40] * 5 + [0] * 30
    table = pa.table({"id": ["x" * size for size in sizes], "n": range(len(sizes))})
    groups = list(in_groups((table.slice(start, piece) for start in range(0, len(sizes), piece)), ["id"]))
    assert pa.concat_tables(groups).combine_chunks() == table
    assert [len(group) for group in groups] == [12, 12, 7, 3, 1, 5, 12, 12, 8]
