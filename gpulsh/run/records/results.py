"""Parquet files of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gpulsh.io.formats.parquet import GROUP_ROWS, in_groups
from gpulsh.store.durable import FileFact, durable_file


def write_result(
    folder: Path, name: str, schema: pa.Schema, tables: Iterable[pa.Table], large: Sequence[str] = ()
) -> dict[str, FileFact]:
    """Write a file of a work folder; its rows give the same bytes, in whatever tables they come.

    Row groups are smaller where the values of the `large` columns are.
    """
    with durable_file(folder / name) as sink:
        with pq.ParquetWriter(sink, schema, compression="zstd", version="2.6") as out:
            for table in in_groups(tables, large):
                out.write_table(table, row_group_size=GROUP_ROWS)
        return {name: sink.fact()}
