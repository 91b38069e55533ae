"""Changes of a line of JSON, whose other bytes stay: another text, and columns as more members."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from gpulsh.errors import InputError
from gpulsh.io.columns import Columns, Place
from gpulsh.io.file import File
from gpulsh.io.formats.streamed import Line
from gpulsh.io.rows import Bytes, text_bytes

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
    text = json.loads(content[start:stop].encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    value = orjson.dumps(change(text_bytes(text)).decode("utf-8", "replace"))
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
    names = batch.schema.names
    if "cluster" not in names:
        return [b",%b}\n" % row for row in _members(batch)]
    # A document that is alone has a cluster of its own. Apart from this number, nearly all rows are alike.
    place = names.index("cluster")
    before, behind = _members(batch.select(names[:place])), _members(batch.select(names[place + 1 :]))
    clusters = batch.column(place).to_pylist()
    return [b',%b,"cluster":%d,%b}\n' % row for row in zip(before, clusters, behind, strict=True)]


def _members(batch: pa.RecordBatch) -> list[bytes]:
    """The columns of each row as members of an object. Rows that are alike are written once."""
    import orjson

    def values(column: pa.Array) -> list[object]:
        found: list[Any] = (column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        return [None if value is None else tuple(value) for value in found] if pa.types.is_list(column.type) else found

    rows = list(zip(*map(values, batch.columns), strict=True))
    names = batch.schema.names
    written = {row: orjson.dumps(dict(zip(names, row, strict=True)), default=str)[1:-1] for row in set(rows)}
    return [written[row] for row in rows]
