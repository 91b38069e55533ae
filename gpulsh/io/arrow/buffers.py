"""Arrow's buffers: to NumPy and back, and rows chosen from columns of any type.

pyarrow's own conversions import pandas where it is installed, which the work does not need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, Values
from gpulsh.io.rows import Bytes

Columnar = TypeVar("Columnar", pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray)


def _bitmap(null: NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))


def to_arrow(values: Values, null: NDArray[np.bool_] | None = None) -> pa.Array:
    """An integer, float or boolean array as a pyarrow.Array, null where `null` [n] is true; numbers are not copied."""
    if values.dtype == np.bool_:
        kind, content = pa.bool_(), np.packbits(values, bitorder="little")
    else:
        kind, content = pa.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(values), [_bitmap(null), pa.py_buffer(content)])


def binary_array(
    values: Values | Bytes | bytearray, offset: Numbers, null: NDArray[np.bool_] | None = None
) -> pa.Array:
    """A pyarrow.LargeBinaryArray of `values` cut at `offset` [n + 1], null where `null` [n] is true, without a copy."""
    buffers = [_bitmap(null), pa.py_buffer(np.ascontiguousarray(offset)), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.large_binary(), len(offset) - 1, buffers)


def string_array(texts: Sequence[str]) -> pa.StringArray:
    """A pyarrow.Array of type string; bytes that are not UTF-8, of a file's name, become U+FFFD."""
    return _utf8_array([text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode() for text in texts])


def python_array(values: Sequence[object]) -> pa.Array:
    """`pyarrow.array(values)`. Strings, or numbers of one type, need no pandas; None among them is null."""
    kinds = set(map(type, values))
    null = np.array([value is None for value in values]) if type(None) in kinds else None
    kinds.discard(type(None))
    if kinds == {str}:
        return _utf8_array([b"" if text is None else text.encode() for text in values], null)  # type: ignore[attr-defined]
    if kinds == {int} or kinds == {float}:
        found = [0 if value is None else value for value in values]
        return to_arrow(np.array(found, np.int64 if kinds == {int} else np.float64), null)
    return pa.array(values)


def _utf8_array(pieces: Sequence[bytes], null: NDArray[np.bool_] | None = None) -> pa.StringArray:
    content = b"".join(pieces)
    if len(content) >= 1 << 31:
        raise pa.ArrowCapacityError(f"strings of {len(content):,} bytes are too many for one array")
    offset = np.zeros(len(pieces) + 1, np.int32)
    np.cumsum([len(piece) for piece in pieces], out=offset[1:])
    return pa.Array.from_buffers(pa.string(), len(pieces), [_bitmap(null), pa.py_buffer(offset), pa.py_buffer(content)])


def number_values(array: pa.Array) -> Values:
    """The values of an integer or float pyarrow.Array, as a view; arbitrary where it is null."""
    kind = array.type
    letter = "f" if pa.types.is_floating(kind) else "i" if pa.types.is_signed_integer(kind) else "u"
    dtype = np.dtype(f"{letter}{kind.bit_width // 8}")
    content = array.buffers()[1]
    if content is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(content, dtype, len(array), array.offset * dtype.itemsize)


def null_mask(array: pa.Array) -> NDArray[np.bool_] | None:
    """bool [n], true where the array's own validity says null; None if that is nowhere."""
    if array.null_count == 0:
        return None
    bits = np.frombuffer(array.is_null().buffers()[1], np.uint8)
    return np.unpackbits(bits, count=len(array), bitorder="little").view(np.bool_)


def large_type(kind: pa.DataType) -> pa.DataType:
    """The type of texts with offsets of 64 bits, for views and others: of binary for binary, of strings for strings."""
    return pa.large_binary() if "binary" in str(kind) else pa.large_string()


def byte_size(rows: pa.Array | pa.RecordBatch) -> int:
    """Bytes of the rows; of their whole buffers where an older pyarrow does not measure a slice, as of views."""
    try:
        return int(rows.nbytes)
    except pa.ArrowTypeError:
        return int(rows.get_total_buffer_size())


def has_few_codes(kind: pa.DataType) -> bool:
    """Whether a type is a dictionary whose codes may be too few for the values of several arrays together."""
    return bool(pa.types.is_dictionary(kind) and kind.index_type.bit_width < 32)


def as_one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The chunks as one array, whose offsets have 64 bits if 32 are too few for its texts.

    Several chunks of a dictionary that `has_few_codes` become plain values.
    """
    if not isinstance(column, pa.ChunkedArray):
        return column
    kind = column.type
    if has_few_codes(kind) and column.num_chunks > 1:
        return pa.concat_arrays(map(plain_values, column.chunks))
    if (pa.types.is_string(kind) or pa.types.is_binary(kind)) and column.nbytes >= 1 << 31:
        column = column.cast(large_type(kind))
    return column.combine_chunks()


def take_rows(column: pa.Array | pa.ChunkedArray, rows: Numbers, null: NDArray[np.bool_] | None = None) -> pa.Array:
    """The values of an array or chunked array at `rows`, in that order, as one array; null where `null` [n] is true."""
    wanted = to_arrow(rows, null)
    try:
        taken = column.take(wanted)
    except pa.ArrowNotImplementedError:
        # Arrow cannot choose from views: cast them to plain strings. Nested views cannot be cast, but every array can
        # be cut, and its cuts joined.
        try:
            taken = column.cast(large_type(column.type)).take(wanted).cast(column.type)
        except pa.ArrowException:
            taken = _take_by_slices(column, rows, null)
    if not isinstance(taken, pa.ChunkedArray):
        return taken
    return pa.concat_arrays(taken.chunks) if taken.num_chunks else pa.nulls(0, column.type)


def runs_as_dictionary(array: pa.Array) -> pa.DictionaryArray:
    """A run-end encoded array as a dictionary of the values of its runs."""
    places = np.arange(array.offset, array.offset + len(array))
    return pa.DictionaryArray.from_arrays(
        to_arrow(np.searchsorted(number_values(array.run_ends), places, side="right")), array.values
    )


def plain_values(values: pa.Array) -> pa.Array:
    """The values of a dictionary or run-end encoded array; another array as it is."""
    if pa.types.is_run_end_encoded(values.type):
        values = runs_as_dictionary(values)
    if not pa.types.is_dictionary(values.type):
        return values
    codes = values.indices
    return take_rows(values.dictionary, number_values(codes).astype(np.int64), null_mask(codes))


def filter_rows(table: Columnar, keep: NDArray[np.bool_]) -> Columnar:
    """The rows of a table, record batch, array or chunked array where `keep` [rows] is true, as one of its kind."""
    if keep.all():
        return table
    try:
        return table.filter(to_arrow(keep))
    except pa.ArrowNotImplementedError:  # Arrow cannot choose from views
        rows = np.flatnonzero(keep)
        if isinstance(table, pa.Array):
            return take_rows(table, rows)
        if isinstance(table, pa.ChunkedArray):
            return pa.chunked_array([take_rows(table, rows)])
        columns = [take_rows(column, rows) for column in table.columns]
        return type(table).from_arrays(columns, schema=table.schema)


def _take_by_slices(column: pa.Array | pa.ChunkedArray, rows: Numbers, null: NDArray[np.bool_] | None) -> pa.Array:
    if len(rows) == 0:
        return pa.nulls(0, column.type)
    if null is not None:
        column, rows = pa.concat_arrays([column, pa.nulls(1, column.type)]), np.where(null, len(column), rows)
    firsts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
    lengths = np.diff(firsts, append=len(rows))
    cuts = [column.slice(start, length) for start, length in zip(rows[firsts].tolist(), lengths.tolist(), strict=True)]
    return pa.concat_arrays([chunk for cut in cuts for chunk in (cut.chunks if hasattr(cut, "chunks") else [cut])])
