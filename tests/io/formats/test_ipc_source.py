"""Rows of Arrow IPC files, read where they lie: those that Arrow itself reads, whatever the type and the cut."""

from __future__ import annotations

import datetime
import decimal
import os
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpulsh.errors import InputError
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.files.inputs import find_files
from gpulsh.io.formats.arrow_ipc import source as ipc_source
from gpulsh.io.formats.arrow_ipc.source import Batches
from gpulsh.io.formats.endings import format_of

ROWS = 300
TEXTS = [None if row % 7 == 0 else f"{row} " + "long enough " * (row % 5) for row in range(ROWS)]
COLUMNS: dict[str, Any] = {
    "string": pa.array(TEXTS),
    "large": pa.array(TEXTS, pa.large_string()),
    "view": pa.array(TEXTS, pa.string_view()),
    "binary view": pa.array([text and text.encode() for text in TEXTS], pa.binary_view()),
    "words": pa.array([text and text[:1] for text in TEXTS]).dictionary_encode(),
    "nested words": pa.StructArray.from_arrays([pa.array(["a", None, "b"] * 100).dictionary_encode()], ["word"]),
    "flags": pa.array([None if row % 11 == 0 else row % 3 == 0 for row in range(ROWS)]),
    "number": pa.array(np.arange(ROWS, dtype=np.int16)),
    "float": pa.array([None if row % 5 == 0 else row / 3 for row in range(ROWS)]),
    "decimal": pa.array([decimal.Decimal(row) / 4 for row in range(ROWS)]),
    "day": pa.array([datetime.date(2020, 1, 1)] * ROWS),
    "fixed": pa.array([b"abc"] * ROWS, pa.binary(3)),
    "null": pa.nulls(ROWS),
    "list": pa.array([None if row % 9 == 0 else TEXTS[row % 4 : row % 7] for row in range(ROWS)]),
    "lists": pa.array([[[row, None], []] * (row % 3) for row in range(ROWS)], pa.large_list(pa.list_(pa.int32()))),
    "pairs": pa.array([None if row % 8 == 0 else [row, row + 1] for row in range(ROWS)], pa.list_(pa.int64(), 2)),
    "map": pa.array([[(str(row), row)] * (row % 3) for row in range(ROWS)], pa.map_(pa.string(), pa.int64())),
    "struct": pa.array([None if row % 6 == 0 else {"a": row, "b": TEXTS[row]} for row in range(ROWS)]),
    "list view": pa.array([[row, 1][: row % 3] for row in range(ROWS)], pa.list_view(pa.int64())),
    "union": pa.UnionArray.from_dense(
        pa.array([row % 2 for row in range(ROWS)], pa.int8()),
        pa.array([row // 2 for row in range(ROWS)], pa.int32()),
        [pa.array(range(ROWS)), pa.array([str(row) for row in range(ROWS)])],
    ),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([100, 150, ROWS], pa.int32()), pa.array(["x", None, "y"])),
    "id": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([bytes([row % 256]) * 16 for row in range(ROWS)], pa.binary(16))
    ),
}
TABLE = pa.table(COLUMNS)


def write(path: Path, stream: bool, rows: int, compression: str | None = None, table: Any = TABLE) -> None:
    options = pa.ipc.IpcWriteOptions(compression=compression)
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(str(path), table.schema, options=options) as out:
        out.write_table(table, rows)


@pytest.mark.parametrize("small", [0, 64, 1 << 20])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("stream", [False, True])
def test_rows_of_every_type(
    tmp_path: Path, stream: bool, compression: str | None, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ipc_source, "SMALL", max(small, 16))
    cuts = random.Random(small)
    for length in (ROWS, 77):
        write(tmp_path / "a", stream, length, compression)
        with open(tmp_path / "a", "rb") as file:
            batches = Batches(File("a", "a", "a"), file, stream)
            assert batches.schema == TABLE.schema
            start = 0
            for batch in batches:
                wanted = TABLE.slice(start, len(batch))
                assert batch.lengths("view").tolist() == [
                    len((text or "").encode()) for text in wanted["view"].to_pylist()
                ]
                edges = sorted({0, len(batch), *cuts.sample(range(len(batch)), 3)})
                for first, last in pairwise(edges):
                    found = batch.rows(first, last)
                    found.validate(full=True)
                    for name in TABLE.schema.names:
                        assert found.column(name).to_pylist() == wanted[name].slice(first, last - first).to_pylist(), (
                            name
                        )
                    (only,) = batch.rows(first, last, ["struct"]).columns
                    assert only.equals(found.column("struct"))
                start += len(batch)
                del batch
            assert start == ROWS


@pytest.mark.parametrize("stream", [False, True])
def test_only_what_is_looked_at_is_read(tmp_path: Path, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 20_000
    table = pa.table({"text": [f"a text of row {row:08d}" for row in range(rows)], "other": [b"x" * 1000] * rows})
    write(tmp_path / "a", stream, rows, None, table)
    counted: list[int] = []
    content = ipc_source.Source.content
    monkeypatch.setattr(
        ipc_source.Source, "content", lambda self, start, size: (counted.append(size), content(self, start, size))[1]
    )
    with open(tmp_path / "a", "rb") as file:
        (batch,) = Batches(File("a", "a", "a"), file, stream)
        found = batch.rows(10_000, 10_010, ["text"])
        assert found.column(0).to_pylist() == table["text"].slice(10_000, 10).to_pylist()
    assert sum(counted) < 20_000


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
@pytest.mark.parametrize("rows", [50, ROWS])
def test_a_file_that_is_cut_short_while_it_is_read(tmp_path: Path, ending: str, rows: int) -> None:
    """At every place and instant: an error, and no signal."""
    path = tmp_path / f"a.{ending}"
    table = pa.table({"text": ["some words " * 200] * ROWS})
    write(path, ending == "arrows", rows, None, table)
    whole = path.read_bytes()
    (file,) = find_files([str(path)])
    for seen in range(ROWS // rows):
        for size in (0, 1, 100, len(whole) // 3, len(whole) // 2, len(whole) - 20):
            path.write_bytes(whole)
            blocks = format_of(file).read(file, Columns("text"))
            read = sum(len(next(blocks).texts) for _ in range(seen))
            os.truncate(path, size)
            with pytest.raises(InputError, match="cannot be read"):
                read += sum(len(block.texts) for block in blocks)
                assert size == len(whole) - 20  # of the footer, which was read before
                raise InputError("cannot be read")
            assert read <= ROWS
