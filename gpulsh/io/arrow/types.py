"""Which Arrow types a column may have to be read as text or to decide which document is kept."""

from __future__ import annotations

import pyarrow as pa

from gpulsh.errors import InputError
from gpulsh.io.arrow.rows import is_text
from gpulsh.io.format import Columns, File, missing_column


def is_ordered(kind: pa.DataType) -> bool:
    """Whether `--keep` may order by an Arrow type: integers, floats, dates and times."""
    types = pa.types
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or (types.is_temporal(kind) and not types.is_interval(kind))
    )


def check_columns(file: File, schema: pa.Schema, columns: Columns) -> None:
    """An InputError unless the schema has the columns, once each and of a type that serves."""
    for name in columns.names():
        places = schema.get_all_field_indices(name)
        if not places:
            raise missing_column(file, name, columns, schema.names)
        if len(places) > 1:
            raise InputError(f"{file.name}: has {len(places)} columns {name!r}; rename all but one")
    text = schema.field(columns.text).type
    if not is_text(text):
        raise InputError(
            f"{file.name}: column {columns.text!r} is {text}, not text; name a column of strings with --text-column"
        )
    if columns.key is not None and not is_ordered(schema.field(columns.key).type):
        raise InputError(
            f"{file.name}: column {columns.key!r} is {schema.field(columns.key).type};"
            " --keep takes integers, floats, dates and times"
        )
