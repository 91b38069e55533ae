"""Arrow arrays that others made, validated before any value is used; and columns that a caller of Python gives.

Arrow trusts the offsets and codes of a file or another library, and a wrong one would read memory beyond a buffer.
Text that is not UTF-8 is safe: every stage reads it as U+FFFD. Values that are handed out as strings must be UTF-8.
The C interface does not give the sizes of buffers, so there offsets are only known to ascend.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gpulsh.arrays import on_host, whole_column
from gpulsh.checks import plural, shown_type
from gpulsh.errors import DamagedInputError, ParameterError, first_line
from gpulsh.io.arrow.buffers import as_one_array
from gpulsh.io.file import File

BARE = {"string": pa.binary(), "large_string": pa.large_binary()}
UNITS = {unit: f"datetime64[{other}]" for units, other in (("YMW", "D"), ("hm", "s")) for unit in units}
Given: TypeAlias = "pa.Array | pa.ChunkedArray | pa.Table | pa.RecordBatch"


def check_array(array: pa.Array, *, utf8: bool = False) -> None:
    """pyarrow.ArrowInvalid unless a pyarrow.Array is valid."""
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    try:
        array.validate()
        (array if utf8 else _as_binary(array)).validate(full=True)
    except UnicodeDecodeError as error:  # of Arrow's message, which quotes the bytes
        if utf8:
            raise pa.ArrowInvalid("holds bytes that are not UTF-8") from error
    except pa.ArrowInvalid as error:
        if utf8 or "UTF8" not in str(error):
            raise


def check_arrow(given: Given, name: str, *, utf8: bool = False) -> None:
    """DamagedInputError unless an array, chunked array, table or batch of pyarrow is valid."""
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
    """DamagedInputError, naming the file and the column, unless a record batch is valid."""
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


def _as_binary(array: pa.Array) -> pa.Array:
    """The array with bytes for strings: then only the offsets are checked, not the content."""
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, _as_binary(array.dictionary), safe=False)
    if pa.types.is_run_end_encoded(array.type):
        parts = [array.run_ends, _as_binary(array.values)]
        kind = pa.run_end_encoded(array.type.run_end_type, parts[1].type)
        return pa.RunEndEncodedArray.from_buffers(kind, len(array), [None], 0, array.offset, parts)
    return array.view(BARE[str(array.type)]) if str(array.type) in BARE else array


def checked_values(name: str, values: Any, count: int) -> Any:
    """The `values`, an iterator's as a list; ParameterError with `name` for no column or list, and another length."""
    others = (pa.Table, pa.RecordBatch, dict, set, frozenset, str, bytes)  # a set has no order
    if isinstance(values, others) or getattr(values, "ndim", 1) != 1 or not isinstance(values, Iterable):
        raise ParameterError(f"{name} is {shown_type(values)}; give a column or a list, one value for each document")
    values = values if hasattr(values, "__len__") else list(values)
    if len(values) != count:
        given = f"{plural(len(values), 'value')} for {plural(count, 'document')}"
        raise ParameterError(f"{name} has {given}; give one for each document")
    return values


def checked_column(name: str, values: Any, count: int) -> pa.Array:
    """`values`, `count` of them, as one valid pyarrow.Array of its own type.

    `values` is a list, or a column of NumPy, pyarrow, pandas, polars, cuDF or CuPy. Raises ParameterError with `name`
    for another length, for anything else and for values of several kinds; DamagedInputError for an invalid array.
    """
    values = checked_values(name, values, count)
    try:
        column = in_host_memory(values)
        if isinstance(column, np.ndarray) and column.dtype.kind == "M":  # Arrow has no weeks, months or hours
            column = column.astype(UNITS.get(np.datetime_data(column.dtype)[0], column.dtype))
        if not isinstance(column, (pa.Array, pa.ChunkedArray)):
            column = arrow_values(column)
    except (pa.ArrowException, KeyError, OverflowError, TypeError, ValueError) as error:
        reason = first_line(error)
        raise ParameterError(f"{name} is {shown_type(values)}, not a column of one kind of value: {reason}") from error
    check_arrow(column, name)
    return as_one_array(column)


def arrow_values(values: Any) -> pa.Array:
    """Values of Python or NumPy in Arrow. A date among datetimes is its midnight.

    Arrow takes the type of the first value, so it would cut off the times of datetimes that follow a date.
    """
    if str(getattr(values, "dtype", "object")) == "object":
        values = list(values)
        kinds = set(map(type, values))
        if date in kinds and any(issubclass(kind, datetime) for kind in kinds):
            values = [datetime(one.year, one.month, one.day) if type(one) is date else one for one in values]
    return pa.array(values, from_pandas=True)


def in_host_memory(values: Any) -> Any:
    """A column of polars or cuDF in Arrow, one of CuPy or PyTorch in NumPy, and all of `datasets`; any other as it is.

    Columns know their types better than their values do. Of Python's objects in polars, a list: their Arrow array holds
    addresses.
    """
    values = whole_column(values)
    if hasattr(values, "to_arrow"):
        return values.to_list() if str(values.dtype) == "Object" else values.to_arrow()
    if hasattr(values, "dtype") and not isinstance(values, np.ndarray) and not hasattr(values, "iloc"):
        return on_host(values)
    return values
