"""Columns as members of JSON objects, for the rows of JSON lines.

Members are joined by Arrow's kernels, because a Python value for each would take longer than to read the row.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from gpulsh.io.arrow.buffers import strings


def members(batch: pa.RecordBatch) -> list[bytes]:
    """The columns of each row as members of an object, without braces."""
    parts: list[pa.Array | pa.Scalar] = []
    for place, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        parts += [_text(f'{"," if place else ""}"{name}":'), json_values(column)]
    return _joined(*parts).cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def json_values(column: pa.Array) -> pa.StringArray:
    """Each value as JSON: as `gpulsh.io.conversion.json_lines` writes it, of the types that are added."""
    kind, types = column.type, pa.types
    if column.null_count == len(column):
        return pa.repeat(_text("null"), len(column))
    if types.is_boolean(kind):
        found = pc.if_else(column, _text("true"), _text("false"))
    elif types.is_integer(kind):
        found = column.cast(pa.string())
    elif types.is_floating(kind):
        values = column.cast(pa.float64())
        found = pc.if_else(pc.is_finite(values), values, pa.nulls(1, values.type)[0]).cast(pa.string())
        is_whole = pc.invert(pc.match_substring_regex(found, "[.e]"))
        found = pc.if_else(is_whole, _joined(found, _text(".0")), found)
    elif types.is_timestamp(kind):
        found = _joined(_text('"'), column.cast(pa.string()), _text('"'))
    elif types.is_list(kind):
        texts = pa.ListArray.from_arrays(column.offsets, json_values(column.values))
        joined = _joined(_text("["), pc.binary_join(texts, _text(",")), _text("]"))
        found = pc.if_else(column.is_null(), pa.nulls(1, joined.type)[0], joined)
    else:
        return _distinct(column)
    return found.fill_null(_text("null"))


def _text(text: str) -> pa.StringScalar:
    """The text as a scalar; pyarrow's own conversion would import pandas, which takes as long as to write many rows."""
    return strings([text])[0]


def _joined(*parts: pa.Array | pa.Scalar) -> pa.StringArray:
    """The parts of each row end to end; null if one is."""
    return pc.binary_join_element_wise(*parts, _text(""))


def _distinct(column: pa.Array) -> pa.StringArray:
    """Strings and ids of any type: few of them differ, so each is written once."""
    import orjson

    known: dict[str, str] = {}
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        coded = column.dictionary_encode()
        written = [orjson.dumps(value).decode() for value in coded.dictionary.to_pylist()]
        return strings(written).take(coded.indices).fill_null(_text("null"))
    found = []
    for value in column.to_pylist():
        key = repr(value)
        if key not in known:
            known[key] = orjson.dumps(value, default=str).decode()
        found.append(known[key])
    return strings(found)
