"""Rows in row groups of one size, whatever pieces they come in: the bytes of a Parquet file follow from its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.io.arrow.rows import arrow_rows, is_text

GROUP_ROWS = 1 << 18
GROUP_BYTES = 64 << 20


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
