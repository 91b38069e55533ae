"""Changes of a line of JSON, whose other bytes stay: another text, and columns as more members."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpulsh.arrays import Numbers
from gpulsh.errors import InputError
from gpulsh.io.arrow.buffers import number_values, string_array, to_arrow
from gpulsh.io.arrow.rows import text_lengths
from gpulsh.io.columns import Columns, FieldPath
from gpulsh.io.file import File
from gpulsh.io.formats.json_record import BOM, LongString
from gpulsh.io.formats.streamed import Line
from gpulsh.io.rows import Bytes

SPACE = " \t\n\r"
PART_BYTES = 1 << 20  # of a text that becomes a Python value at once

FEW_ROWS = 128  # to find the rows that are alike among them would take longer than to write all
NUMBERS = {bool, int, float, type(None)}
_decoder = json.JSONDecoder(parse_int=str)  # an int may have only some thousand digits


def with_text(file: File, number: int, line: Line, columns: Columns, change: Callable[[Bytes], bytes]) -> bytes:
    """The line with another text, made by `change` of the text as UTF-8; with its end."""
    content = line.decode("latin-1")  # one character for each byte, so places are the same
    begin = len(BOM) if number == 1 and line.startswith(BOM) else 0
    try:
        start, stop = _place(content, begin, columns.texts[0])
    except RecursionError as error:
        raise InputError(f"{file.name}: {file.unit} {number} is nested too deeply; flatten it") from error
    del content
    text = change(b"".join(LongString(line, start + 1, stop - 1).pieces()))
    return b"".join((line[:start], *json_string(text), line[stop:]))


def _place(content: str, at: int, place: FieldPath) -> tuple[int, int]:
    """The place of a field's value. Among fields of one name the last counts, as for parsers."""
    found = 0, 0
    at = _next(content, at) + 1
    while content[at := _next(content, at)] != "}":
        name, end = _decoder.raw_decode(content, at)
        if not name.isascii():
            name = json.loads(content[at:end].encode("latin-1").decode("utf-8", "replace"))
        begin = _next(content, _next(content, end) + 1)
        _, at = _decoder.raw_decode(content, begin)
        if name == place[0]:
            found = begin, at
        at = _next(content, at)
        at += content[at] == ","
    return found if len(place) == 1 else _place(content, found[0], place[1:])


def json_string(text: Bytes) -> Iterator[bytes]:
    """A text as a string of JSON, in pieces: orjson reserves nine times the bytes of a string."""
    import orjson

    if len(text) <= PART_BYTES:
        yield orjson.dumps(str(text, "utf-8", "replace"))
        return
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    yield b'"'
    for start in range(0, len(text), PART_BYTES):
        piece = text[start : start + PART_BYTES]
        yield orjson.dumps(decoder.decode(piece, final=start + len(piece) == len(text)))[1:-1]
    yield b'"'


def _next(content: str, at: int) -> int:
    while content[at] in SPACE:
        at += 1
    return at


def member_texts(batch: pa.RecordBatch) -> list[bytes]:
    """The columns of each row as more members of an object, with the comma before them, its brace and a line's end.

    Nearly all rows are alike, so rows that are alike are written once. A column whose values mostly differ, such as the
    cluster of a document that is alone, is written apart.
    """
    if batch.num_rows <= FEW_ROWS:
        return _rows(batch, b"}\n")
    codes = [_codes(column) for column in batch.columns]
    is_varied = [int(code.max(initial=0)) > batch.num_rows // 2 for code in codes]
    parts: list[list[bytes]] = []
    for varied, found in groupby(range(batch.num_columns), is_varied.__getitem__):
        run = list(found)
        some, end = batch.select(run), b"}\n" if run[-1] == batch.num_columns - 1 else b""
        parts.append(_rows(some, end) if varied else _members(some, [codes[at] for at in run], end))
    return list(map(b"".join, zip(*parts, strict=True)))


def _codes(column: pa.Array) -> Numbers:
    """int64 [rows]: a number of each value, which equal values share; from 0, by the first row of each."""
    if pa.types.is_list(column.type):
        texts = column.values.dictionary_encode("encode").indices.cast(pa.string())
        places = column.buffers()[:2]  # of nulls, and where each list begins
        lists = pa.Array.from_buffers(pa.list_(pa.string()), len(column), places, -1, column.offset, [texts])
        column = pc.binary_join(lists, string_array([","])[0])  # a str would need pandas
    return number_values(column.dictionary_encode("encode").indices).astype(np.int64)


def _members(batch: pa.RecordBatch, codes: Sequence[Numbers], end: bytes) -> list[bytes]:
    """`_rows` of columns with these codes."""
    whole = codes[0]
    for code in codes[1:]:
        if most := int(code.max(initial=0)):
            whole = _codes(to_arrow(whole * (most + 1) + code))
    first = np.flatnonzero(np.diff(np.maximum.accumulate(whole), prepend=-1))
    written = _rows(batch.take(to_arrow(first)), end)
    return [written[code] for code in whole.tolist()]


def _longest(column: pa.Array) -> int:
    """Bytes of the longest text in a column of texts or lists of them; 0 in others."""
    texts = column.flatten() if pa.types.is_list(column.type) else column
    return int(text_lengths(texts).max(initial=0))


def _large_json(value: object) -> bytes:
    """A value as JSON, large strings in pieces: without memory, orjson ends the process."""
    import orjson

    if isinstance(value, list):
        return b"[%b]" % b",".join(map(_large_json, value))
    if isinstance(value, str):
        return b"".join(json_string(memoryview(value.encode())))
    return orjson.dumps(value, default=str)


def _rows(batch: pa.RecordBatch, end: bytes) -> list[bytes]:
    """The columns of each row as members of an object, with the comma before them, and `end`."""
    import orjson

    def of(name: str, column: pa.Array) -> list[bytes]:
        begin = b",%b:" % orjson.dumps(name)
        values = (column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        if values and NUMBERS.issuperset(map(type, values)):  # no value has a comma: write all at once
            return [begin + value for value in orjson.dumps(values)[1:-1].split(b",")]
        if _longest(column) > PART_BYTES:
            return [begin + _large_json(value) for value in values]
        return [begin + orjson.dumps(value, default=str) for value in values]

    return list(map(b"".join, zip(*map(of, batch.schema.names, batch), [end] * batch.num_rows, strict=True)))
