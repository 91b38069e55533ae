"""cuDF: a Series of strings in, a DataFrame out, kept rows of a table, row groups decoded; all on the device.

gpulsh uses only public parts of cuDF: `to_pylibcudf` (from 25.02 on), and pylibcudf's columns and Parquet reader.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from gpulsh.arrays import Array
from gpulsh.backends.protocol import Backend, DeviceBuffer
from gpulsh.errors import BackendError, InputTypeError, install_command
from gpulsh.io.memory.device import DeviceTexts, column_texts

DEFAULT_STREAM, PER_THREAD_STREAM = 1, 2  # in the words of the CUDA array interface


def open_series(series: Any, ops: Backend | None) -> Any:
    """A `cudf.Series` of strings as `DeviceTexts` for a CUDA backend, in place, otherwise as a pyarrow.Array.

    Positions are row numbers, not its index.
    """
    if getattr(series, "ndim", 0) != 1 or not hasattr(series, "to_arrow"):
        raise InputTypeError(f"texts is a cuDF {type(series).__name__}; give one column of it, such as frame['text']")
    kind = str(series.dtype)
    if kind not in ("object", "str", "category") and not kind.startswith(("string", "large_string")):
        raise InputTypeError(f"texts is a cuDF Series of {series.dtype}; give one of strings")
    if ops is not None and ops.name == "cuda" and hasattr(series, "to_pylibcudf"):
        return strings_texts((series.astype("str") if kind == "category" else series).to_pylibcudf()[0], ops)
    return series.to_arrow()


def strings_texts(column: Any, ops: Backend) -> DeviceTexts:
    """A `pylibcudf.Column` of strings as texts, at its offset in shared buffers; InputTypeError for anything else."""
    if _type(column) != "STRING":
        raise InputTypeError(f"texts is a cuDF column of {_type(column)}; give one of strings")
    if column.size() == 0:  # such a column may have no child
        nothing = DeviceBuffer(0, 0, None)
        return column_texts(nothing, nothing, False, None, 0, 0, ops)
    offsets = column.child(0)
    wide = _type(offsets) == "INT64"
    mask = _buffer(column.null_mask()) if column.null_count() else None
    begin = _buffer(offsets.data(), skip=offsets.offset() * (8 if wide else 4))
    return column_texts(_buffer(column.data()), begin, wide, mask, column.offset(), column.size(), ops)


def _type(column: Any) -> str:
    kind = column.type().id()
    return str(getattr(kind, "name", kind))


def _buffer(span: Any, skip: int = 0) -> DeviceBuffer:
    # The stream of its work, by the variable that cuDF reads on import.
    stream = PER_THREAD_STREAM if os.environ.get("CUDF_PER_THREAD_STREAM") == "1" else DEFAULT_STREAM
    # Only the pointer: a slice's buffer may say the size of the slice while its offsets count from the whole's begin.
    return DeviceBuffer(int(span.ptr) + skip if span is not None else 0, 0, span, stream=stream)


def data_frame(columns: Mapping[str, Array]) -> Any:
    """A `cudf.DataFrame` of these columns, NumPy arrays copied to the device; BackendError if cuDF does not work."""
    try:
        import cudf
        import cupy
    except Exception as error:  # a broken installation fails in ways of its own
        raise BackendError(
            f"cuDF cannot be imported ({error}); {install_command('cudf')}, or use to_arrow()"
        ) from error
    made = {name: cudf.Series(cupy.asarray(column), nan_as_null=False) for name, column in columns.items()}
    cupy.cuda.get_current_stream().synchronize()  # cuDF works on a stream of its own
    return cudf.DataFrame(made)


def kept_rows(table: Any, keep: Array) -> Any:
    """The rows of a cuDF DataFrame, Series or Index, or of a CuPy array, where `keep` bool [n] is true."""
    import cupy

    mask = cupy.asarray(keep)
    cupy.cuda.get_current_stream().synchronize()
    return table.iloc[mask] if hasattr(table, "iloc") else table[mask]


def read_row_groups(path: str, column: str, groups: Sequence[int], ops: Backend) -> DeviceTexts:
    """The texts of a column in some row groups of a Parquet file, decoded on the device.

    pylibcudf's reader takes the path as it is; `cudf.read_parquet` would look for patterns and partitions in it.
    """
    import pylibcudf

    parquet = pylibcudf.io.parquet
    options = parquet.ParquetReaderOptions.builder(pylibcudf.io.SourceInfo([path])).build()
    # The name changed in 26.x, where the old one warns.
    (options.set_column_names if hasattr(options, "set_column_names") else options.set_columns)([column])
    options.set_row_groups([list(groups)])
    columns = parquet.read_parquet(options).tbl.columns()
    if len(columns) != 1:
        raise ValueError(f"cuDF reads {len(columns)} columns for {column!r}")
    return strings_texts(columns[0], ops)


def why_no_reader() -> str | None:
    """None where pylibcudf can be imported, otherwise the reason."""
    try:
        import pylibcudf  # noqa: F401
    except Exception as error:  # a broken installation fails in ways of its own
        return " ".join(str(error).split()) or type(error).__name__
    return None
