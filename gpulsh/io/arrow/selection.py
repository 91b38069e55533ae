"""Rows chosen from Arrow columns of any type, those included that Arrow itself cannot choose from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.io.arrow.buffers import to_arrow


def chosen(column: pa.Array | pa.ChunkedArray, rows: Numbers) -> pa.Array:
    """The values of an array or chunked array at `rows`, in that order, as one array."""
    try:
        taken = column.take(to_arrow(rows))
    except pa.ArrowNotImplementedError:
        # Views of strings: as plain strings they can be chosen, and lose the texts that are not. Nested ones cannot be
        # cast, but every array can be cut and its cuts joined.
        try:
            plain = pa.large_binary() if "binary" in str(column.type) else pa.large_string()
            taken = column.cast(plain).take(to_arrow(rows)).cast(column.type)
        except pa.ArrowException:
            taken = _joined_cuts(column, rows)
    if not isinstance(taken, pa.ChunkedArray):
        return taken
    return pa.concat_arrays(taken.chunks) if taken.num_chunks else pa.nulls(0, column.type)


def kept(table: pa.Table | pa.RecordBatch, keep: NDArray[np.bool_]) -> pa.Table | pa.RecordBatch:
    """The rows of a table or record batch where `keep` [rows] is true, as one of its kind."""
    if keep.all():
        return table
    try:
        return table.filter(to_arrow(keep))
    except pa.ArrowNotImplementedError:
        rows = np.flatnonzero(keep)
        columns = [chosen(column, rows) for column in table.columns]
        return type(table).from_arrays(columns, schema=table.schema)


def _joined_cuts(column: pa.Array | pa.ChunkedArray, rows: Numbers) -> pa.Array:
    if len(rows) == 0:
        return pa.nulls(0, column.type)
    firsts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
    lengths = np.diff(firsts, append=len(rows))
    cuts = [column.slice(start, length) for start, length in zip(rows[firsts].tolist(), lengths.tolist(), strict=True)]
    return pa.concat_arrays([chunk for cut in cuts for chunk in (cut.chunks if hasattr(cut, "chunks") else [cut])])
