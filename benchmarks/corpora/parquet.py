"""Write generated texts as Parquet without holding them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 20_000


def write_texts(path: Path, texts: Iterable[str]) -> Path:
    """One column, text; renamed when whole, so that a stopped run leaves no half corpus."""
    unfinished = path.with_suffix(".part")
    stream: Iterator[str] = iter(texts)
    schema = pa.schema([("text", pa.string())])
    with pq.ParquetWriter(unfinished, schema, compression="lz4") as writer:
        while batch := list(islice(stream, ROWS)):
            writer.write_table(pa.table({"text": pa.array(batch, pa.string())}, schema=schema))
    return unfinished.rename(path)
