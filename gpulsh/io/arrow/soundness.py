"""Arrow arrays that others made, checked before they are read: one that lies about itself is memory of this process.

Arrow builds arrays of whatever a file or an interface says, and its kernels trust them. So offsets, sizes, views,
codes, run ends and type numbers are compared with the buffers that they point into, of nested columns and dictionaries
too, in one pass that does not look at the content. Text that is no UTF-8 is safe to read, and every stage reads it as
U+FFFD; where something is handed out as a string, `utf8` asks for more.

The C interface says nothing of the sizes of buffers: of what came through it offsets are only known to ascend.
"""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

from gpulsh.errors import DamagedInputError
from gpulsh.io.file import File, first_line

FREE_ROWS = 1 << 22  # of a batch, that need not stand on any bytes
Given: TypeAlias = "pa.Array | pa.ChunkedArray | pa.Table | pa.RecordBatch"
BARE = {"string": pa.binary(), "large_string": pa.large_binary()}


def check_array(array: pa.Array, *, utf8: bool = False) -> None:
    """pyarrow.ArrowInvalid unless a pyarrow.Array is what it says it is."""
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    try:
        array.validate()
        (array if utf8 else _bare(array)).validate(full=True)
    except UnicodeDecodeError as error:  # of Arrow's message, which holds what it found
        raise pa.ArrowInvalid("holds bytes that are no UTF-8") from error


def check_given(given: Given, name: str, *, utf8: bool = False) -> None:
    """DamagedInputError unless an array, table or batch of pyarrow, or what has chunks of them, is sound."""
    parts = given.columns if hasattr(given, "columns") else [given]
    try:
        for part in parts:
            for array in part.chunks if hasattr(part, "chunks") else [part]:
                check_array(array, utf8=utf8)
    except pa.ArrowException as error:
        raise DamagedInputError(
            f"{name} is damaged: {first_line(error)}; give what its validate(full=True) lets pass"
        ) from error


def check_batch(file: File, batch: pa.RecordBatch, columns: list[str] | None = None) -> None:
    """DamagedInputError, naming the file and the column, unless these columns of a record batch are sound, or all."""
    for place, name in enumerate(batch.schema.names):
        column = batch.column(place)
        if columns is None or name in columns:
            try:
                check_array(column)
            except pa.ArrowException as error:
                raise damaged_column(file, name, error) from error
            if len(column) != len(batch):
                raise damaged_column(file, name, f"it has {len(column)} rows of {len(batch)}")
    if len(batch) > FREE_ROWS + 8 * batch.get_total_buffer_size():
        raise DamagedInputError(f"{file.name}: is damaged: a record batch has {len(batch)} rows and no content")


def check_values(file: File, column: str, values: pa.Array) -> pa.Array:
    """Values of a column, which are handed out as what their type says: strings are UTF-8."""
    try:
        check_array(values, utf8=True)
    except pa.ArrowException as error:
        raise damaged_column(file, column, error) from error
    return values


def damaged_column(file: File, column: str, told: object) -> DamagedInputError:
    """The error of a column that Arrow finds invalid."""
    return DamagedInputError(f"{file.name}: column {column!r} is damaged: {first_line(told)}")


def _bare(array: pa.Array) -> pa.Array:
    """The array with bytes in place of strings, whose content is then not looked at; as it is where Arrow cannot."""
    kind = _bare_type(array.type)
    if kind == array.type:
        return array
    try:
        return array.view(kind)
    except pa.ArrowException:
        return array


def _bare_type(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _bare_type(kind.value_type), kind.ordered)
    if types.is_struct(kind):
        return pa.struct([_bare_field(kind.field(place)) for place in range(kind.num_fields)])
    if types.is_list(kind):
        return pa.list_(_bare_field(kind.value_field))
    if types.is_large_list(kind):
        return pa.large_list(_bare_field(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_bare_field(kind.value_field), kind.list_size)
    return pa.binary_view() if str(kind) == "string_view" else BARE.get(str(kind), kind)


def _bare_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _bare_type(field.type), field.nullable)
