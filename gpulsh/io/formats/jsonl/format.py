"""JSON lines: split here, not by a parser, so that messages name lines and kept lines are copied byte for byte."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, BinaryIO, Unpack

import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.errors import DamagedInputError, InputError, InputTypeError, LargeDocumentError
from gpulsh.io.arrow.ids import json_texts
from gpulsh.io.compression.members import PLAIN_STEP
from gpulsh.io.compression.streams import IntactBlocks, Sink, blocks
from gpulsh.io.compression.zstd import Window, WindowError
from gpulsh.io.format import (
    BETWEEN,
    COPIES,
    STRICT,
    Block,
    Columns,
    CostError,
    File,
    Limit,
    Mask,
    Place,
    Rejection,
    Rules,
    Writing,
    check_values_fit,
    missing_column,
    reading,
    reason,
    too_costly,
    too_large,
    wrong_length,
)
from gpulsh.io.formats.jsonl.blank_lines import BlankLines
from gpulsh.io.formats.jsonl.large_object import LargeObject, Line, LongString
from gpulsh.io.formats.keys import Key, key_of, typed_keys
from gpulsh.io.formats.streamed import Streamed, window_too_large
from gpulsh.io.formats.whole_lines import LongLineError, whole_lines
from gpulsh.io.rows import Bytes, piece_rows

LARGE_LINE = 1 << 20  # bytes of a line from which on it is parsed in little memory
CHECKED_LINE = 1 << 20  # bytes of the first line up to which it is looked at before the work begins
PARSE_COPIES = 2  # of the largest document that a line and what is made of it may take
PARSED_BYTES = 8 << 20  # that a line's other fields may take beside the largest text

Group = tuple[Iterator[tuple[int, Line]], bytes]
Lost = Callable[[str], None]
Record = dict[str, Any]  # an object as it is parsed


def nothing_lost(told: str) -> None:
    """Told of what is passed over, where nobody asks."""


MOST_REJECTED = 1 << 14  # lines of a block
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
}


class JsonLines(Streamed):
    """Files whose rows are the lines that are not blank."""

    def check(self, file: File, columns: Columns) -> int | None:
        """Check that the file opens and that its first line is a record."""
        small = Limit(COPIES * CHECKED_LINE)  # a longer line is met by the pass in order
        with reading(file), file.open() as source, contextlib.suppress(LargeDocumentError):
            told = self._looked_at(file, source, small)
            for first in chain.from_iterable(lines for lines, _ in self._groups(told, source, small)):
                _parsed(told, *first)
                break
        return self._size(file)

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """A block of the stream at a time. A column that no line has is missing."""
        missing = set() if wanted is not None else set(columns.places())
        first: list[str] = []
        depth = max(map(len, columns.texts))
        row = records = 0
        window = Window() if rules.limit is None else Window(rules.limit.document)
        damage: list[Rejection] = []

        def lost(told: str) -> None:
            damage.append(Rejection(row, 0, "row", row, told))

        with reading(file), file.open() as source:
            file = self._looked_at(file, source, rules.limit)
            for lines, _ in self._groups(file, source, rules.limit, window, lost):
                start = row
                texts: list[Bytes | None] = []
                keys: list[Key] = []
                rejected, damage = damage, []
                for number, line in lines:
                    text = key = sorted_by = None
                    if wanted is None or (row < len(wanted) and wanted[row]):
                        try:
                            record = _parsed(file, number, line, rules.limit, window.size, depth)
                            if missing:
                                missing = {place for place in missing if not _is_there(record, place)}
                                first = first or list(record)
                            records += 1
                            text = _joined(file, number, columns, record, rules.limit)
                            if wanted is None and columns.id is not None:
                                _id(file, record, columns.id, number, line)
                            if wanted is None and columns.key is not None:
                                sorted_by = _exact(file, record, columns.key, number, line)
                        except (DamagedInputError, InputTypeError) as error:
                            if not rules.skip:
                                raise
                            text = None
                            rejected.append(_rejection(file, row, number, error))
                        else:
                            if columns.key is not None and wanted is None:
                                key = key_of(file, number, columns.key, sorted_by, _kind(sorted_by))
                        if text is not None and rules.limit is not None and len(text) > rules.limit.document:
                            raise too_large(file, f"{file.unit} {number}", len(text), rules.limit)
                    texts.append(text)
                    keys.append(key)
                    row += 1
                    record = {}
                    del line, text  # each may be as large as a document may be
                    if len(rejected) == MOST_REJECTED:
                        yield _block(start, texts, keys, columns, rejected)
                        start, texts, keys, rejected = row, [], [], []
                yield _block(start, texts, keys, columns, rejected)
                del texts, keys, rejected
        if records and missing:
            raise missing_column(file, next(place for place in columns.places() if place in missing), columns, first)

    def values(self, file: File, column: str, rows: Numbers, limit: Limit | None = None) -> pa.Array:
        """The field at `rows` in its JSON type; where that is several types, objects or lists, each as JSON text."""
        found: list[object] = []
        held = 0
        wanted = iter(rows.tolist())
        sought = next(wanted, None)
        with reading(file), file.open() as source:
            file = self._looked_at(file, source, limit)
            records = chain.from_iterable(lines for lines, _ in self._groups(file, source))
            for row, (number, line) in enumerate(records):
                if sought is None:
                    break
                if row == sought:
                    found.append(_id(file, _parsed(file, number, line), column, number, line))
                    held += len(found[-1]) if isinstance(found[-1], (str, dict, list)) else 8
                    check_values_fit(file, column, held, len(found), len(rows), limit)
                    sought = next(wanted, None)
        if len(found) != len(rows):
            raise wrong_length(file)
        # One Arrow type for several objects would give each the fields of all.
        if not any(isinstance(value, (dict, list)) for value in found):
            try:
                return pa.array(found)
            except (pa.ArrowException, OverflowError, UnicodeError):
                pass
        return json_texts(found)

    def write_kept(self, file: File, keep: Mask, target: str, **how: Unpack[Writing]) -> None:
        """Kept lines as they are, in the same compression."""
        row = 0
        with reading(file):
            source = file.open()
        with source, self._writer(file, target, how.get("packing")) as out:
            with reading(file):
                file = self._looked_at(file, source, how.get("limit"))
            layout = self._layout(file, out)
            try:
                for lines, end in self._groups(file, source):
                    kept: list[Line] = []
                    for _, line in lines:
                        if row < len(keep) and keep[row]:
                            kept.append(line)
                        row += 1
                    if kept:
                        layout.write(kept, end)
                    kept.clear()
            except DamagedInputError:
                if row != len(keep):  # otherwise behind the last row that is known
                    raise
            layout.close()
        if row != len(keep):
            raise wrong_length(file)

    def _looked_at(self, file: File, source: BinaryIO, limit: Limit | None) -> File:
        """The file as messages are to tell of it; what was read of `source` is read again."""
        return file

    def _layout(self, file: File, out: Sink) -> Layout:
        return Layout(out)

    def _groups(
        self,
        file: File,
        source: BinaryIO,
        limit: Limit | None = None,
        window: Window | None = None,
        lost: Lost = nothing_lost,
    ) -> Iterator[Group]:
        """The rows with their lines' numbers, as they stand in the file, and the end of the group's last line.

        Of a file that is `intact_only`, `lost` is told of each stretch that is passed over, and so much of the lines at
        its ends: what is left of a line is never a JSON object, and an object there is a whole line.
        """
        most = None if limit is None else limit.document
        number, start = 1, 0
        with reading(file):
            while True:
                intact = None
                if file.intact_only and self.compression:
                    intact = IntactBlocks(source, self.compression, start, window)
                filled = BlankLines(intact or blocks(source, self.compression, window))
                cut = start > 0
                try:
                    for lines, end in split_lines(filled, most):
                        count = len(lines)
                        if cut:
                            lines[0], cut = _unless_cut(file, number + filled.left_out, lines[0]), False
                        if not end and intact and intact.damaged:
                            lines[-1], end = _unless_cut(file, number + filled.left_out, lines[-1]), b"\n"
                        yield _rows(lines, number + filled.left_out), end
                        number += count
                        del lines
                except LongLineError as error:
                    assert limit is not None
                    place = f"line {number + filled.left_out + error.place}"
                    raise too_large(file, place, error.size(), limit) from None
                except WindowError as error:
                    assert limit is not None
                    raise window_too_large(file, error, limit) from None
                number += filled.left_out
                if intact is None or intact.damaged is None:
                    return
                lost(f"{intact.damaged}; nothing up to {'the end' if intact.next is None else intact.next} is read")
                yield iter(()), b""
                if intact.next is None:
                    return
                start = intact.next


class Layout:
    """How kept records are put: lines, of which a group's last ends as it did."""

    def __init__(self, out: Sink) -> None:
        self._out = out

    def write(self, kept: list[Line], end: bytes) -> None:
        """More of them, in order."""
        write_lines(self._out, kept, end)

    def close(self) -> None:
        """No more come."""


def _rejection(file: File, row: int, number: int, error: InputError) -> Rejection:
    told = reason(file, error)
    return Rejection(row, 1, "line", number, told) if file.unit == "line" else Rejection(row, 1, "row", row, told)


def _block(
    start: int, texts: list[Bytes | None], keys: list[Key], columns: Columns, rejected: list[Rejection]
) -> Block:
    return Block(start, piece_rows(texts), typed_keys(keys) if columns.key is not None else None, tuple(rejected))


def _unless_cut(file: File, number: int, line: Line) -> Line:
    """The line, or nothing where damage cut it."""
    try:
        if not _blank(number, line):
            _parsed(file, number, line)
    except DamagedInputError:
        return b""
    return line


def _rows(lines: list[Line], number: int) -> Iterator[tuple[int, Line]]:
    """The lines that are not blank, numbered from `number`. Each leaves `lines` as it is handed out."""
    lines.reverse()
    while lines:
        if lines[-1] and not _blank(number, lines[-1]):
            yield number, lines.pop()
        else:
            lines.pop()
        number += 1


def split_lines(source: Iterable[bytes], most: int | None = None) -> Iterator[tuple[list[Line], bytes]]:
    """Groups of lines without their ends, and the end of a group's last line: a newline, or nothing at the file's end.

    A line of more than `most` bytes is a LongLineError.

    >>> list(split_lines([b"a\\nb", b"c\\n", b"d"]))
    [([b'a'], b'\\n'), ([b'bc'], b'\\n'), ([b'd'], b'')]
    """
    for begun, block in whole_lines(source, most):
        lines, end = list[Line](block.split(b"\n")), b"\n"
        lines.pop()  # what is behind the last end: nothing
        if begun:
            if begun.endswith(b"\n"):
                del begun[-1]
            else:
                end = b""
            lines.insert(0, begun if len(begun) > LARGE_LINE else bytes(begun))
        if most is not None and (longest := max(map(len, lines))) > most:
            raise LongLineError(longest, place=list(map(len, lines)).index(longest))
        del begun, block
        yield lines, end
        lines = []


def write_lines(out: Sink, lines: list[Line], end: bytes) -> None:
    """Write lines with their ends, all at once; a long one in pieces, because a copy of it would be as large."""
    if all(isinstance(line, bytes) for line in lines):
        out.write(b"\n".join(lines) + end)
        return
    for place, line in enumerate(lines):
        for start in range(0, len(line), PLAIN_STEP):
            out.write(bytes(memoryview(line)[start : start + PLAIN_STEP]))
        out.write(b"\n" if place < len(lines) - 1 else end)


def _begin(number: int, line: Line) -> int:
    return len(BOM) if number == 1 and line.startswith(BOM) else 0


def _content(number: int, line: Line) -> Line:
    begin = _begin(number, line)
    return line[begin:] if begin else line


def _blank(number: int, line: Line) -> bool:
    begin = _begin(number, line)
    return not line or line.isspace() if not begin else BLANK.match(line, begin) is not None


def _parsed(file: File, number: int, line: Line, limit: Limit | None = None, held: int = 0, depth: int = 1) -> Record:
    """The line's object; `held` bytes are taken beside it. Of a large one a long string is a LongString, in objects
    within one another down to `depth`.
    """
    if len(line) <= LARGE_LINE:
        return _object(file, number, _content(number, line))
    large = _large(file, number, line, limit, held)
    return _restored(large, _object(file, number, large.short), depth)


def _restored(large: LargeObject, record: Record, depth: int) -> Record:
    found = {name: large.restored(value) if isinstance(value, str) else value for name, value in record.items()}
    if depth > 1:
        found |= {name: _restored(large, of, depth - 1) for name, of in found.items() if isinstance(of, dict)}
    return found


def _large(file: File, number: int, line: Line, limit: Limit | None, held: int) -> LargeObject:
    # The line is held beside what is made of it, and where it is all text, a copy of that.
    held += len(line)
    most = None if limit is None else max(PARSE_COPIES * limit.document - held, 0) + PARSED_BYTES
    try:
        return LargeObject(line, _begin(number, line), most)
    except CostError as error:
        assert limit is not None
        raise too_costly(
            file, f"{file.unit} {number}", held + error.size, PARSE_COPIES * limit.document, limit
        ) from None
    except ValueError as error:
        raise DamagedInputError(
            f"{file.name}: {file.unit} {number} is not JSON: {error}; give one JSON object for each {file.unit}"
        ) from error


def _object(file: File, number: int, content: Line) -> Record:
    import orjson

    try:
        record = orjson.loads(content)
    except (ValueError, RecursionError):
        # Python's parser also takes what others write: NaN, lone surrogates; bytes that are no UTF-8 become U+FFFD.
        try:
            record = _loaded(content)
        except (ValueError, RecursionError) as error:
            told = getattr(error, "msg", str(error))
            raise DamagedInputError(
                f"{file.name}: {file.unit} {number} is not JSON: {told}; give one JSON object for each {file.unit}"
            ) from error
    if not isinstance(record, dict):
        raise DamagedInputError(
            f"{file.name}: {file.unit} {number} is {_kind(record)}; give one JSON object for each {file.unit}"
        )
    return record


def _loaded(content: Line) -> Any:
    return json.loads(content.decode("utf-8", "replace"))


def _exact(file: File, record: Record, column: str, number: int, line: Line) -> Any:
    # orjson makes floats of integers beyond 64 bits. Python's parser does not, and is asked where that may have been.
    value = record.get(column)
    if isinstance(value, (dict, list)) or (isinstance(value, float) and abs(value) >= 2**63):
        try:
            if len(line) <= LARGE_LINE:
                return _loaded(_content(number, line))[column]
            large = LargeObject(line, _begin(number, line), None)
            return large.restored(_loaded(large.short)[column], long=True)
        except RecursionError as error:  # orjson goes deeper
            raise DamagedInputError(f"{file.name}: {file.unit} {number} is nested too deeply; flatten it") from error
    return value.text() if isinstance(value, LongString) else value


def _id(file: File, record: Record, column: str, number: int, line: Line) -> Any:
    """The value as it is written again; a DamagedInputError where no UTF-8 can hold it."""
    value = _exact(file, record, column, number, line)
    try:
        if isinstance(value, str):
            value.encode()
        elif isinstance(value, (dict, list)):
            json.dumps(value)
    except UnicodeEncodeError as error:
        raise DamagedInputError(
            f"{file.name}: {file.unit} {number}: {column!r} holds half of a surrogate pair; give text that"
            " UTF-8 can hold"
        ) from error
    except RecursionError as error:
        raise DamagedInputError(
            f"{file.name}: {file.unit} {number}: {column!r} is nested too deeply; flatten it"
        ) from error
    return value


def _is_there(record: Record, place: Place) -> bool:
    """Whether a value stands there, null or not."""
    *above, name = place
    value: object = record
    for field in above:
        value = value.get(field) if isinstance(value, dict) else None
    return isinstance(value, dict) and name in value


def _joined(file: File, number: int, columns: Columns, record: Record, limit: Limit | None) -> Bytes | None:
    """The text of a record."""
    if len(columns.texts) == 1:  # as nearly always: this is done for each record
        return _text(file, number, columns.texts[0], record, limit)
    texts = [_text(file, number, place, record, limit) for place in columns.texts]
    found = [text for text in texts if text is not None]
    return BETWEEN.join(found) if len(found) > 1 else found[0] if found else None


def _text(file: File, number: int, place: Place, record: Record, limit: Limit | None) -> Bytes | None:
    value: Any = record.get(place[0])
    for depth, name in enumerate(place[1:], 1):
        if value is None:
            return None
        if not isinstance(value, dict):
            inner = ".".join(place[:depth])
            raise InputTypeError(
                f"{file.name}: {file.unit} {number}: {inner!r} is {_kind(value)}; give an object or null"
            )
        value = value.get(name)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, LongString):
        return _long_text(file, number, value, limit)
    if value is None or value != value:  # NaN stands for null, as it does in memory
        return None
    raise InputTypeError(
        f"{file.name}: {file.unit} {number}: {'.'.join(place)!r} is {_kind(value)}; give a string or null"
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


def _kind(value: object) -> str:
    return "null" if value is None else JSON_NAMES.get(type(value), type(value).__name__)
