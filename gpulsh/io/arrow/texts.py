"""The text of each row of Arrow columns: a column, a field of one of structs, or several of these joined."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from gpulsh.io.columns import BETWEEN, Columns, Place, place_named

BYTES = pa.large_binary()


def text_column(batch: pa.RecordBatch, columns: Columns) -> pa.Array:
    """The texts of a record batch, as a pyarrow.Array of a type that `is_text`."""
    return joined_texts([_value(batch, place) for place in columns.texts])


def joined_texts(parts: Sequence[pa.Array]) -> pa.Array:
    """The texts of each row with a line end between them, nulls left out; null where all of them are."""
    if len(parts) == 1:
        return parts[0]
    # Arrow's own join leaves rows at the end out where all parts are null (pyarrow 26.0.1).
    rows = zip(*(_as_bytes(part).to_pylist() for part in parts), strict=True)
    return pa.array([_joined([text for text in row if text is not None]) for row in rows], BYTES)


def as_strings(array: pa.Array) -> pa.Array:
    """Texts of an Arrow array of any type that `is_text`, as large_string; what is no UTF-8 becomes U+FFFD."""
    values = _as_bytes(array)
    try:
        return values.cast(pa.large_string())
    except pa.ArrowInvalid:
        found = [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()]
        return pa.array(found, pa.large_string())


def _joined(texts: list[bytes]) -> bytes | None:
    return BETWEEN.join(texts) if texts else None


def column_named(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column of a record batch, or a field of one."""
    return _value(batch, place_named(name, batch.schema.names))


def _value(batch: pa.RecordBatch, place: Place) -> pa.Array:
    column, *fields = place
    values = batch.column(column)
    return pc.struct_field(values, fields) if fields else values


def _as_bytes(array: pa.Array) -> pa.Array:
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    return array.cast(BYTES)
