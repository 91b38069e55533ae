"""Ids of several files as one column: the type that holds them all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpulsh.errors import InputError
from gpulsh.io.arrow.buffers import large_type, plain_values, python_array
from gpulsh.io.arrow.rows import has_views
from gpulsh.io.file import File

DAY = 86_400_000  # milliseconds
MAX_YEAR_DAYS = 11_248_000  # from 1970 to the year 32765
# Of a date beyond Python's range, or an unknown time zone: with pytz, that is a KeyError.
NO_PYTHON_VALUE = (KeyError, OverflowError, ValueError)


def joined_ids(parts: Sequence[pa.Array], declared: Sequence[pa.DataType]) -> pa.Array:
    """Arrays end to end, in the type common to them and to `declared`, otherwise each value as JSON text."""
    parts = list(map(plain_values, parts))
    kind = common_type([*declared, *(part.type for part in parts)])
    if kind is not None and is_parquet_type(kind):
        kind = parquet_type(kind)
        return pa.concat_arrays([pa.nulls(0, kind), *(cast_to(part, kind) for part in parts)])
    return pa.concat_arrays([pa.nulls(0, pa.string()), *map(json_strings, parts)])


def common_type(kinds: Iterable[pa.DataType]) -> pa.DataType | None:
    """The type that holds every value of the types exactly; None if no one type does."""
    types = pa.types
    kinds = {kind.value_type if types.is_dictionary(kind) else kind for kind in kinds}
    kinds -= {pa.null()}
    if len(kinds) < 2:
        return kinds.pop() if kinds else pa.null()
    if all(map(types.is_unsigned_integer, kinds)):
        return max(kinds, key=lambda kind: kind.bit_width)
    if all(map(types.is_integer, kinds)) and pa.uint64() not in kinds:
        return pa.int64()
    if all(types.is_string(kind) or types.is_large_string(kind) for kind in kinds):
        return pa.large_string()
    return None


def is_parquet_type(kind: pa.DataType) -> bool:
    """Whether Parquet has the type: no intervals, and no decimals of a scale below 0 or above their digits."""
    try:
        pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([("id", kind)])).close()
    except (pa.ArrowNotImplementedError, OSError):  # OSError at such a scale
        return False
    return True


def refuse_unsupported(file: File, schema: pa.Schema) -> None:
    """InputError at a column whose type Parquet does not have."""
    for field in schema:
        if not is_parquet_type(field.type):
            raise unsupported_column(file, field, "is")


def unsupported_column(
    file: File, field: pa.Field, why: str, format: str = "Parquet", other: str = "jsonl"
) -> InputError:
    """The error for a column that a format cannot hold, and the `other` format can."""
    return InputError(
        f"{file.name}: column {field.name!r} {why} {field.type}, which {format} cannot hold; leave --format out, or"
        f" give it as {other}"
    )


def parquet_type(kind: pa.DataType, *, coded: bool = False) -> pa.DataType:
    """The type that Arrow can write to Parquet and read: lists instead of lists of a fixed size, few dictionaries.

    Parquet has no lists of a fixed size. Arrow converts lists to these again, but fails at size 0, and in some versions
    at nulls. It cannot decode a dictionary of views, and cannot read several row groups with a nested dictionary of
    text. With `coded`, nested dictionaries stay.

    >>> parquet_type(pa.struct([("embedding", pa.list_(pa.float32(), 2))]))
    StructType(struct<embedding: list<item: float>>)
    """
    types = pa.types

    def inner(field: pa.Field) -> pa.Field:
        kind = parquet_type(field.type, coded=coded)
        return field.with_type(kind.value_type if types.is_dictionary(kind) and not coded else kind)

    if isinstance(kind, pa.BaseExtensionType):
        stored = parquet_type(kind.storage_type, coded=coded)
        return kind if stored == kind.storage_type else stored
    if types.is_fixed_size_list(kind) or types.is_list(kind):
        return pa.list_(inner(kind.value_field))
    if types.is_large_list(kind):
        return pa.large_list(inner(kind.value_field))
    if types.is_struct(kind):
        return pa.struct([inner(kind.field(place)) for place in range(kind.num_fields)])
    if types.is_dictionary(kind) and has_views(kind.value_type):
        return pa.dictionary(kind.index_type, large_type(kind.value_type), kind.ordered)
    return pa.map_(parquet_type(kind.key_type, coded=coded), inner(kind.item_field)) if types.is_map(kind) else kind


def cast_to(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array cast to a type that holds its values; Arrow has no casts of nulls to some types."""
    if values.type == kind:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), kind)
    if values.offset and "null" in str(values.type):  # Arrow casts a slice of structs with a field of nulls wrongly
        values = pa.concat_arrays([values])
    try:
        return values.cast(kind)
    except pa.ArrowNotImplementedError:  # dictionaries of views take two steps
        return values.cast(parquet_type(values.type, coded=True)).cast(kind)


def fits_parquet(values: pa.Array) -> bool:
    """Whether Parquet, which has the type, has every value, too.

    It stores seconds as milliseconds in 64 bits, and the milliseconds of a date as days in 32. An overflow raises no
    error.
    """
    for leaf in _leaves(values):
        is_seconds = pa.types.is_timestamp(leaf.type) and leaf.type.unit == "s"
        if is_seconds and not _are_within(leaf, (1 << 63) // 1000):
            return False
        if leaf.type == pa.date64() and not _are_within(leaf, (1 << 31) * DAY):
            return False
    return True


def has_known_years(values: pa.Array) -> bool:
    """Whether Arrow shows the year of every date; beyond the year 32767 it shows another, or none."""
    day = datetime(1970, 1, 2)
    return all(
        _are_within(leaf, pa.scalar(day, leaf.type).value * MAX_YEAR_DAYS)
        for leaf in _leaves(values)
        if pa.types.is_date(leaf.type) or pa.types.is_timestamp(leaf.type)
    )


def _leaves(values: pa.Array) -> Iterator[pa.Array]:
    """The arrays of plain types that make up an array."""
    kind, types = values.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        parts = [values.storage]
    elif types.is_dictionary(kind):
        parts = [values.dictionary]
    elif types.is_struct(kind):
        parts = [values.field(place) for place in range(kind.num_fields)]  # Arrow aborts at the flatten() of a union
    elif types.is_map(kind):
        parts = [values.keys, values.items]
    elif types.is_run_end_encoded(kind):
        parts = [values.values]
    elif hasattr(kind, "value_type"):
        parts = [values.flatten()]
    else:
        yield values
        return
    for part in parts:
        yield from _leaves(part)


def _are_within(values: pa.Array, most: int) -> bool:
    """Whether all stored numbers of the values are less than `most` from 0."""
    ends = pc.min_max(values.view(pa.int32() if values.type.bit_width == 32 else pa.int64()))
    return not ends["min"].is_valid or bool(-most < ends["min"].as_py() and ends["max"].as_py() < most)


def json_strings(values: pa.Array) -> pa.StringArray:
    """Each value as JSON text, strings as they are."""
    return json_texts(python_values(values))


def value_strings(values: pa.Array) -> pa.StringArray:
    """Each value as JSON text, but strings, dates, times and decimals without quotes, as other formats write them."""
    found, types = json_strings(values), pa.types
    return pc.utf8_trim(found, '"') if types.is_temporal(values.type) or types.is_decimal(values.type) else found


def json_texts(values: Iterable[object]) -> pa.StringArray:
    """Python values as JSON text, strings as they are."""
    return python_array([None if value is None else json_text(value) for value in values]).cast(pa.string())


def python_values(values: pa.Array | pa.ChunkedArray) -> list[object]:
    """Each value as `python_value` gives it."""
    try:
        return values.to_pylist()  # type: ignore[no-any-return]
    except NO_PYTHON_VALUE:
        return [python_value(values, row) for row in range(len(values))]


def python_value(values: pa.Array | pa.ChunkedArray, row: int) -> object:
    """A value, or its stored number if Python has no such value; several numbers as Arrow shows them."""
    try:
        return values[row].as_py()
    except NO_PYTHON_VALUE:
        stored = getattr(values[row], "value", None)
        return stored if isinstance(stored, int) else " ".join(values.slice(row, 1).to_string().split())


def json_text(value: object) -> str:
    """A Python value as JSON text, a string as it is; bytes as the text that they encode."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, str) else json.dumps(value, default=str)
