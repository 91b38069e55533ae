"""Arrow arrays that others made, validated before any value is used.

Arrow trusts the offsets and codes of a file or another library, and a wrong one would read memory beyond a buffer.
Text that is not UTF-8 is safe: every stage reads it as U+FFFD. Values that are handed out as strings must be UTF-8.
The C interface does not give the sizes of buffers, so there offsets are only known to ascend.
"""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

from gpulsh.errors import DamagedInputError
from gpulsh.io.file import File, first_line

BARE = {"string": pa.binary(), "large_string": pa.large_binary()}
Given: TypeAlias = "pa.Array | pa.ChunkedArray | pa.Table | pa.RecordBatch"


def check_array(array: pa.Array, *, utf8: bool = False) -> None:
    """pyarrow.ArrowInvalid unless a pyarrow.Array is sound."""
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    try:
        array.validate()
        (array if utf8 else _bare(array)).validate(full=True)
    except UnicodeDecodeError as error:  # of Arrow's message, which quotes the bytes
        if utf8:
            raise pa.ArrowInvalid("holds bytes that are not UTF-8") from error
    except pa.ArrowInvalid as error:
        if utf8 or "UTF8" not in str(error):
            raise


def check_given(given: Given, name: str, *, utf8: bool = False) -> None:
    """DamagedInputError unless an array, chunked array, table or batch of pyarrow is sound."""
    parts = given.columns if hasattr(given, "columns") else [given]
    try:
        for part in parts:
            for array in part.chunks if hasattr(part, "chunks") else [part]:
                check_array(array, utf8=utf8)
    except pa.ArrowException as error:
        raise DamagedInputError(
            f"{name} is damaged: {first_line(error)}; give data that passes its validate(full=True)"
        ) from error


def check_batch(file: File, batch: pa.RecordBatch) -> None:
    """DamagedInputError, naming the file and the column, unless a record batch is sound."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            check_array(column)
        except pa.ArrowException as error:
            raise damaged_column(file, name, error) from error
        if len(column) != len(batch):
            raise damaged_column(file, name, f"it has {len(column)} rows of {len(batch)}")


def check_values(file: File, column: str, values: pa.Array) -> pa.Array:
    """The values of a column, to be handed out: strings must be UTF-8."""
    try:
        check_array(values, utf8=True)
    except pa.ArrowException as error:
        raise damaged_column(file, column, error) from error
    return values


def damaged_column(file: File, column: str, error: object) -> DamagedInputError:
    """The error of a column that Arrow finds invalid."""
    return DamagedInputError(f"{file.name}: column {column!r} is damaged: {first_line(error)}")


def _bare(array: pa.Array) -> pa.Array:
    """The array with bytes for strings: then only the offsets are checked, not the content."""
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, _bare(array.dictionary), safe=False)
    return array.view(BARE[str(array.type)]) if str(array.type) in BARE else array
