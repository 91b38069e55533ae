"""Arrow IPC: rows of every type, large batches in parts, and files that are cut short, damaged, or too large."""

import datetime
import decimal
import os
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest

from gpulsh.errors import DamagedInputError, InputError, MemoryLimitError
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.files.inputs import find_files
from gpulsh.io.formats import arrow_ipc
from gpulsh.io.formats.endings import format_of
from tests.support.files import new_file, read_table

ROWS = 300
TEXTS = [None if row % 7 == 0 else f"{row} " + "long enough " * (row % 5) for row in range(ROWS)]
TABLE = pa.table(
    {
        "string": pa.array(TEXTS),
        "large": pa.array(TEXTS, pa.large_string()),
        "view": pa.array(TEXTS, pa.string_view()),
        "words": pa.array([text and text[:1] for text in TEXTS]).dictionary_encode(),
        "nested words": pa.StructArray.from_arrays([pa.array(["a", None, "b"] * 100).dictionary_encode()], ["word"]),
        "flags": pa.array([None if row % 11 == 0 else row % 3 == 0 for row in range(ROWS)]),
        "float": pa.array([None if row % 5 == 0 else row / 3 for row in range(ROWS)]),
        "decimal": pa.array([decimal.Decimal(row) / 4 for row in range(ROWS)]),
        "day": pa.array([datetime.date(2020, 1, 1)] * ROWS),
        "fixed": pa.array([b"abc"] * ROWS, pa.binary(3)),
        "null": pa.nulls(ROWS),
        "list": pa.array([None if row % 9 == 0 else TEXTS[row % 4 : row % 7] for row in range(ROWS)]),
        "pairs": pa.array([None if row % 8 == 0 else [row, row + 1] for row in range(ROWS)], pa.list_(pa.int64(), 2)),
        "map": pa.array([[(str(row), row)] * (row % 3) for row in range(ROWS)], pa.map_(pa.string(), pa.int64())),
        "struct": pa.array([None if row % 6 == 0 else {"a": row, "b": TEXTS[row]} for row in range(ROWS)]),
        "id": pa.array([bytes([row % 256]) * 16 for row in range(ROWS)], pa.uuid()),
    }
)


def write(path: Path, table: pa.Table, rows: int | None = None, codec: str | None = None) -> File:
    new = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with new(str(path), table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as out:
        out.write_table(table, rows)
    (file,) = find_files([str(path)])
    return file


def texts(file: File, column: str) -> list[bytes]:
    blocks = format_of(file).read(file, Columns(column))
    return [bytes(piece) for block in blocks for piece in block.texts.pieces(np.arange(len(block.texts)))]


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
@pytest.mark.parametrize("ending", ["arrow", "arrows"])
def test_rows_of_every_type_are_read_and_written(ending: str, codec: str | None, far: bool, tmp_path: Path) -> None:
    file = write(tmp_path / f"a.{ending}", TABLE, 77, codec)
    if far:
        memory = fsspec.filesystem("memory")
        memory.pipe("/" + file.relative, (tmp_path / file.relative).read_bytes())
        file = File(file.name, file.relative, "/" + file.relative, memory)
    source, rng = format_of(file), np.random.default_rng(3)
    for column in ("string", "large", "view", "words"):
        assert texts(file, column) == [(text or "").encode() for text in TABLE[column].to_pylist()]
    rows = np.flatnonzero(rng.random(ROWS) < 0.2)
    for column in TABLE.schema.names:
        values = TABLE[column].to_pylist()
        assert source.values(file, column, rows).to_pylist() == [values[row] for row in rows]
        assert source.column_type(file, column) == TABLE.schema.field(column).type
    keep = rng.random(ROWS) < 0.7
    source.write_kept(file, keep, new_file(tmp_path / f"out.{ending}"))
    found = read_table(tmp_path / f"out.{ending}")
    assert found.schema == TABLE.schema
    assert found.to_pylist() == [row for row, stays in zip(TABLE.to_pylist(), keep, strict=True) if stays]
    write(tmp_path / f"same.{ending}", found, codec=codec)
    assert (tmp_path / f"out.{ending}").read_bytes() == (tmp_path / f"same.{ending}").read_bytes()
    assert pa.Table.from_batches(source.kept_batches(file, keep)).to_pylist() == found.to_pylist()


@pytest.mark.parametrize("kind", ["string", "large_string"])
@pytest.mark.parametrize("ending", ["arrow", "arrows"])
def test_large_batches_are_split(kind: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_ipc, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(arrow_ipc, "BATCH_BYTES", 4000)
    given = pa.table({"text": pa.array(TEXTS, kind), "list": TABLE["list"]})
    file = write(tmp_path / f"a.{ending}", given, 200)
    blocks = list(format_of(file).read(file, Columns("text")))
    assert len(blocks) > 4
    assert [block.start for block in blocks] == np.cumsum([0, *(len(block.texts) for block in blocks[:-1])]).tolist()
    assert texts(file, "text") == [(text or "").encode() for text in TEXTS]
    wanted = np.zeros(ROWS, bool)
    wanted[[5, 250]] = True
    chosen = list(format_of(file).read(file, Columns("text"), wanted))
    assert len(chosen) == 2 and all(wanted[block.start :][: len(block.texts)].any() for block in chosen)
    keep = np.random.default_rng(3).random(ROWS) < 0.7
    format_of(file).write_kept(file, keep, new_file(tmp_path / f"out.{ending}"))
    assert read_table(tmp_path / f"out.{ending}").equals(given.filter(pa.array(keep)))


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
@pytest.mark.parametrize("rows", [50, ROWS])
def test_a_file_truncated_while_it_is_read_is_an_error(tmp_path: Path, ending: str, rows: int) -> None:
    """An error and no signal. Only a stream that now ends where reading had arrived is read as a shorter one: gpulsh
    notices the change by the file's size.
    """
    path = tmp_path / f"a.{ending}"
    table = pa.table({"text": ["some words " * 200] * ROWS})
    file = write(path, table, rows)
    whole = path.read_bytes()
    for seen in range(ROWS // rows):
        for size in (0, 1, 100, len(whole) // 3, len(whole) // 2, len(whole) - 20):
            path.write_bytes(whole)
            blocks = format_of(file).read(file, Columns("text"))
            read = sum(len(next(blocks).texts) for _ in range(seen))
            os.truncate(path, size)
            try:
                read += sum(len(block.texts) for block in blocks)
            except InputError as error:
                assert str(error).startswith(f"{path}: cannot be read: ")
            else:
                footer_only = read == ROWS and size == len(whole) - 20  # which was read before
                assert footer_only or (ending == "arrows" and size < len(whole) * read // ROWS + 1000)
    os.truncate(path, 0)
    with pytest.raises(DamagedInputError, match="cannot be read"):
        format_of(file).check(file, Columns("text"))


def test_data_after_a_stream_and_other_formats_are_refused(tmp_path: Path) -> None:
    """Rows of a second stream were lost in silence."""
    path = tmp_path / "a.arrows"
    file = write(path, TABLE)
    stream = path.read_bytes()
    path.write_bytes(stream + bytes(64))  # padding
    assert len(texts(file, "string")) == ROWS
    for content, message in ((stream + stream, "more data follows"), (b"FEA1\0\0\0\0", "is no Arrow file or stream")):
        path.write_bytes(content)
        with pytest.raises(DamagedInputError, match=rf"a\.arrows: {message}"):
            texts(file, "string")


def test_damaged_metadata_is_a_named_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({"text": TEXTS, "list": TABLE["list"], "words": TABLE["words"]})
    for path in (tmp_path / "a.arrow", tmp_path / "a.arrows"):
        file = write(path, table, 100, "lz4")
        content = np.frombuffer(path.read_bytes(), np.uint8)
        for _ in range(70):
            broken = content.copy()
            broken[rng.integers(0, len(broken), 3)] = rng.integers(0, 256, 3)
            path.write_bytes(broken.tobytes())
            try:
                texts(file, "text")
                format_of(file).write_kept(file, np.ones(ROWS, bool), new_file(tmp_path / "out"))
            except (InputError, MemoryLimitError) as error:
                assert path.name in str(error)
