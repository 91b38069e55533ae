"""What was found of a Parquet file of late is not looked for again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.io.format import Columns, File
from gpulsh.io.formats.parquet import format as parquet
from gpulsh.io.formats.parquet.format import Parquet


def test_the_dictionary_of_a_row_group_is_looked_into_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    texts = 5 * [f"{number:04d} " * 400 for number in range(2000)]  # a large dictionary of small values
    table = pa.table({"text": texts, "other": [text[:4] for text in texts]})
    pq.write_table(table, path, dictionary_pagesize_limit=8 << 20)
    asked: list[Any] = []
    opened = parquet._opened

    def noted(file: File, dictionaries: Any = (), metadata: Any = None) -> Any:
        asked.extend(dictionaries)
        return opened(file, dictionaries, metadata)

    monkeypatch.setattr(parquet, "_opened", noted)
    file, columns = File(str(path), "a.parquet", str(path)), Columns("text")

    def read() -> list[str]:
        blocks = list(Parquet().read(file, columns))
        assert sum(len(block.texts) for block in blocks) == len(table)
        told, asked[:] = list(asked), []
        return told

    assert read() == ["text"]
    assert read() == []
    now = path.stat().st_mtime_ns
    os.utime(path, ns=(now + 10**9, now + 10**9))
    assert read() == ["text"]
