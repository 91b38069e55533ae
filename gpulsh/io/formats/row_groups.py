"""How Parquet is written: in row groups that follow from the rows alone, encoded and compressed as the input is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.io.arrow.rows import arrow_rows, is_text
from gpulsh.io.packing import Packing

GROUP_ROWS = 1 << 18
GROUP_BYTES = 64 << 20
CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd"}
CODECS |= {"LZ4": "lz4", "LZ4_RAW": "lz4"}


def in_groups(
    tables: Iterable[pa.Table], large: Sequence[str | int] = (), most_rows: int | None = None
) -> Iterator[pa.Table]:
    """The rows of `tables`, `most_rows` or GROUP_ROWS at a time, each column in one piece.

    Fewer where the values of the `large` columns reach GROUP_BYTES with the last of them.
    """
    most_rows = most_rows or GROUP_ROWS
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        ends = np.cumsum(sum((_sizes(table.column(name)) for name in large), np.zeros(len(table), np.int64)))
        before = 0
        while True:
            stop = before + int(
                np.searchsorted(ends[before:], GROUP_BYTES - size + (ends[before - 1] if before else 0))
            )
            stop = min(stop + 1, before + most_rows - rows)
            if stop > len(table):
                break
            yield pa.concat_tables([*held, table.slice(before, stop - before)]).combine_chunks()
            held, rows, size, before = [], 0, 0, stop
        held.append(table.slice(before))
        rows += len(table) - before
        size += int(ends[-1] - (ends[before - 1] if before else 0)) if before < len(table) else 0
    if rows:
        yield pa.concat_tables(held).combine_chunks()


def _sizes(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """int64 [rows]: bytes of each text of a chunked array, 0 of other types."""
    if not is_text(column.type):
        return np.zeros(len(column), np.int64)
    return np.concatenate([np.empty(0, np.int64), *(arrow_rows(chunk).lengths() for chunk in column.chunks)])


def writer_options(source: pq.ParquetFile, asked: Packing | None) -> dict[str, object]:
    """Options of pyarrow.parquet.ParquetWriter for the rows of `source`, a pyarrow.parquet.ParquetFile."""
    groups = [source.metadata.row_group(number) for number in range(source.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    if not chunks:
        return {"compression": asked.codec if asked else "zstd", "compression_level": asked.level if asked else None}
    codecs = {chunk.path_in_schema: CODECS.get(chunk.compression, "zstd") for chunk in chunks}
    return {
        "compression": asked.codec if asked else codecs,
        "compression_level": asked.level if asked else None,
        "use_dictionary": sorted({chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page}),
        "write_statistics": sorted({chunk.path_in_schema for chunk in chunks if chunk.is_stats_set}),
    }
