"""Parquet: damaged anywhere, and dictionaries that stand for gigabytes. Arrow reads the container."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.case import Case, options
from tests.fuzz.damage import damaged
from tests.fuzz.tables import NAMES, table

CODECS = ["NONE", "NONE", "NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4", "BROTLI"]


def make(case: Case, folder: Path) -> None:
    """`in/a.parquet`, perhaps beside a whole file."""
    source = case.source()
    content = written(source, table(source, parquet=True))
    case.large = source.random() < 0.04
    if case.large:
        content = _swollen(source)
        case.damage.append("large values in a dictionary")
    for _ in range(source.choice([0, 1, 1, 1, 2, 3])):
        content, how = damaged(source, content)
        case.damage.append(how)
    (folder / "in/a.parquet").write_bytes(content)
    given = ["in/a.parquet"]
    if source.random() < 0.3:
        (folder / "in/b.parquet").write_bytes(written(source, table(source, parquet=True)))
        given.append("in/b.parquet")
    case.arguments = ["dedup", *given, "-o", "out", *options(source, [*NAMES, "text"], NAMES, case.large)]


def written(source: Random, rows: Any) -> bytes:
    """A Parquet file of the table, written in any of the ways there are."""
    out = io.BytesIO()
    settings: dict[str, Any] = {
        "compression": source.choice(CODECS),
        "version": source.choice(["1.0", "2.4", "2.6", "2.6"]),
        "data_page_version": source.choice(["1.0", "2.0"]),
        "use_dictionary": source.random() < 0.6,
        "write_page_checksum": source.random() < 0.4,
        "write_page_index": source.random() < 0.3,
        "row_group_size": source.choice([1, 5, 100]),
        "data_page_size": source.choice([16, 200, 1 << 20]),
        "store_schema": source.random() < 0.7,
        "use_byte_stream_split": False,
    }
    try:
        pq.write_table(rows, out, **settings)
    except (pa.ArrowException, ValueError, KeyError, OverflowError):  # a type that Parquet does not have
        out = io.BytesIO()
        pq.write_table(rows.select([name for name in ["text"] if name in rows.column_names]), out)
    return out.getvalue()


def _swollen(source: Random) -> bytes:
    """Few kilobytes with a large value in many rows, in one of the columns."""
    size, rows = source.choice([(10 << 20, 2000), (100 << 20, 3), (1 << 20, 3000), (40 << 20, 30)])
    value = "many words of text " * (size // 19)
    name = source.choice(["text", "extra", "extra"])
    many = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))
    columns = {"text": [f"document {row}" for row in range(rows)], "score": list(range(rows))} | {name: many}
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="ZSTD", write_batch_size=64)
    return out.getvalue()
