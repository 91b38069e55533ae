"""A record of JSON: from its line, or element, to an object, its text and its id. Errors name file and line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from gpulsh.errors import DamagedInputError, InputTypeError
from gpulsh.io.columns import BETWEEN, Columns, Place, place_named
from gpulsh.io.file import File
from gpulsh.io.formats.large_object import LargeObject, LongString
from gpulsh.io.formats.lines import END, LARGE_LINE, Line
from gpulsh.io.formats.streamed import UTF16, utf16
from gpulsh.io.limits import CostError, Limit, too_costly, too_large
from gpulsh.io.rows import Bytes

PARSE_COPIES = 2  # of the largest document that a line and what is made of it may take
PARSED_BYTES = 8 << 20  # that a line's other fields may take beside the largest text
BLANK = re.compile(rb"\s*+\Z")
BOM = b"\xef\xbb\xbf"
JSON_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    LongString: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    Decimal: "a number",
}

Record = dict[str, Any]  # an object as it is parsed
Parse = Callable[[File, int, Line], Record]  # of a record's number and content


def _begin(number: int, line: Line) -> int:
    return len(BOM) if number == 1 and line.startswith(BOM) else 0


def content_of(number: int, line: Line) -> Line:
    """The line without a mark of UTF-8, which only the first may have."""
    begin = _begin(number, line)
    return line[begin:] if begin else line


def is_blank(number: int, line: Line) -> bool:
    """Whether there is nothing but white space."""
    begin = _begin(number, line)
    return not line or line.isspace() if not begin else BLANK.match(line, begin) is not None


def parsed(file: File, number: int, line: Line, limit: Limit | None = None, depth: int = 1) -> Record:
    """The line's object. Of a large one a long string is a LongString, in objects
    within one another down to `depth`.
    """
    if len(line) <= LARGE_LINE:
        return parse(file, number, content_of(number, line))
    large = _large(file, number, line, limit)
    return _restored(large, parse(file, number, large.short), depth)


def whole_record(file: File, number: int, line: Line, limit: Limit | None, parsing: Parse) -> Record:
    """The line's object with all strings, of which the long ones of a large one are bytes."""
    if len(line) <= LARGE_LINE:
        found = parsing(file, number, content_of(number, line))
        return dict(found) if isinstance(found, Lenient) else found
    large = _large(file, number, line, limit)
    found = {name: large.restored(value) for name, value in parsing(file, number, large.short).items()}
    return {name: b"".join(of.pieces()) if isinstance(of, LongString) else of for name, of in found.items()}


def _restored(large: LargeObject, record: Record, depth: int) -> Record:
    found = {name: large.restored(value) if isinstance(value, str) else value for name, value in record.items()}
    if depth > 1:
        found |= {name: _restored(large, of, depth - 1) for name, of in found.items() if isinstance(of, dict)}
    return found


def _large(file: File, number: int, line: Line, limit: Limit | None) -> LargeObject:
    # The line is held beside what is made of it, and where it is all text, a copy of that.
    held = len(line)
    most = None if limit is None else max(PARSE_COPIES * limit.document - held, 0) + PARSED_BYTES
    try:
        return LargeObject(line, _begin(number, line), most)
    except CostError as error:
        assert limit is not None
        raise too_costly(
            file, f"{file.unit} {number}", held + error.size, PARSE_COPIES * limit.document, limit
        ) from None
    except ValueError as error:
        raise _no_json(file, number, line, str(error)) from error


class Lenient(Record):
    """What Python's parser takes and JSON does not allow: bytes that are not UTF-8 may be in it."""


def parse(file: File, number: int, content: Line) -> Record:
    """The object of a short line; integers beyond 64 bits become floats."""
    import orjson

    try:
        record = orjson.loads(content)
    except (ValueError, RecursionError):
        # Python's parser also takes what others write: NaN, lone surrogates; bytes that are no UTF-8 become U+FFFD.
        try:
            record = _loaded(content)
            record = Lenient(record) if isinstance(record, dict) else record
        except RecursionError as error:
            raise _too_deep(file, number) from error
        except ValueError as error:
            # Behind "at" Python's own message has a place.
            told = getattr(error, "msg", str(error)).removesuffix(" at").removesuffix(" starting")
            raise _no_json(file, number, content, told) from error
    if not isinstance(record, dict):
        raise DamagedInputError(
            f"{file.name}: {file.unit} {number} is {kind_of(record)}; give one JSON object for each {file.unit}"
        )
    return record


def _no_json(file: File, number: int, line: Line, told: str) -> DamagedInputError:
    if number == 1 and line.startswith(UTF16):
        return utf16(file)
    return DamagedInputError(
        f"{file.name}: {file.unit} {number} is not JSON: {told}; give one JSON object for each {file.unit}"
    )


def parse_exactly(file: File, number: int, content: Line) -> Record:
    """As `parse`, but integers are those that stand there, however many digits they have."""
    try:
        found: Record = _loaded(content)
        return found
    except RecursionError as error:  # orjson goes deeper
        raise _too_deep(file, number) from error


def on_one_line(content: Line) -> Line:
    """The same JSON on a line of its own: ends of lines can only stand between tokens."""
    at = content.find(END)
    if at >= 0 and at == len(content) - 1:
        return content
    return (content if at < 0 else content.replace(END, b" ")) + END


def _too_deep(file: File, number: int, what: str = "") -> DamagedInputError:
    return DamagedInputError(f"{file.name}: {file.unit} {number}{what} is nested too deeply; flatten it")


def _loaded(content: Line) -> Any:
    text = content.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of more digits than Python converts
        return json.loads(text, parse_int=_integer)


def _integer(digits: str) -> int | Decimal:
    try:
        return int(digits)
    except ValueError:
        return Decimal(digits)


def exact_value(file: File, record: Record, column: str, number: int, line: Line) -> object:
    """A field of the record, integers as they stand in the line."""
    # Python's parser makes no floats of integers beyond 64 bits, and is asked where orjson may have done so.
    value = _field(record, column)
    if isinstance(value, (dict, list)) or (isinstance(value, float) and abs(value) >= 2**63):
        try:
            if len(line) <= LARGE_LINE:
                return _field(_loaded(content_of(number, line)), column)
            large = LargeObject(line, _begin(number, line), None)
            return large.restored(_field(_loaded(large.short), column), long=True)
        except RecursionError as error:  # orjson goes deeper
            raise _too_deep(file, number) from error
    return value.text() if isinstance(value, LongString) else value


def id_value(file: File, record: Record, column: str, number: int, line: Line) -> object:
    """The value as it is written again; a DamagedInputError where no UTF-8 can hold it."""
    value = exact_value(file, record, column, number, line)
    try:
        if isinstance(value, str):
            value.encode()
        elif isinstance(value, (dict, list)):
            json.dumps(value, default=str)
    except UnicodeEncodeError as error:
        raise DamagedInputError(
            f"{file.name}: {file.unit} {number}: {column!r} holds half of a surrogate pair; give text that"
            " UTF-8 can hold"
        ) from error
    except RecursionError as error:
        raise _too_deep(file, number, f": {column!r}") from error
    return value


def is_there(record: Record, place: Place, columns: Columns) -> bool:
    """Whether a value of one of the `columns` stands there, null or not."""
    if place not in columns.texts:
        place = place_named(place[0], record)
    above = _value(record, place[:-1])
    return isinstance(above, dict) and place[-1] in above


def _field(record: Record, column: str) -> object:
    value = record.get(column)
    return value if value is not None or "." not in column else _value(record, place_named(column, record))


def _value(record: Record, place: Place) -> object:
    value: object = record
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text_of(file: File, number: int, columns: Columns, record: Record, limit: Limit | None) -> Bytes | None:
    """The text of a record."""
    if len(columns.texts) == 1:  # as nearly always: this is done for each record
        return _text(file, number, columns.texts[0], record, limit)
    texts = [_text(file, number, place, record, limit) for place in columns.texts]
    found = [text for text in texts if text is not None]
    return BETWEEN.join(found) if len(found) > 1 else found[0] if found else None


def _text(file: File, number: int, place: Place, record: Record, limit: Limit | None) -> Bytes | None:
    value: object = record.get(place[0])
    for depth, name in enumerate(place[1:], 1):
        if value is None:
            return None
        if not isinstance(value, dict):
            inner = ".".join(place[:depth])
            raise InputTypeError(
                f"{file.name}: {file.unit} {number}: {inner!r} is {kind_of(value)}; give an object or null"
            )
        value = value.get(name)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, LongString):
        return _long_text(file, number, value, limit)
    if value is None or value != value:  # NaN stands for null, as it does in memory
        return None
    raise InputTypeError(
        f"{file.name}: {file.unit} {number}: {'.'.join(place)!r} is {kind_of(value)}; give a string or null"
    )


def _long_text(file: File, number: int, value: LongString, limit: Limit | None) -> Bytes:
    pieces = value.pieces()
    text = next(pieces)
    if len(text) == value.end - value.begin:
        return text
    whole = bytearray(text)
    for piece in pieces:
        whole += piece
        if limit is not None and len(whole) > limit.document:  # bytes that are no UTF-8 become three each
            raise too_large(file, f"{file.unit} {number}", len(whole) + sum(map(len, pieces)), limit)
    return memoryview(whole)


def kind_of(value: object) -> str:
    """What a value of JSON is called in messages."""
    return "null" if value is None else JSON_NAMES.get(type(value), type(value).__name__)
