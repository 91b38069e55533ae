"""The text of each row of Arrow columns (a column, a field of structs, or several joined), its type, and texts cut."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch
from gpulsh.errors import InputError
from gpulsh.io.arrow.buffers import binary_array, has_few_codes, large_type, plain_values, to_arrow
from gpulsh.io.arrow.copy_keys import BYTES, KINDS, copy_keys, is_copy_key
from gpulsh.io.arrow.rows import arrow_rows, empty_rows, is_coded, is_text
from gpulsh.io.columns import SEPARATOR, Columns, FieldPath, field_named, missing_column, refuse_added
from gpulsh.io.file import File
from gpulsh.io.format import NO_STRAY, Cuts, Stray
from gpulsh.io.rows import Bytes, Rows

STEP = 1 << 20  # bytes decoded at once


def text_column(batch: pa.RecordBatch, columns: Columns) -> pa.Array:
    """The texts of a record batch, as a pyarrow.Array of a type that `is_text`."""
    return joined_texts([_value(batch, place) for place in columns.texts])


def texts_of(batch: pa.RecordBatch, columns: Columns) -> tuple[Rows, Stray]:
    """The texts of a record batch as rows, and the counts of texts that are not UTF-8."""
    if columns.unread:
        return empty_rows(len(batch)), NO_STRAY
    found = text_column(batch, columns)
    return arrow_rows(found), count_stray(found)


def joined_texts(parts: Sequence[pa.Array]) -> pa.Array:
    """The texts of each row with a line end between them, nulls left out; null if all of them are."""
    if len(parts) == 1:
        return parts[0]
    # Arrow's own join leaves rows at the end out where all parts are null (pyarrow 26.0.1).
    rows = zip(*(_as_bytes(part).to_pylist() for part in parts), strict=True)
    found = ([text for text in row if text is not None] for row in rows)
    return pa.array([SEPARATOR.join(texts) if texts else None for texts in found], BYTES)


def as_strings(array: pa.Array) -> pa.Array:
    """Texts of an Arrow array of any type that `is_text`, as large_string; bytes that are not UTF-8 become U+FFFD."""
    values = _as_bytes(array)
    try:
        return values.cast(pa.large_string())
    except pa.ArrowInvalid:
        found = [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()]
        return pa.array(found, pa.large_string())


def strings_of(batch: TextBatch, null: NDArray[np.bool_] | None = None) -> pa.Array:
    """The texts of a batch on the host as large_string, null where `null` [n] says so; in place if all are UTF-8."""
    return as_strings(binary_array(batch.values, batch.offset, null))


def as_utf8(array: pa.Array, encoding: str | None) -> pa.Array:
    """Texts of an Arrow array of large_binary in another encoding as UTF-8; None is UTF-8 already."""
    if encoding is None:
        return array
    found = [None if text is None else text.decode(encoding, "replace").encode() for text in array.to_pylist()]
    return pa.array(found, BYTES)


def count_stray(array: pa.Array, encoding: str | None = None) -> Stray:
    """The texts of an Arrow array of binary that are not all UTF-8, or of another encoding; none of strings."""
    if "binary" not in str(array.type):
        return NO_STRAY
    if encoding is None:
        with suppress(pa.ArrowInvalid):
            _as_bytes(array).cast(pa.large_string())
            return NO_STRAY
    counts = [count_stray_bytes(text, encoding) for text in arrow_rows(array).pieces(np.arange(len(array)))]
    return Stray(sum(map(bool, counts)), sum(counts))


def count_stray_bytes(text: Bytes, encoding: str | None = None) -> int:
    """How many bytes of a text are not of its encoding, UTF-8 where it is None.

    >>> count_stray_bytes("caf\u00e9".encode("latin-1")), count_stray_bytes("caf\u00e9".encode())
    (1, 0)
    """
    name = encoding or "utf-8"
    decoder = codecs.getincrementaldecoder(name)("ignore")
    steps = (bytes(text[start : start + STEP]) for start in range(0, len(text), STEP))
    return len(text) - sum(len(decoder.decode(step).encode(name)) for step in steps)


def column_named(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column of a record batch, or a field of one."""
    return _value(batch, field_named(name, batch.schema.names))


def is_orderable(kind: pa.DataType) -> bool:
    """Whether `--keep` may order by an Arrow type: integers, floats, dates and times, and strings that hold these."""
    types = pa.types
    if is_coded(kind):
        return is_orderable(kind.value_type)
    is_number = types.is_integer(kind) or types.is_floating(kind)
    return bool(is_number or is_text(kind) or (types.is_temporal(kind) and not types.is_interval(kind)))


def check_columns(file: File, schema: pa.Schema, columns: Columns) -> None:
    """An InputError unless the schema has the columns, once each and of a type that serves."""
    refuse_added(file, columns, schema.names)
    kinds = {}
    for place in columns.fields():
        if place not in columns.texts:
            place = field_named(place[0], schema.names)
        kind = kinds[".".join(place)] = _type_of(file, schema, place, columns)
        if place in columns.texts and not is_text(kind):
            what = "one of its fields" if pa.types.is_struct(kind) else "a column of strings"
            raise InputError(
                f"{file.name}: column {'.'.join(place)!r} is {kind}, not text; name {what} with --text-column"
            )
    if columns.order is not None and not is_orderable(kind := kinds[columns.order]):
        raise InputError(
            f"{file.name}: column {columns.order!r} is {kind};"
            " --keep takes integers, floats, dates and times, or strings of them"
        )
    kind = pa.null() if columns.copy_key is None else kinds[columns.copy_key]
    if not (is_copy_key(kind) or pa.types.is_floating(kind)):  # pandas gives a column without values the type float64
        raise _wrong_copy_key(file, columns, kind)


def _wrong_copy_key(file: File, columns: Columns, kind: pa.DataType) -> InputError:
    return InputError(f"{file.name}: column {columns.copy_key!r} is {kind}; {columns.copy_key_option} takes {KINDS}")


def copy_keys_of(file: File, batch: pa.RecordBatch, columns: Columns) -> pa.Array:
    """The `copy_keys` of a record batch whose schema passed `check_columns`; InputError for a float."""
    assert columns.copy_key is not None
    values = column_named(batch, columns.copy_key)
    if is_copy_key(values.type):
        return copy_keys(values)
    if values.null_count < len(values):
        raise _wrong_copy_key(file, columns, values.type)
    return copy_keys(pa.nulls(len(values)))


def type_named(schema: pa.Schema, name: str) -> pa.DataType:
    """The type of a column, or of a field of one, that the schema has."""
    kind = schema
    for part in field_named(name, schema.names):
        kind = kind.field(part).type
    return kind


def _type_of(file: File, schema: pa.Schema, place: FieldPath, columns: Columns) -> pa.DataType:
    kind, names = schema, list(schema.names)
    for depth, name in enumerate(place):
        at = [number for number, present in enumerate(names) if present == name]
        if not at:
            if depth and not names:
                names, depth = list(schema.names), 0  # the value above has no fields, so the error lists the columns
            raise missing_column(file, place, columns, [".".join((*place[:depth], present)) for present in names])
        if len(at) > 1:
            raise InputError(f"{file.name}: has {len(at)} columns {'.'.join(place[: depth + 1])!r}; rename all but one")
        kind = kind.field(at[0]).type
        names = [kind.field(number).name for number in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    return kind


def _value(batch: pa.RecordBatch, place: FieldPath) -> pa.Array:
    column, *fields = place
    values = batch.column(column)
    return pc.struct_field(values, fields) if fields else values


class Cutter:
    """Cuts the texts of the kept rows of a file, which come batch after batch.

    Cut texts may be too many for a dictionary that `has_few_codes`, so its texts become plain. A file with
    `one_dictionary` for all batches, such as Arrow IPC, lacks cut texts there, so its texts become plain, too.
    """

    def __init__(self, file: File, keep: NDArray[np.bool_], cuts: Cuts, *, one_dictionary: bool = False) -> None:
        self._file, self._cuts, self._column = file, cuts, cuts.columns.text_column
        self._rows, self._done, self._one_dictionary = np.flatnonzero(keep), 0, one_dictionary

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of batches with this one, after the cut."""
        place = schema.get_field_index(self._column) if self._column else -1
        stored = _storage_type(schema.types[place]) if place >= 0 else pa.null()
        if has_few_codes(stored) or (self._one_dictionary and pa.types.is_dictionary(stored)):
            return schema.set(place, schema.field(place).with_type(large_type(stored.value_type)))
        return schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The next batch, with the texts cut and all other columns as they are."""
        rows = self._rows[self._done : self._done + len(batch)]
        self._done += len(batch)
        changed, schema = self._cuts.changed(rows), self.schema(batch.schema)
        place = schema.get_field_index(self._column) if self._column else -1
        columns = list(batch.columns)
        if schema != batch.schema:
            columns[place] = plain_values(_storage(columns[place])).cast(schema.types[place])
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        if not changed.any():
            return batch
        if place < 0:
            raise InputError(f"{self._file.name}: its text is not a column of its own; cut it as JSON lines")
        texts = batch.column(place)
        at = np.flatnonzero(changed)
        pieces = arrow_rows(texts).pieces(at)
        found = [self._cuts.text(row, piece) for row, piece in zip(rows[at].tolist(), pieces, strict=True)]
        columns[place] = _replace_texts(texts, changed, found)
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _replace_texts(texts: pa.Array, changed: NDArray[np.bool_], found: list[bytes]) -> pa.Array:
    """Texts of any type that `is_text`, some of them replaced; in the same type."""
    kind, storage = texts.type, _storage_type(texts.type)
    replaced = pc.replace_with_mask(_as_bytes(texts), to_arrow(changed), pa.array(found, BYTES))
    if pa.types.is_dictionary(storage):
        replaced = replaced.cast(large_type(storage.value_type)).dictionary_encode().cast(storage)  # no views
    elif pa.types.is_run_end_encoded(storage):
        ends = pa.array(range(1, len(replaced) + 1), storage.run_end_type)
        replaced = pa.RunEndEncodedArray.from_arrays(ends, replaced.cast(storage.value_type))
    else:
        replaced = replaced.cast(storage)
    return pa.ExtensionArray.from_storage(kind, replaced) if isinstance(kind, pa.BaseExtensionType) else replaced


def _as_bytes(array: pa.Array) -> pa.Array:
    return plain_values(_storage(array)).cast(BYTES)


def _storage(array: pa.Array) -> pa.Array:
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    return array


def _storage_type(kind: pa.DataType) -> pa.DataType:
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind
