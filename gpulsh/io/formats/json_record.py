"""A record of JSON: from its line, or element, to an object, its text and its id. Errors name file and line.

gpulsh parses a large line in little additional memory. A parser makes an object of every value: 30 times the
bytes of `{},{},`. It copies a long text once or twice, with up to four bytes per character. So gpulsh first counts the
cost, and parses the object without its long strings. They stay in the line until they are read.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np

from gpulsh.errors import DamagedInputError, InputTypeError
from gpulsh.io.arrow.buffers import binary_array
from gpulsh.io.arrow.rows import arrow_rows
from gpulsh.io.arrow.texts import count_stray_bytes
from gpulsh.io.columns import SEPARATOR, Columns, FieldPath, field_named
from gpulsh.io.file import File
from gpulsh.io.formats.streamed import END, LARGE_LINE, UTF16, Line, utf16_file
from gpulsh.io.limits import CostError, Limit, too_costly, too_large
from gpulsh.io.rows import Bytes, Rows, text_bytes
from gpulsh.ragged import offsets

PARSE_COPIES = 2  # of the largest document: room for a line and its copies
PARSED_BYTES = 8 << 20  # room for the other fields of a line, besides the largest text
BOM = b"\xef\xbb\xbf"
# No group is possessive: releases of Python differ in what such groups match. So each takes few steps at once.
SHORT = re.compile(rb'(?:[^"]++|"[^"\\]{0,1024}+(?:\\.[^"\\]{0,64}+){0,64}"){0,1024}', re.DOTALL)
STRING = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){0,1024}')
# Two escapes for the halves of one character are kept or dropped together.
PIECE = re.compile(rb"(?:[^\\]{1,1024}+|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\[^u]){1,512}", re.DOTALL)
# Bytes that a parser and its objects take at most, as orjson and Python's own were measured with each kind of value.
COSTS = {b",": 80, b"{": 130, b"[": 70, b":": 24}
BYTE_COST = 6
FEW_LINES = 16  # fewer are read one by one in less time
PLAIN_IDS = {str, int, float, bool, type(None)}  # types of ids that are no error
STRING_COST = 64  # bytes that a string left in its place counts for

Record = dict[str, Any]  # an object as it is parsed
RecordValues = tuple[Bytes | None, object, str | int | None]  # the text, the value of --keep and the copy key


@dataclass(frozen=True)
class LongString:
    """A string between the quotes at `begin` and `end` of a line."""

    line: Line
    begin: int
    end: int

    def pieces(self) -> Iterator[Bytes]:
        """The string as UTF-8; one piece, not copied, if the line has the same bytes."""
        view = memoryview(self.line)[self.begin : self.end]
        if len(view) <= LARGE_LINE:
            yield text_bytes(_decoded(bytes(view)))
            return
        if self.line.find(b"\\", self.begin, self.end) < 0 and not count_stray_bytes(view):
            # A small part of a line must not hold all of it.
            yield view if 2 * len(view) > len(self.line) else bytes(view)
            return
        at = self.begin
        while at < self.end:
            stop = self._border(at)
            yield text_bytes(_decoded(bytes(memoryview(self.line)[at:stop])))
            at = stop

    def text(self) -> str:
        """The string as a Python str."""
        return b"".join(self.pieces()).decode()

    def _border(self, begin: int) -> int:
        """A place shortly after `begin` that splits no escape, pair of escapes or character."""
        matched = PIECE.match(self.line, begin, self.end)
        assert matched is not None  # strings with other invalid escapes were refused
        stop = matched.end()
        for back in range(1, 4 if stop < self.end else 0):
            byte = self.line[stop - back]
            if byte < 0x80:
                break
            if byte >= 0xC0:
                return stop - back
        return stop


def _decoded(content: bytes) -> str:
    import orjson

    quoted = b'"' + content + b'"'
    try:
        found = orjson.loads(quoted)
    except ValueError:
        found = json.loads(quoted.decode("utf-8", "replace"))
    assert isinstance(found, str)
    return found


def _end(pattern: re.Pattern[bytes], line: Line, at: int) -> int:
    """The end of all that matches from `at` on, some steps after others."""
    while (matched := pattern.match(line, at)) is not None and matched.end() > at:
        at = matched.end()
    return at


class LargeObject:
    """The object of a line; a CostError where parsing would take more than `most` bytes."""

    def __init__(self, line: Line, most: int | None) -> None:
        self._mark = "\0" + secrets.token_hex(8)
        self._strings: list[LongString] = []
        parts: list[bytes] = []
        longest, at, view = 0, 0, memoryview(line)
        while (quote := _end(SHORT, line, at)) < len(line):
            parts += (bytes(view[at:quote]), b'"\\u0000%s %d"' % (self._mark[1:].encode(), len(self._strings)))
            at = _end(STRING, line, quote + 1)
            if line[at : at + 1] != b'"':
                raise ValueError(f"the string that begins at byte {quote} is not closed correctly")
            self._strings.append(LongString(line, quote + 1, at))
            longest = max(longest, at - quote)
            at += 1
        self.short = b"".join((*parts, view[at:]))
        cost = BYTE_COST * (len(self.short) + STRING_COST * len(self._strings))
        cost += sum(each * self.short.count(what) for what, each in COSTS.items())
        if most is not None and cost + longest > most:
            raise CostError(cost + longest)

    def restored(self, value: Any, *, long: bool = False) -> Any:
        """A value of the parsed `short` with its long strings: as `LongString` where it is one, otherwise as they are.

        With `long` as they are in any case.
        """
        if isinstance(value, str):
            if not value.startswith(self._mark):
                return value
            string = self._strings[int(value[len(self._mark) :])]
            return string.text() if long else string
        if isinstance(value, list):
            return [self.restored(each, long=True) for each in value]
        if isinstance(value, dict):
            return {self.restored(name, long=True): self.restored(each, long=True) for name, each in value.items()}
        return value


NUMBER = "a number"
JSON_NAMES = {dict: "an object", list: "a list", str: "a string", LongString: "a string", bool: "a boolean"}
JSON_NAMES |= {int: NUMBER, float: NUMBER, Decimal: NUMBER}


def without_bom(number: int, line: Line) -> Line:
    """The line without a mark of UTF-8, which only the first may have."""
    return line[len(BOM) :] if number == 1 and line.startswith(BOM) else line


def is_blank(number: int, line: Line) -> bool:
    """Whether there is nothing but white space."""
    content = without_bom(number, line)
    return not content or content.isspace()


def on_one_line(number: int, line: Line) -> Line:
    """The JSON value on one line: its line ends are only between tokens, so spaces replace them."""
    content = without_bom(number, line)
    at = content.find(END)
    if at >= 0 and at == len(content) - 1:
        return content
    return (content if at < 0 else content.replace(END, b" ")) + END


def json_type_name(value: object) -> str:
    """The name of a JSON value's type in messages."""
    return "null" if value is None else JSON_NAMES.get(type(value), type(value).__name__)


def is_plain(columns: Columns) -> bool:
    """Whether `plain_texts` may find all that is read: one field of text, and an id at most."""
    fields = [columns.text_column, *columns.others()]
    return columns.order is columns.copy_key is None and all(name is not None and "." not in name for name in fields)


def plain_records(lines: Sequence[Line]) -> list[Record] | None:
    """The objects of lines; None if one of them needs a `RecordReader`, as hardly any does.

    To read short lines one by one takes several times as long.
    """
    import orjson

    if len(lines) < FEW_LINES or max(map(len, lines)) > LARGE_LINE:
        return None
    try:
        records = list(map(orjson.loads, lines))
    except ValueError:
        return None
    return records if {dict}.issuperset(map(type, records)) else None


def plain_texts(records: Sequence[Record], columns: Columns) -> Rows | None:
    """The texts of records; None if a value needs a `RecordReader`."""
    (name,), id = columns.texts[0], columns.id
    texts = [record.get(name) for record in records]
    if (
        not {str, type(None)}.issuperset(map(type, texts))
        or (id is not None and not PLAIN_IDS.issuperset(type(record.get(id)) for record in records))
        or (columns.added and not all(map(columns.added.isdisjoint, records)))
    ):
        return None
    pieces = [b"" if text is None else text.encode() for text in texts]
    null = np.array([text is None for text in texts]) if None in texts else None
    return arrow_rows(binary_array(b"".join(pieces), offsets([*map(len, pieces)]), null))


class Lenient(Record):
    """An object that only Python's parser takes. It may contain invalid UTF-8."""


class RecordReader:
    """Reads the records of a file one after another: first `load`, then the values of that record."""

    def __init__(self, file: File, limit: Limit | None = None, depth: int = 1) -> None:
        import orjson

        self._file, self._limit, self._depth = file, limit, depth
        self._loads = orjson.loads  # imported once, not for each record
        self.number, self.record = 0, Record()
        self._line: Line = b""

    @property
    def place(self) -> str:
        """The line or element, in messages."""
        return f"{self._file.unit} {self.number}"

    def load(self, number: int, line: Line) -> Record:
        """The object of a line. Of a large one a long string is a LongString, in objects within one another down to
        the reader's `depth`.
        """
        self.number, self._line = number, line
        if len(line) <= LARGE_LINE:
            self.record = self._parsed(without_bom(number, line))
        else:
            large = self._large()
            self.record = _restored(large, self._parsed(large.short), self._depth)
        return self.record

    def clear(self) -> None:
        """Forget the record, which may be as large as a document may be."""
        self.record, self._line = {}, b""

    def whole(self, number: int, line: Line, *, exactly: bool = False) -> Record:
        """The object of a line with all strings. Long strings of a large line are bytes.

        Integers beyond 64 bits become floats unless it is read `exactly`.
        """
        self.number, self._line = number, line
        parse = self._parsed_exactly if exactly else self._parsed
        if len(line) <= LARGE_LINE:
            found = parse(without_bom(number, line))
            return dict(found) if isinstance(found, Lenient) else found
        large = self._large()
        fields = parse(large.short).items()
        found = {large.restored(name, long=True): large.restored(value) for name, value in fields}
        self.clear()
        return {name: b"".join(of.pieces()) if isinstance(of, LongString) else of for name, of in found.items()}

    def has_field(self, place: FieldPath, columns: Columns) -> bool:
        """Whether a value of one of the `columns` is there, null or not."""
        if place not in columns.texts:
            place = field_named(place[0], self.record)
        above = _value(self.record, place[:-1])
        return isinstance(above, dict) and place[-1] in above

    def exact_value(self, column: str) -> object:
        """A field of the record, with the integers of the line."""
        # Python's parser makes no floats of integers beyond 64 bits, and is asked where orjson may have done so.
        value = _field(self.record, column)
        if isinstance(value, (dict, list)) or (isinstance(value, float) and abs(value) >= 2**63):
            whole = RecordReader(self._file).whole(self.number, self._line, exactly=True)
            value = _field(whole, column)
        return value.text() if isinstance(value, LongString) else value

    def id(self, column: str) -> object:
        """The value to write again; a DamagedInputError if it is nested too deeply for that."""
        value = self.exact_value(column)
        if isinstance(value, str):
            return value if value.isascii() else text_bytes(value).decode()
        if isinstance(value, (dict, list)):
            try:
                json.dumps(value, default=str)
            except RecursionError as error:
                raise self._too_deep(f": {column!r}") from error
        return value

    def copy_key(self, column: str, option: str) -> str | int | None:
        """The value that `option` compares; InputTypeError for another than a string, an integer or null."""
        value = self.exact_value(column)
        if value is None or (isinstance(value, (str, int)) and not isinstance(value, bool)):
            return value
        detail = f"{column!r} is {json_type_name(value)}; {option} takes a string, an integer or null"
        raise InputTypeError(f"{self._file.name}: {self.place}: {detail}")

    def values(self, columns: Columns) -> RecordValues:
        """The values of the columns in the record."""
        if len(columns.texts) == 1:  # as nearly always: this is done for each record
            text = self._text(columns.texts[0])
        else:
            found = [each for each in map(self._text, columns.texts) if each is not None]
            text = SEPARATOR.join(found) if len(found) > 1 else found[0] if found else None
        if columns.id is not None:
            self.id(columns.id)
        order = None if columns.order is None else self.exact_value(columns.order)
        copy_key = None if columns.copy_key is None else self.copy_key(columns.copy_key, columns.copy_key_option)
        if text is not None and self._limit is not None and len(text) > self._limit.document:
            raise too_large(self._file, self.place, len(text), self._limit)
        return text, order, copy_key

    def _text(self, place: FieldPath) -> Bytes | None:
        value: object = self.record.get(place[0])
        for depth, name in enumerate(place[1:], 1):
            if value is None:
                return None
            if not isinstance(value, dict):
                detail = f"{'.'.join(place[:depth])!r} is {json_type_name(value)}; give an object or null"
                raise InputTypeError(f"{self._file.name}: {self.place}: {detail}")
            value = value.get(name)
        if isinstance(value, str):
            return text_bytes(value)
        if isinstance(value, LongString):
            return self._long_text(value)
        if value is None or value != value:  # NaN means null, as in memory
            return None
        detail = f"{'.'.join(place)!r} is {json_type_name(value)}; give a string or null"
        raise InputTypeError(f"{self._file.name}: {self.place}: {detail}")

    def _long_text(self, value: LongString) -> Bytes:
        pieces = value.pieces()
        text, more = next(pieces), next(pieces, None)
        if more is None:
            return text
        whole, limit = bytearray(text), self._limit
        for piece in chain([more], pieces):
            whole += piece
            if limit is not None and len(whole) > limit.document:  # bytes that are not UTF-8 become three each
                raise too_large(self._file, self.place, len(whole) + sum(map(len, pieces)), limit)
        return memoryview(whole)

    def _large(self) -> LargeObject:
        # Memory holds the line, the parsed values, and if the line is all text, a copy of it.
        held, limit = len(self._line), self._limit
        most = None if limit is None else max(PARSE_COPIES * limit.document - held, 0) + PARSED_BYTES
        try:
            return LargeObject(without_bom(self.number, self._line), most)
        except CostError as error:
            assert limit is not None
            allowed = PARSE_COPIES * limit.document
            raise too_costly(self._file, self.place, held + error.size, allowed, limit) from None
        except ValueError as error:
            raise self._invalid_json(str(error)) from error

    def _parsed(self, content: Line) -> Record:
        try:
            record = self._loads(content)
        except (ValueError, RecursionError):
            # Python's parser also takes what some programs write: NaN, lone surrogates. Invalid UTF-8 becomes U+FFFD.
            try:
                record = _parse(content)
                record = Lenient(record) if isinstance(record, dict) else record
            except RecursionError as error:
                raise self._too_deep() from error
            except ValueError as error:
                # Behind "at" Python's own message has a place.
                detail = getattr(error, "msg", str(error)).removesuffix(" at").removesuffix(" starting")
                raise self._invalid_json(detail) from error
        if not isinstance(record, dict):
            detail = f"{self.place} is {json_type_name(record)}; give one JSON object for each {self._file.unit}"
            raise DamagedInputError(f"{self._file.name}: {detail}")
        return record

    def _parsed_exactly(self, content: Line) -> Record:
        try:
            found: Record = _parse(content)
            return found
        except RecursionError as error:  # orjson allows deeper nesting
            raise self._too_deep() from error

    def _invalid_json(self, detail: str) -> DamagedInputError:
        if self.number == 1 and self._line.startswith(UTF16):
            return utf16_file(self._file)
        detail = f"{self.place} is not JSON: {detail}; give one JSON object for each {self._file.unit}"
        if self._file.copied and self.number == 1 and self._line[:1] not in (b"{", b"["):  # of an unknown format
            detail += ", or --lines for text"
        return DamagedInputError(f"{self._file.name}: {detail}")

    def _too_deep(self, what: str = "") -> DamagedInputError:
        return DamagedInputError(f"{self._file.name}: {self.place}{what} is nested too deeply; flatten it")


def _restored(large: LargeObject, record: Record, depth: int) -> Record:
    found = {name: large.restored(value) if isinstance(value, str) else value for name, value in record.items()}
    if depth > 1:
        found |= {name: _restored(large, of, depth - 1) for name, of in found.items() if isinstance(of, dict)}
    return found


def _parse(content: Line) -> Any:
    text = content.decode("utf-8", "replace")
    names = _with_whole_names if "\\u" in text else None  # otherwise no name has half of a surrogate pair
    try:
        return json.loads(text, object_pairs_hook=names)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of more digits than Python converts
        return json.loads(text, parse_int=_integer, object_pairs_hook=names)


def _with_whole_names(fields: list[tuple[str, Any]]) -> Record:
    return {text_bytes(name).decode(): value for name, value in fields}


def _integer(digits: str) -> int | Decimal:
    try:
        return int(digits)
    except ValueError:
        return Decimal(digits)


def _field(record: Record, column: str) -> object:
    value = record.get(column)
    return value if value is not None or "." not in column else _value(record, field_named(column, record))


def _value(record: Record, place: FieldPath) -> object:
    value: object = record
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    return value
