"""Arrow IPC, damaged anywhere. pyarrow reads the container."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from tests.fuzz.case import Case, options
from tests.fuzz.damage import damaged
from tests.fuzz.tables import NAMES, table


def make(case: Case, folder: Path, stream: bool) -> None:
    """`in/a.arrow`, perhaps beside a whole file."""
    source = case.source()
    content = written(source, table(source, parquet=False), stream)
    for _ in range(source.choice([0, 1, 1, 1, 2, 4])):
        content, note = damaged(source, content)
        case.damage.append(note)
    (folder / "in/a.arrow").write_bytes(content)
    given = ["in/a.arrow"]
    if source.random() < 0.3:
        (folder / "in/b.arrow").write_bytes(written(source, table(source, parquet=False), source.random() < 0.5))
        given.append("in/b.arrow")
    case.arguments = ["dedup", *given, "-o", "out", *options(source, [*NAMES, "text"], NAMES)]


def written(source: Random, rows: Any, stream: bool) -> bytes:
    """The table as a file or a stream."""
    out = io.BytesIO()
    packing = source.choice([None, None, None, "lz4", "zstd"])
    settings = pa.ipc.IpcWriteOptions(compression=packing, emit_dictionary_deltas=stream and source.random() < 0.3)
    make_writer = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make_writer(out, rows.schema, options=settings) as writer:
        writer.write_table(rows, max_chunksize=source.choice([3, 10, 100]))
    return out.getvalue()
