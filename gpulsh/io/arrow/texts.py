"""The text of each row of Arrow columns: a column, a field of one of structs, or several of these joined."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpulsh.io.arrow.rows import arrow_rows
from gpulsh.io.columns import BETWEEN, Columns, Place, place_named
from gpulsh.io.format import NO_STRAY, Stray
from gpulsh.io.rows import Bytes

BYTES = pa.large_binary()
STEP = 1 << 20  # bytes decoded at once


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


def in_utf8(array: pa.Array, encoding: str | None) -> pa.Array:
    """Texts of an Arrow array of large_binary in another encoding as UTF-8; None is UTF-8 already."""
    if encoding is None:
        return array
    found = [None if text is None else text.decode(encoding, "replace").encode() for text in array.to_pylist()]
    return pa.array(found, BYTES)


def stray(array: pa.Array, encoding: str | None = None) -> Stray:
    """The texts of an Arrow array of binary that are not all UTF-8, or of another encoding; of strings nothing is
    looked for.
    """
    if "binary" not in str(array.type):
        return NO_STRAY
    if encoding is None:
        with suppress(pa.ArrowInvalid):
            _as_bytes(array).cast(pa.large_string())
            return NO_STRAY
    counts = [stray_bytes(text, encoding) for text in arrow_rows(array).pieces(np.arange(len(array)))]
    return Stray(sum(map(bool, counts)), sum(counts))


def stray_bytes(text: Bytes, encoding: str | None = None) -> int:
    """How many bytes of a text are not of its encoding, UTF-8 where it is None.

    >>> stray_bytes("caf\u00e9".encode("latin-1")), stray_bytes("caf\u00e9".encode())
    (1, 0)
    """
    name = encoding or "utf-8"
    decoder = codecs.getincrementaldecoder(name)("ignore")
    steps = (bytes(text[start : start + STEP]) for start in range(0, len(text), STEP))
    return len(text) - sum(len(decoder.decode(step).encode(name)) for step in steps)


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
