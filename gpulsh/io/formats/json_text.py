"""Changes of a line of JSON, whose other bytes stay: another text, and columns as more members.

Members are joined by Arrow's kernels, because a Python value for each would take longer than to read the row.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gpulsh.errors import InputError
from gpulsh.io.arrow.buffers import null_mask, numbers, strings, to_arrow
from gpulsh.io.columns import Columns, Place
from gpulsh.io.file import File
from gpulsh.io.formats.streamed import Line
from gpulsh.io.rows import Bytes

SPACE = " \t\n\r"
BOM = "\ufeff"

_decoder = json.JSONDecoder()


def with_text(file: File, number: int, line: Line, columns: Columns, change: Callable[[Bytes], bytes]) -> bytes:
    """The line with another text, made by `change` of the text as UTF-8; with its end."""
    import orjson

    content = bytes(line).decode("utf-8", "surrogateescape")
    begin = len(BOM) if number == 1 and content.startswith(BOM) else 0
    try:
        start, stop = _place(content, begin, columns.texts[0])
    except RecursionError as error:
        raise InputError(f"{file.name}: {file.unit} {number} is nested too deeply; flatten it") from error
    # As it was read: bytes that are not UTF-8 are U+FFFD, and halves of a surrogate pair stay.
    text = json.loads(content[start:stop].encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    changed = change(text.encode("utf-8", "surrogatepass"))
    try:
        value = orjson.dumps(changed.decode("utf-8"))
    except UnicodeDecodeError:
        value = json.dumps(changed.decode("utf-8", "surrogatepass")).encode()
    before, behind = (part.encode("utf-8", "surrogateescape") for part in (content[:start], content[stop:]))
    return before + value + behind


def _place(content: str, at: int, place: Place) -> tuple[int, int]:
    """The place of a field's value. Among fields of one name the last counts, as for parsers."""
    found = 0, 0
    at = _next(content, at) + 1
    while content[at := _next(content, at)] != "}":
        name, at = _decoder.raw_decode(content, at)
        at = _next(content, _next(content, at) + 1)
        begin = at
        _, at = _decoder.raw_decode(content, at)
        if name == place[0]:
            found = begin, at
        at = _next(content, at)
        at += content[at] == ","
    return found if len(place) == 1 else _place(content, found[0], place[1:])


def _next(content: str, at: int) -> int:
    while content[at] in SPACE:
        at += 1
    return at


def members(batch: pa.RecordBatch) -> list[bytes]:
    """The columns of each row as more members of an object, with the comma before them, its brace and a line's end."""
    if "component" not in batch.schema.names:
        return _members(batch)
    # Dropped rows, rows that are alone in their component, and others each have other constant columns.
    component, null = numbers(batch.column("component")), null_mask(batch.column("copies"))
    dropped = np.zeros(len(batch), np.bool_) if null is None else null
    alone = ~dropped & (component == 1)
    found: NDArray[np.object_] = np.empty(len(batch), object)
    for rows in (dropped, alone, ~(dropped | alone)):
        found[rows] = _members(batch.filter(to_arrow(rows)))
    return list(found)


def _members(batch: pa.RecordBatch) -> list[bytes]:
    import orjson

    parts: list[pa.Array | pa.Scalar] = []
    constant = ""  # text of all rows behind the last part: Arrow takes about as long for each part of a row
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        constant += f',"{name}":'
        if _is_constant(column):
            constant += orjson.dumps(column[0].as_py()).decode()
            continue
        parts += [_text(constant), json_values(column)]
        constant = ""
    constant += "}\n"
    if not parts:
        return [constant.encode()] * len(batch)
    return _joined(*parts, _text(constant)).cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def _is_constant(column: pa.Array) -> bool:
    """Whether all values are known to be equal."""
    kind, types = column.type, pa.types
    if column.null_count or not len(column):
        return bool(len(column)) and column.null_count == len(column)
    if types.is_list(kind):
        return _is_constant(column.value_lengths()) and len(column.flatten().unique()) <= 1
    if types.is_boolean(kind) or types.is_integer(kind):
        least, most = pc.min_max(column).values()
        return bool(least == most)
    return False


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


@lru_cache
def _text(text: str) -> pa.StringScalar:
    """The text as a scalar; pyarrow's own conversion would import pandas, which takes as long as to write many rows."""
    return strings([text])[0]


def _joined(*parts: pa.Array | pa.Scalar) -> pa.StringArray:
    """The parts of each row end to end; null if one is."""
    return pc.binary_join_element_wise(*parts, _text(""))


def _distinct(column: pa.Array) -> pa.StringArray:
    """Strings, of which few differ, so each is written once; and ids of any other type."""
    import orjson

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        coded = column.dictionary_encode()
        written = [orjson.dumps(value).decode() for value in coded.dictionary.to_pylist()]
        return strings(written).take(coded.indices).fill_null(_text("null"))
    return strings([orjson.dumps(value, default=str).decode() for value in column.to_pylist()])
