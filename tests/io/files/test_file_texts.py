"""Files read by several threads: the same documents in the same order as by one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpulsh.io.columns import Columns
from gpulsh.io.files.file_texts import FileTexts, PartitionFacts
from gpulsh.io.files.inputs import find_files


def write_files(folder: Path) -> list[str]:
    """Parquet files of many small row groups, with one of another format between them."""
    rows = [None if i % 11 == 0 else f"document {i} " * (i % 7) for i in range(300)]
    names = ["a.parquet", "b.parquet", "c.jsonl", "d.parquet"]
    for name, start in zip(names, (0, 100, 200, 210), strict=True):
        part = rows[start : {0: 100, 100: 200, 200: 210, 210: 300}[start]]
        table = pa.table({"text": pa.array(part, pa.string()), "score": np.arange(len(part))})
        if name.endswith("parquet"):
            pq.write_table(table, folder / name, row_group_size=7)
        else:
            lines = (json.dumps(row) + "\n" for row in table.to_pylist())
            (folder / name).write_text("".join(lines))
    return [str(folder / name) for name in names]


def read(names: list[str], readers: int) -> tuple[bytes, FileTexts, PartitionFacts]:
    texts = FileTexts(find_files(names), Columns(text="text", key="score"), readers)
    (everything,) = texts.partitions(1 << 30)
    facts = PartitionFacts()
    batches = texts.read(everything.pieces, 200, facts)
    found = b"".join(bytes(b.values[b.offset[0] : b.offset[-1]]) for b in batches)
    texts.add(facts)
    return found, texts, facts


def test_several_readers_read_what_one_reads(tmp_path: Path) -> None:
    names = write_files(tmp_path)
    wanted, one, of_one = read(names, 1)
    for readers in (2, 5):
        found, several, of_several = read(names, readers)
        assert found == wanted
        assert several.starts.tolist() == one.starts.tolist() == [0, 100, 200, 210, 300]
        assert np.concatenate(of_several.sizes).tolist() == np.concatenate(of_one.sizes).tolist()
        assert several.nulls() == one.nulls() == 28
        assert [value for block in of_several.keys for value in pa.array(block).to_pylist()] == [
            value for block in of_one.keys for value in pa.array(block).to_pylist()
        ]
