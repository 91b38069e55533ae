"""Documents of random words, as many bytes as wanted; 15 % repeat an earlier one, half of these with changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WORDS = np.array([f"w{number:05d} " for number in range(50_000)], dtype="S7")
GROUP_BYTES = 48 << 20  # of text in a row group
REPEATS = 0.15


def make(path: Path, documents: int, words: int) -> Path:
    """`documents` of `words` words, 7 bytes each, in one Parquet file; made once."""
    if path.exists():
        return path
    random = np.random.default_rng(1)
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    rows = max(1, min(documents, GROUP_BYTES // (7 * words)))
    part = path.with_suffix(".part")
    before: np.ndarray | None = None
    with pq.ParquetWriter(part, schema, compression="zstd") as out:
        for start in range(0, documents, rows):
            count = min(rows, documents - start)
            pages = random.integers(0, len(WORDS), (count, words))
            repeated = np.flatnonzero(random.random(count) < REPEATS)
            known = pages if before is None else before
            pages[repeated] = known[random.integers(0, len(known), len(repeated))]
            changed = repeated[::2]
            pages[changed, random.integers(0, words, len(changed))] = random.integers(0, len(WORDS), len(changed))
            before = pages
            offset = np.arange(count + 1, dtype=np.int32) * (7 * words)
            texts = pa.StringArray.from_buffers(count, pa.py_buffer(offset), pa.py_buffer(WORDS[pages].tobytes()))
            out.write_table(pa.table([np.arange(start, start + count), texts], schema=schema), row_group_size=rows)
    part.rename(path)
    return path
