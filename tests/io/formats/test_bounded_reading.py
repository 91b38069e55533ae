"""Row groups of any size are read and written a part at a time, with the same result."""

from pathlib import Path
from typing import Unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.io.columns import Columns
from gpulsh.io.files.inputs import find_files
from gpulsh.io.format import Known, Part, Writing
from gpulsh.io.formats import parquet
from gpulsh.io.formats.endings import format_of
from tests.support.files import documents

ROWS = 5000


def table(kind: str = "string") -> pa.Table:
    texts = [None if row % 13 == 0 else f"{row} " + "some words " * (row % 40) for row in range(ROWS)]
    return pa.table(
        {
            "text": pa.array(texts, kind),
            "number": np.arange(ROWS),
            "list": [[row, None] if row % 3 else None for row in range(ROWS)],
            "word": pa.array([f"word {row % 5}" for row in range(ROWS)]).dictionary_encode(),
        }
    )


def write_kept(path: Path, target: Path, keep: np.ndarray, **how: Unpack[Writing]) -> bytes:
    (file,) = find_files([str(path)])
    format_of(file).write_kept(file, keep, str(target), **how)
    return target.read_bytes()


@pytest.mark.parametrize("kind", ["string", "large_string", "binary"])
@pytest.mark.parametrize("group", [ROWS, 1024, 700])
def test_rows_give_the_same_file_however_they_are_read(
    kind: str, group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = table(kind)
    pq.write_table(given, tmp_path / "a.parquet", row_group_size=group)
    keep = np.random.default_rng(3).random(ROWS) < 0.7
    keep[700:1400] = False
    monkeypatch.setattr(parquet, "RUN_ROWS", 1)
    held = write_kept(tmp_path / "a.parquet", tmp_path / "held", keep)
    monkeypatch.setattr(parquet, "DECODED_BYTES", 7000)
    assert write_kept(tmp_path / "a.parquet", tmp_path / "again", keep) == held
    found = pq.read_table(tmp_path / "again")
    assert found.equals(given.filter(pa.array(keep)))
    groups = pq.ParquetFile(tmp_path / "again").metadata
    rows = [int(keep[start : start + group].sum()) for start in range(0, ROWS, group)]
    assert [groups.row_group(number).num_rows for number in range(groups.num_row_groups)] == [n for n in rows if n]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "again", "held"]

    def texts(part: Part) -> list[pa.Array] | None:
        if part.number == 2:
            return None
        rows = given.column("text").slice(part.start, part.rows)
        return [rows.slice(start, 450).combine_chunks() for start in range(0, part.rows, 450)]

    assert write_kept(tmp_path / "a.parquet", tmp_path / "known", keep, known=Known(Columns("text"), texts)) == held


def test_small_row_groups_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of them have kept rows, and whether their texts are known or decoded again."""
    given = table()
    pq.write_table(given, tmp_path / "a.parquet", row_group_size=100)
    keep = np.random.default_rng(4).random(ROWS) < 0.7
    keep[700:1400] = keep[2000:2100] = False
    monkeypatch.setattr(parquet, "RUN_ROWS", 2000)

    def texts(part: Part) -> list[pa.Array]:
        return given.column("text").slice(part.start, part.rows).chunks

    decoded = write_kept(tmp_path / "a.parquet", tmp_path / "decoded", keep)
    assert write_kept(tmp_path / "a.parquet", tmp_path / "known", keep, known=Known(Columns("text"), texts)) == decoded
    assert pq.read_table(tmp_path / "decoded").equals(given.filter(pa.array(keep)))
    found = pq.read_metadata(tmp_path / "decoded")
    rows = [int(keep[start : start + 2000].sum()) for start in range(0, ROWS, 2000)]
    assert [found.row_group(number).num_rows for number in range(found.num_row_groups)] == rows
    (file,) = find_files([str(tmp_path / "a.parquet")])
    chosen = np.flatnonzero(keep)[::7]
    assert format_of(file).values(file, "number", chosen).to_pylist() == chosen.tolist()


def test_a_value_of_a_dictionary_in_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 40 kB that hold 80 MB: by the footer all rows would fit into one batch.
    page = "x" * 40_000
    pq.write_table(pa.table({"text": [page, "small"] * 1000}), tmp_path / "a.parquet")
    monkeypatch.setattr(parquet, "DECODED_BYTES", 1 << 19)
    (file,) = find_files([str(tmp_path / "a.parquet")])
    source = format_of(file)
    (part,) = source.parts(file, Columns("text")) or ()
    for block in source.read_part(file, Columns("text"), part, 1 << 20):
        assert block.texts.lengths().sum() <= 1 << 20
    assert documents(tmp_path / "a.parquet") == [page.encode(), b"small"] * 1000
