"""Arrow rows as JSON lines.

Dates, times and decimals are strings as Arrow shows them, a duration its number, a map a list of [key, value]; binary
is base64, but for the documents' text, which is text. NaN and infinity, which JSON lacks, are null.
"""

from __future__ import annotations

import base64
import codecs
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from gpulsh.errors import InputError
from gpulsh.io.arrow.rows import arrow_rows, is_text
from gpulsh.io.arrow.texts import as_strings
from gpulsh.io.columns import Columns
from gpulsh.io.file import File, reading
from gpulsh.io.limits import COPIES, Limit, too_costly
from gpulsh.io.rows import Bytes

FIRST = np.zeros(1, np.int64)
PART_BYTES = 1 << 20  # of rows that become Python's values together, and of a larger text
VALUE_COPIES = 6  # of a value that Python, which may take four bytes for each of it, and JSON hold at most


def json_lines(file: File, batches: Iterable[pa.RecordBatch], columns: Columns, limit: Limit | None) -> Iterator[bytes]:
    """Each row as an object of its columns, one a line, some at a time; a large row in pieces."""
    texts = {place[0] for place in columns.texts if len(place) == 1}
    for batch in batches:
        names = batch.schema.names
        if twice := [name for name, often in Counter(names).items() if often > 1]:
            raise InputError(f"{file.name}: has {names.count(twice[0])} columns {twice[0]!r}; rename all but one")
        rows = max(1, len(batch) * PART_BYTES // max(batch.nbytes, 1))
        for start in range(0, len(batch), rows):
            part = {name: column.slice(start, rows) for name, column in zip(names, batch.columns, strict=True)}
            with reading(file):
                if rows == 1:
                    yield from _large_line(file, part, texts, limit)
                else:
                    yield _lines(part, texts)
            del part
        del batch


def _lines(part: Mapping[str, pa.Array], texts: set[str]) -> bytes:
    columns = [_values(column, name in texts) for name, column in part.items()]
    return b"".join(_dumped(dict(zip(part, values, strict=True))) + b"\n" for values in zip(*columns, strict=True))


def _large_line(file: File, part: Mapping[str, pa.Array], texts: set[str], limit: Limit | None) -> Iterator[bytes]:
    before = b"{"
    for name, column in part.items():
        yield before + _dumped(name) + b":"
        before = b","
        if _is_string(column, name in texts) and column.null_count == 0:
            yield from _string(arrow_rows(column).pieces(FIRST)[0])
            continue
        if limit is not None and (need := VALUE_COPIES * column.nbytes) > COPIES * limit.document:
            raise too_costly(file, f"a value of column {name!r} as JSON", need, COPIES * limit.document, limit)
        yield _dumped(_values(column, name in texts)[0])
    yield b"}\n"


def _string(text: Bytes) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    yield b'"'
    for start in range(0, len(text), PART_BYTES):
        piece = text[start : start + PART_BYTES]
        yield _dumped(decoder.decode(piece, final=start + len(piece) == len(text)))[1:-1]
    yield b'"'


def _dumped(value: object) -> bytes:
    import orjson

    return orjson.dumps(value, default=_plain)


def _is_string(column: pa.Array, is_document: bool) -> bool:
    return is_document or (is_text(column.type) and "string" in str(column.type))


def _values(column: pa.Array, is_document: bool) -> list[object]:
    found = as_strings(column) if _is_string(column, is_document) else column.cast(_plain_type(column.type))
    return found.to_pylist()  # type: ignore[no-any-return]


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type with what Python and JSON have no values for told as strings and numbers."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if types.is_duration(kind):
        return pa.int64()
    if types.is_temporal(kind) or types.is_decimal(kind):
        return kind if types.is_interval(kind) else pa.string()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if types.is_large_list(kind):
        return pa.large_list(_plain_type(kind.value_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain_type(kind.value_type), kind.list_size)
    return pa.list_(_plain_type(kind.value_type)) if types.is_list(kind) else kind


def _plain(value: object) -> object:
    """What orjson does not know."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
