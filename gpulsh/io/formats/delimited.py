"""CSV and TSV: a header, then records, split here and not by a parser, so that kept ones are copied byte for byte.

Rejected: pyarrow.csv, whose blocks must hold the largest record whole and which guesses the types of values from the
first of them; Python's csv, which takes four bytes for each of a field.

Every value is text. An empty value without quotes is null, and "" is an empty text. A record with another number of
fields than the header is bad. gpulsh reads nothing behind damage in a compressed file: nobody knows where a record
begins.
"""

from __future__ import annotations

import csv
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Unpack

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.errors import DamagedInputError, InputError, LargeDocumentError
from gpulsh.io.arrow.rows import arrow_rows
from gpulsh.io.arrow.texts import as_strings, in_utf8, joined_texts, stray
from gpulsh.io.columns import WHOLE, Columns, Place, missing_column
from gpulsh.io.compression import Compression
from gpulsh.io.file import File, reading, wrong_length
from gpulsh.io.format import NO_STRAY, STRICT, Block, Mask, Rejection, Rules, Stray, Writing, counting
from gpulsh.io.formats.keys import Key, KeyColumn, typed_keys
from gpulsh.io.formats.streamed import UTF16, Beginning, Streamed, utf16
from gpulsh.io.limits import COPIES, Limit, check_sizes, check_values_fit, too_large
from gpulsh.io.rows import gathered

if TYPE_CHECKING:  # it loads Numba, which other formats need not
    from gpulsh.backends.cpu.records import Column

STEP = 1 << 20  # bytes split at once
MOST_ROWS = 1 << 14  # of a block
CHECKED_HEADER = 1 << 20  # bytes up to which a header is looked at before the work begins
DELIMITERS = {"tabs": "tab", "semicolons": "';'", "bars": "'|'", "commas": "','"}  # as --delimiter takes them
SIGNS = {"tabs": "\t", "semicolons": ";", "bars": "|", "commas": ","}
LINE_ENDS = np.frombuffer(b"\n\r", np.uint8)
BOM = b"\xef\xbb\xbf"
HEADER = -1  # in place of a row's number


_log = logging.getLogger("gpulsh")


class Header(NamedTuple):
    """The first record: how many fields all others must have, and which one has each wanted column."""

    fields: int
    numbers: dict[Place, int]


class Delimited(Streamed):
    """Files of records whose fields a character parts, as RFC 4180 has it."""

    def __init__(self, delimiter: str, compression: Compression = "", encoding: str | None = None) -> None:
        super().__init__(compression, encoding)
        self.delimiter = delimiter

    def check(self, file: File, columns: Columns) -> int | None:
        """Check that the file opens and that its header has the columns."""
        small = Limit(COPIES * CHECKED_HEADER)  # a larger one is met by the pass in order
        with reading(file), file.open() as source, suppress(LargeDocumentError):
            for _, records in self._rows(file, source, small):
                self._header(file, records, columns)
                return self._size(file)
            _log.warning("%s: is empty: it has no header and no documents", file.name)
        return self._size(file)

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """At most MOST_ROWS a block, those without a wanted row left out."""
        header = Header(0, {})
        keys = None if columns.key is None or wanted is not None else KeyColumn(file, columns.key)
        with reading(file), file.open() as source:
            for start, records in self._rows(file, source, rules.limit):
                if start == HEADER:
                    header = self._header(file, records, columns)
                    continue
                looked_at = np.full(len(records.begin), wanted is None)
                if wanted is not None:
                    part = wanted[start : start + len(looked_at)]
                    looked_at[: len(part)] = part
                if looked_at.any():
                    yield self._block(file, columns, keys, header, start, records, looked_at, rules)

    def values(self, file: File, column: str, rows: Numbers, limit: Limit | None = None) -> pa.Array:
        """The column at `rows` as strings; invalid UTF-8 becomes U+FFFD."""
        found: list[str | None] = []
        held = number = 0
        with reading(file), file.open() as source:
            for start, records in self._rows(file, source):
                if start == HEADER:
                    number = self._header(file, records, Columns(WHOLE + column)).numbers[(column,)]
                    continue
                first, last = np.searchsorted(rows, [start, start + len(records.begin)])
                if first < last:
                    values = self._column(records.part(rows[first:last] - start), number)
                    found += _strings(values)
                    held += len(values.values)
                    check_values_fit(file, column, held, len(found), len(rows), limit)
                if len(found) == len(rows):
                    break
        if len(found) != len(rows):
            raise wrong_length(file)
        return pa.array(found, pa.string())

    def write_kept(self, file: File, keep: Mask, target: str, **how: Unpack[Writing]) -> None:
        """The header and kept records as they are, in the same compression."""
        with reading(file):
            source = file.open()
        with source, self._writer(target, how.get("packing")) as out, counting(file, keep) as read:
            for start, records in self._rows(file, source):
                if start == HEADER:
                    out.write(bytes(records.content[: int(records.end[0])]))
                    continue
                stays = keep[start : start + len(records.begin)]
                if len(stays) != len(records.begin):
                    raise wrong_length(file)
                if stays.any():
                    content = np.frombuffer(memoryview(records.content).toreadonly(), np.uint8)
                    kept = gathered(content, records.begin[stays], records.end[stays])
                    out.write(kept.values[int(kept.offset[0]) : int(kept.offset[-1])].data)
                read.rows = start + len(stays)

    def kept(self, file: File, keep: Mask, **how: Unpack[Writing]) -> Iterator[pa.RecordBatch]:
        """Every column as strings; invalid UTF-8 becomes U+FFFD."""
        names = list[str]()
        with counting(file, keep) as read, reading(file), file.open() as source:
            for start, records in self._rows(file, source, how.get("limit")):
                if start == HEADER:
                    names = self._names(file, records)
                    if twice := [name for name, often in Counter(names).items() if often > 1]:
                        raise _ambiguous(file, twice[0], names)
                    continue
                stays = np.flatnonzero(keep[start : start + len(records.begin)])
                read.rows = start + len(records.begin)
                if len(stays):
                    values = [self._column(records.part(stays), number) for number in range(len(names))]
                    yield pa.record_batch([as_strings(_array(each, each.null)) for each in values], names=names)

    def write_sample(self, file: File, share: float, target: str) -> float:
        """The header and the first records."""
        with reading(file), file.open() as source, self._writer(target, None) as out:
            beginning, header = Beginning(file, source, share), 1
            content = self._blocks(file, beginning.source, STEP)
            for end, found in beginning.steps(split_records(content, ord(self.delimiter))):
                rows = sum(len(records.begin) for records in found)
                left, header = beginning.rows(rows - header, end) + header, header if rows == 0 else 0
                for records in found:
                    if rows := min(left, len(records.begin)):
                        out.write(bytes(records.content[int(records.begin[0]) : int(records.end[rows - 1])]))
                        left -= rows
        return beginning.taken

    def _rows(self, file: File, source: BinaryIO, limit: Limit | None = None) -> Iterator[tuple[int, Records]]:
        """The header, then records by at most MOST_ROWS, each time with the number of the first."""
        row = HEADER
        try:
            content = self._blocks(file, source, STEP)
            most = None if limit is None else limit.document
            for records in split_records(content, ord(self.delimiter), most):
                if row == HEADER and len(records.begin):
                    yield row, records.part(slice(1))
                    records, row = records.part(slice(1, None)), 0
                for first in range(0, len(records.begin), MOST_ROWS):
                    part = records.part(slice(first, first + MOST_ROWS))
                    yield row, part
                    row += len(part.begin)
        except LongRecordError as error:
            assert limit is not None
            raise too_large(file, f"the record from line {error.line} on", error.size, limit) from None
        except OpenQuoteError as error:
            raise DamagedInputError(
                f"{file.name}: the record from line {error.line} on ends within quotes; close them, or double a quote"
                " that is content"
            ) from None

    def _names(self, file: File, records: Records) -> list[str]:
        begun = bytes(records.content[int(records.begin[0]) : int(records.end[0])])
        if begun.startswith(UTF16):
            raise utf16(file)
        header = begun.decode(self.encoding or "utf-8", "replace")
        try:
            return next(csv.reader([header], delimiter=self.delimiter))
        except csv.Error as error:
            raise DamagedInputError(f"{file.name}: line {next(records.lines())}: is no header: {error}") from error

    def _header(self, file: File, records: Records, columns: Columns) -> Header:
        names = self._names(file, records)
        numbers = {}
        for place in columns.places():
            name = ".".join(place)  # of what was nested once, as those call it who made columns of it
            if name not in names:
                if (other := _other_delimiter(names, self.delimiter.join(names), name)) is not None:
                    raise InputError(
                        f"{file.name}: has {other} between its columns; give --delimiter {DELIMITERS[other]}"
                    )
                raise missing_column(file, place, columns, names)
            if names.count(name) > 1:
                raise _ambiguous(file, name, names)
            numbers[place] = names.index(name)
        return Header(len(names), numbers)

    def _column(self, records: Records, number: int) -> Column:
        from gpulsh.backends.cpu.records import column

        found = column(records.content, records.begin, records.end, ord(self.delimiter), number)
        if self.encoding is None:
            return found
        texts = in_utf8(_array(found, found.null), self.encoding)
        _, offset, values = texts.buffers()
        return found._replace(
            offset=np.frombuffer(offset, np.int64, len(texts) + 1), values=np.frombuffer(values or b"", np.uint8)
        )

    def _block(
        self,
        file: File,
        columns: Columns,
        keys: KeyColumn | None,
        header: Header,
        start: int,
        records: Records,
        looked_at: Mask,
        rules: Rules,
    ) -> Block:
        texts = [self._column(records, header.numbers[place]) for place in columns.texts]
        fields = texts[0].fields
        bad = looked_at & (fields != header.fields)
        rows = np.flatnonzero(bad)
        rejected: list[Rejection] = []
        for row, line in zip(rows.tolist(), records.part(rows).lines(), strict=True):
            detail = f"line {line}: has {fields[row]} values for {header.fields} columns"
            if not rules.skip:
                raise DamagedInputError(f"{file.name}: {detail}; put what holds a separator or line end into quotes")
            rejected.append(Rejection(start + row, 1, "line", line, detail))
        bad_bytes = self._stray(records)
        found = arrow_rows(joined_texts([_array(text, text.null | bad) for text in texts]))
        check_sizes(file, start, found.lengths(), rules.limit)
        if columns.key is None or keys is None:
            return Block(start, found, None, tuple(rejected), bad_bytes)
        values = _strings(self._column(records, header.numbers[(columns.key,)]))
        return Block(start, found, typed_keys(list(_keys(keys, values, records, bad))), tuple(rejected), bad_bytes)

    def _stray(self, records: Records) -> Stray:
        """The records with bytes that are not of the encoding, in any of their columns."""
        if len(records.begin) == 0 or records.content.isascii():
            return NO_STRAY
        offset = np.append(records.begin, records.end[-1])  # blank lines between records are ASCII
        buffers = [None, pa.py_buffer(offset), pa.py_buffer(records.content)]
        return stray(pa.Array.from_buffers(pa.large_binary(), len(records.begin), buffers), self.encoding)


def _keys(keys: KeyColumn, values: list[str | None], records: Records, bad: Mask) -> Iterator[Key]:
    for value, line, is_bad in zip(values, records.lines(), bad.tolist(), strict=True):
        yield None if is_bad else keys.key(line, value)


def _other_delimiter(names: Sequence[str], header: str, wanted: str) -> str | None:
    """The sign between the columns of a header that was read with another delimiter and lacks the `wanted` column."""
    for name, sign in SIGNS.items():
        if (len(names) == 1 and sign in header) or (sign in header and wanted in header.split(sign)):
            return name
    return None


def _ambiguous(file: File, name: str, names: Sequence[str]) -> InputError:
    return InputError(f"{file.name}: has {names.count(name)} columns {name!r}; rename all but one")


def _array(texts: Column, null: Mask) -> pa.Array:
    """The values as a pyarrow.LargeBinaryArray."""
    valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    buffers = [valid, pa.py_buffer(texts.offset), pa.py_buffer(texts.values)]
    return pa.Array.from_buffers(pa.large_binary(), len(null), buffers)


def _strings(texts: Column) -> list[str | None]:
    data, offset = texts.values.data, texts.offset.tolist()
    return [
        None if null else str(data[start:stop], "utf-8", "replace")
        for start, stop, null in zip(offset[:-1], offset[1:], texts.null.tolist(), strict=True)
    ]


class Records(NamedTuple):
    """Whole records `content[begin[i] : end[i]]` with their ends, blank ones left out."""

    content: bytes | bytearray
    begin: Numbers  # int64 [n]
    end: Numbers  # int64 [n]
    line: int  # of the content's first byte, from 1

    def part(self, rows: slice | Numbers) -> Records:
        """Some of the records."""
        return self._replace(begin=self.begin[rows], end=self.end[rows])

    def lines(self) -> Iterator[int]:
        """The line that each record begins in."""
        line, at = self.line, 0
        for begin in self.begin.tolist():
            line += line_ends(self.content[at:begin])
            at = begin
            yield line


class OpenQuoteError(Exception):
    """The file ends within quotes; `line` is the one that the record begins in."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class LongRecordError(Exception):
    """A record from line `line` on has `size` bytes, more than allowed."""

    def __init__(self, line: int, size: int) -> None:
        super().__init__(line, size)
        self.line, self.size = line, size


def split_records(source: Iterable[bytes], delimiter: int, most: int | None = None) -> Iterator[Records]:
    """All records of a file whose content comes in blocks. One of more than `most` bytes is a LongRecordError.

    >>> for records in split_records([b'a,"x', b'y"', b"\\n" + b"b,"], ord(",")):
    ...     print(bytes(records.content), records.begin, records.end)
    b'a,"xy"\\n' [0] [7]
    b'b,' [0] [2]
    """
    from gpulsh.backends.cpu.records import BEGIN, QUOTED, record_ends

    source = iter(source)
    head = b""
    while len(head) < len(BOM) and (block := next(source, b"")):
        head += block
    skip = len(BOM) if head.startswith(BOM) else 0
    held = bytearray(head[:skip])
    line, size, state = 1, skip, BEGIN  # size of the record that is held, or was too large for it
    for block in chain([head[skip:]], source):
        ends, state = record_ends(block, delimiter, state)
        first = int(ends[0]) if len(ends) else len(block)
        size += first
        if most is not None and size > most:
            held.clear()
            if len(ends):
                raise LongRecordError(line, size)
            continue
        held += block[:first]
        if not len(ends):
            continue
        yield _filled(held, np.array([size]), line, skip)
        line, skip = line + line_ends(held), 0
        last = int(ends[-1])
        if last > first:
            rest = block[first:last]
            yield _filled(rest, ends[1:] - first, line)
            line += line_ends(rest)
            del rest
        held = bytearray(block[last:])
        size = len(held)
    if state == QUOTED:
        raise OpenQuoteError(line)
    if most is not None and size > most:
        raise LongRecordError(line, size)
    if held:
        yield _filled(held, np.array([size]), line, skip)


def line_ends(content: bytes | bytearray) -> int:
    """How many lines end there: by a newline, a carriage return, or both."""
    returns = content.count(b"\r")
    return content.count(b"\n") + (returns - content.count(b"\r\n") if returns else 0)


def _filled(content: bytes | bytearray, end: Numbers, line: int, skip: int = 0) -> Records:
    begin = np.concatenate([[skip], end[:-1]])
    first = np.frombuffer(memoryview(content).toreadonly(), np.uint8)[np.minimum(begin, len(content) - 1)]
    filled = ~np.isin(first, LINE_ENDS) & (begin < end)
    return Records(content, begin[filled], end[filled], line)
