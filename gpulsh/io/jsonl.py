"""JSON lines: split here, not by a parser, so that messages name lines and kept lines are copied byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.errors import DamagedInputError, InputError, InputTypeError
from gpulsh.io.compression import Compression, blocks, packed_writer
from gpulsh.io.format import (
    Block,
    Columns,
    File,
    Mask,
    Rejection,
    missing_column,
    reading,
    reason,
    wrong_length,
)
from gpulsh.io.rows import piece_rows

BOM = b"\xef\xbb\xbf"
JSON_NAMES = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


class JsonLines:
    """A `gpulsh.io.format.Format`. A row is a line that is not blank."""

    def __init__(self, compression: Compression) -> None:
        self._compression = compression

    def check(self, file: File, columns: Columns) -> int | None:
        """That it opens and its first line is a record."""
        with reading(file):
            for number, line in self._records(file):
                _parsed(file, number, line)
                break
            return None if self._compression else file.size()

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, *, skip: bool = False) -> Iterator[Block]:
        """A block of the stream at a time. The file lacks a column that no line has."""
        missing = set() if wanted is not None else set(columns.names())
        first: list[str] = []
        row = records = 0
        with reading(file):
            for lines, _ in self._groups(file):
                start = row
                texts: list[bytes | None] = []
                keys: list[int | float | None] = []
                rejected: list[Rejection] = []
                for number, line in lines:
                    text = key = None
                    if wanted is None or (row < len(wanted) and wanted[row]):
                        try:
                            record = _parsed(file, number, line)
                            if missing:
                                missing.difference_update(record)
                                first = first or list(record)
                            records += 1
                            text = _text(file, number, columns.text, record.get(columns.text))
                        except (DamagedInputError, InputTypeError) as error:
                            if not skip:
                                raise
                            rejected.append(Rejection(row, 1, "line", number, reason(file, error)))
                        else:
                            if columns.key is not None and wanted is None:
                                key = _key(file, number, columns.key, _exact(record, columns.key, number, line))
                    texts.append(text)
                    keys.append(key)
                    row += 1
                typed = _typed(keys) if columns.key is not None else None
                yield Block(start, piece_rows(texts), typed, tuple(rejected))
        if records and missing:
            raise missing_column(file, next(name for name in columns.names() if name in missing), first)

    def kind(self, file: File, column: str) -> Any:
        """None: each line may be of another type."""
        return None

    def values(self, file: File, column: str, rows: NDArray[np.int64]) -> Any:
        """The field at `rows` in its JSON type; where that is several types, objects or lists, each as JSON text."""
        found: list[Any] = []
        wanted = iter(rows.tolist())
        sought = next(wanted, None)
        with reading(file):
            for row, (number, line) in enumerate(self._records(file)):
                if sought is None:
                    break
                if row == sought:
                    found.append(_exact(_parsed(file, number, line), column, number, line))
                    sought = next(wanted, None)
        if len(found) != len(rows):
            raise wrong_length(file)
        # One Arrow type for several objects would give each the fields of all.
        if not any(isinstance(value, (dict, list)) for value in found):
            try:
                return pa.array(found)
            except (pa.ArrowException, OverflowError, UnicodeError):
                pass
        return pa.array([_json_text(value) for value in found], pa.string())

    def write_kept(self, file: File, keep: Mask, target: str) -> None:
        """Kept lines as they are, in the same compression."""
        row = 0
        with packed_writer(target, self._compression) as out:
            try:
                for lines, end in self._groups(file):
                    kept = []
                    for _, line in lines:
                        if row < len(keep) and keep[row]:
                            kept.append(line)
                        row += 1
                    if kept:
                        out.write(b"\n".join(kept) + end)
            except DamagedInputError:
                if row != len(keep):  # otherwise behind the last row that is known
                    raise
        if row != len(keep):
            raise wrong_length(file)

    def _groups(self, file: File) -> Iterator[tuple[Iterator[tuple[int, bytes]], bytes]]:
        # The rows with their lines' numbers, as they stand in the file, and the end of the group's last line.
        number = 1
        with reading(file), file.open() as source:
            for lines, end in split_lines(blocks(source, self._compression)):
                yield ((place, line) for place, line in enumerate(lines, number) if not _blank(place, line)), end
                number += len(lines)

    def _records(self, file: File) -> Iterator[tuple[int, bytes]]:
        for lines, _ in self._groups(file):
            yield from lines


def split_lines(source: Iterable[bytes]) -> Iterator[tuple[list[bytes], bytes]]:
    """Groups of lines without their ends, and the end of a group's last line: a newline, or nothing at the file's end.

    >>> list(split_lines([b"a\\nb", b"c\\n", b"d"]))
    [([b'a'], b'\\n'), ([b'bc'], b'\\n'), ([b'd'], b'')]
    """
    tail: list[bytes] = []  # of a line that is longer than a block; joined once, so that a long line costs its length
    for block in source:
        lines = block.split(b"\n")
        if len(lines) == 1:
            tail.append(block)
            continue
        lines[0] = b"".join([*tail, lines[0]])
        tail = [lines.pop()]
        yield lines, b"\n"
    if last := b"".join(tail):
        yield [last], b""


def _content(number: int, line: bytes) -> bytes:
    return line.removeprefix(BOM) if number == 1 else line


def _blank(number: int, line: bytes) -> bool:
    content = _content(number, line)
    return not content or content.isspace()


def _parsed(file: File, number: int, line: bytes) -> dict[str, Any]:
    import orjson

    content = _content(number, line)
    try:
        record = orjson.loads(content)
    except (ValueError, RecursionError):
        # Python's parser also takes what others write: NaN, lone surrogates; bytes that are no UTF-8 become U+FFFD.
        try:
            record = _loaded(content)
        except (ValueError, RecursionError) as error:
            told = getattr(error, "msg", str(error))
            raise DamagedInputError(
                f"{file.name}: line {number} is not JSON: {told}; give one JSON object a line"
            ) from error
    if not isinstance(record, dict):
        raise DamagedInputError(f"{file.name}: line {number} is {_kind(record)}; give one JSON object a line")
    return record


def _loaded(content: bytes) -> Any:
    return json.loads(content.decode("utf-8", "replace"))


def _exact(record: dict[str, Any], column: str, number: int, line: bytes) -> Any:
    # orjson makes floats of integers beyond 64 bits. Python's parser does not, and is asked where that may have been.
    value = record.get(column)
    if isinstance(value, (dict, list)) or (isinstance(value, float) and abs(value) >= 2**63):
        return _loaded(_content(number, line))[column]
    return value


def _text(file: File, number: int, column: str, value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if value is None or value != value:  # NaN stands for null, as it does in memory
        return None
    raise InputTypeError(f"{file.name}: line {number}: {column!r} is {_kind(value)}; give a string or null")


def _key(file: File, number: int, column: str, value: object) -> int | float | None:
    if isinstance(value, float) and value != value:
        raise InputError(f"{file.name}: line {number}: {column!r} is NaN; make it a number, or null to be kept last")
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    raise InputTypeError(f"{file.name}: line {number}: {column!r} is {_kind(value)}; --keep takes numbers here")


def _typed(keys: list[int | float | None]) -> Any:
    kinds = {type(key) for key in keys} - {type(None)}
    if kinds == {float}:
        return pa.array(keys, pa.float64())
    if kinds <= {int} and all(key is None or -(2**63) <= key < 2**63 for key in keys):
        return pa.array(keys, pa.int64())
    return keys


def _json_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _kind(value: object) -> str:
    return "null" if value is None else JSON_NAMES.get(type(value), type(value).__name__)
