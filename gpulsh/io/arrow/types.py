"""Which Arrow types a column may have to be read as text or to decide which document is kept."""

from __future__ import annotations

import pyarrow as pa

from gpulsh.errors import InputError
from gpulsh.io.arrow.rows import is_text
from gpulsh.io.columns import Columns, Place, missing_column, place_named
from gpulsh.io.file import File


def is_ordered(kind: pa.DataType) -> bool:
    """Whether `--keep` may order by an Arrow type: integers, floats, dates and times, and strings that hold these."""
    types = pa.types
    is_number = types.is_integer(kind) or types.is_floating(kind)
    return bool(is_number or is_text(kind) or (types.is_temporal(kind) and not types.is_interval(kind)))


def check_columns(file: File, schema: pa.Schema, columns: Columns) -> None:
    """An InputError unless the schema has the columns, once each and of a type that serves."""
    kinds = {}
    for place in columns.places():
        if place not in columns.texts:
            place = place_named(place[0], schema.names)
        kind = kinds[".".join(place)] = _type_of(file, schema, place, columns)
        if place in columns.texts and not is_text(kind):
            what = "one of its fields" if pa.types.is_struct(kind) else "a column of strings"
            raise InputError(
                f"{file.name}: column {'.'.join(place)!r} is {kind}, not text; name {what} with --text-column"
            )
    if columns.key is not None and not is_ordered(kind := kinds[columns.key]):
        raise InputError(
            f"{file.name}: column {columns.key!r} is {kind}; --keep takes numbers, dates and times, or strings of them"
        )


def type_named(schema: pa.Schema, name: str) -> pa.DataType:
    """The type of a column, or of a field of one, that the schema has."""
    kind = schema
    for part in place_named(name, schema.names):
        kind = kind.field(part).type
    return kind


def _type_of(file: File, schema: pa.Schema, place: Place, columns: Columns) -> pa.DataType:
    kind, names = schema, list(schema.names)
    for depth, name in enumerate(place):
        at = [number for number, present in enumerate(names) if present == name]
        if not at:
            if depth and not names:
                names, depth = list(schema.names), 0  # what stands above has no fields: the columns are the choice
            raise missing_column(file, place, columns, [".".join((*place[:depth], present)) for present in names])
        if len(at) > 1:
            raise InputError(f"{file.name}: has {len(at)} columns {'.'.join(place[: depth + 1])!r}; rename all but one")
        kind = kind.field(at[0]).type
        names = [kind.field(number).name for number in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    return kind
