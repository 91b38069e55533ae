"""CSV and TSV: a header, then records, split here and not by a parser, so that kept ones are copied byte for byte.

Rejected: pyarrow.csv, whose blocks must be as large as the largest record, and which guesses types from the first
values; Python's csv, which takes four bytes for each byte of a field.

Every value is text. An empty value without quotes is null, and "" is an empty text. A record with another number of
fields than the header is bad. gpulsh reads nothing after damage in a compressed file, because the beginning of the next
record is unknown.
"""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import BinaryIO, NamedTuple, Unpack

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.backends.host import BEGIN, QUOTED, cells_of, line_ends, record_ends
from gpulsh.checks import plural
from gpulsh.errors import DamagedInputError, InputError, LargeDocumentError
from gpulsh.io.arrow.buffers import as_one_array, binary_array
from gpulsh.io.arrow.copy_keys import copy_keys
from gpulsh.io.arrow.rows import arrow_rows
from gpulsh.io.arrow.texts import as_strings, as_utf8, count_stray, joined_texts
from gpulsh.io.columns import COLUMN_PREFIX, Columns, FieldPath, missing_column, refuse_added
from gpulsh.io.compression import Compression
from gpulsh.io.file import File, reading, wrong_row_count
from gpulsh.io.format import NO_STRAY, STRICT, Block, Mask, Rejection, Rules, Stray, WriteOptions, counting_rows
from gpulsh.io.formats.blocks import OrderColumn, arrays_in_counted_runs
from gpulsh.io.formats.streamed import UTF16, Beginning, Streamed, utf16_file
from gpulsh.io.limits import COPIES, Limit, check_sizes, too_large
from gpulsh.io.output_codec import NewFile
from gpulsh.io.rows import gather_texts
from gpulsh.ragged import own_values, slice_between

STEP = 1 << 20  # bytes split at once
MAX_ROWS = 1 << 14  # of a block
CHECKED_HEADER = 1 << 20  # bytes up to which a header is looked at before the work begins
SIGNS = {"\t": ("tabs", "tab"), ";": ("semicolons", "';'"), "|": ("bars", "'|'"), ",": ("commas", "','")}
LINE_ENDS = np.frombuffer(b"\n\r", np.uint8)
BOM = b"\xef\xbb\xbf"
FIELD = rb'(?:"[^"]*(?:""[^"]*)*"?)?[^%b\r\n]*'

_log = logging.getLogger("gpulsh")


class Records(NamedTuple):
    """Whole records `content[begin[i] : end[i]]` with their ends, blank ones left out."""

    content: bytes | bytearray
    begin: Numbers  # int64 [n]
    end: Numbers  # int64 [n]
    line: int  # of the content's first byte, from 1

    def part(self, rows: slice | Numbers) -> Records:
        """The records that `rows` chooses."""
        return self._replace(begin=self.begin[rows], end=self.end[rows])

    def contents(self) -> Iterator[bytes]:
        """The bytes of each record."""
        for begin, end in zip(self.begin.tolist(), self.end.tolist(), strict=True):
            yield bytes(self.content[begin:end])

    def lines(self) -> Iterator[int]:
        """The line that each record begins in."""
        line, at = self.line, 0
        for begin in self.begin.tolist():
            line += line_ends(self.content[at:begin])
            at = begin
            yield line


class Opened(NamedTuple):
    """An open file: the names of its columns, its beginning up to the first record, and its records.

    They come by at most MAX_ROWS, each time with the row of the first.
    """

    names: list[str]
    head: bytes
    records: Iterator[tuple[int, Records]]


class Delimited(Streamed):
    """Files of records whose fields a character parts, as RFC 4180 has it."""

    def __init__(self, delimiter: str, compression: Compression = "", encoding: str | None = None) -> None:
        super().__init__(compression, encoding)
        self.delimiter = delimiter

    def check(self, file: File, columns: Columns) -> None:
        """Check that the file opens and that its header has the columns."""
        small = Limit(COPIES * CHECKED_HEADER)  # the pass in order finds a larger one
        with suppress(LargeDocumentError), self._opened(file, small) as opened:
            if opened is None:
                _log.warning("%s: is empty: it has no header and no documents", file.name)
            else:
                self._column_numbers(file, opened.names, columns)

    def row_begins(self, file: File) -> Iterator[tuple[int, int]]:
        """All rows of a plain file; the header is the head."""

        def begins(source: BinaryIO) -> Iterator[int]:
            start = 0
            for records in split_records(file, self._blocks(file, source, STEP), ord(self.delimiter)):
                yield from (start + records.begin).tolist()
                start += len(records.content)

        if not self.compression:
            with file.open() as source:
                yield from enumerate(islice(begins(source), 1, None))

    def place(self, file: File, row: int) -> str:
        """The line where the row's record begins, from 1."""
        with reading(file), self._opened(file) as opened:
            for start, records in opened.records if opened else ():
                if row < start + len(records.begin):
                    (line,) = records.part(np.array([row - start])).lines()
                    return f"line {line}"
        return super().place(file, row)

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """At most MAX_ROWS a block, those without a wanted row left out."""
        order_column = None if columns.order is None else OrderColumn(file, columns.order)
        with reading(file), self._opened(file, rules.limit) as opened:
            if opened is None:
                return
            numbers, count = self._column_numbers(file, opened.names, columns), len(opened.names)
            for start, records in opened.records:
                if wanted is not None and not wanted[start : start + len(records.begin)].any():
                    continue
                found = [self._column(records, numbers[place], count) for place in columns.texts]
                rejected: list[Rejection] = []
                rows = np.flatnonzero((found[0][1] != count) & (wanted is None))
                for row, line in zip(rows.tolist(), records.part(rows).lines(), strict=True):
                    fields = plural(found[0][1][row], "value")
                    detail = f"line {line}: has {fields} for {plural(count, 'column')}"
                    if not rules.skip:
                        raise DamagedInputError(
                            f"{file.name}: {detail}; put values with a separator or line end into quotes"
                        )
                    rejected.append(Rejection(start + row, 1, "line", line, detail))
                texts = arrow_rows(joined_texts([array for array, _ in found]))
                check_sizes(file, start, texts.lengths(), rules.limit)
                order = copy_key = None
                if order_column is not None:
                    values, _ = self._column(records, numbers[(order_column.name,)], count)
                    order = order_column.read(values, records.lines())
                if columns.copy_key is not None:
                    copy_key = copy_keys(self._column(records, numbers[(columns.copy_key,)], count)[0])
                yield Block(start, texts, order, tuple(rejected), self._stray(records), copy_key)
                del found, texts, order, copy_key  # each may be as large as a document may be

    def values(self, file: File, column: str, rows: Numbers) -> pa.Array:
        """The column at `rows` as strings; invalid UTF-8 becomes U+FFFD."""
        return as_one_array(pa.chunked_array(list(self._values(file, column, rows)), pa.string()))

    def value_runs(self, file: File, column: str, counts: Iterable[int]) -> Iterator[pa.Array]:
        """`values` in runs."""
        return arrays_in_counted_runs(file, self._values(file, column, None), counts)

    def _values(self, file: File, column: str, rows: Numbers | None) -> Iterator[pa.Array]:
        """The column at `rows`, or all of it, block by block."""
        found = 0
        with reading(file), self._opened(file) as opened:
            if opened is not None:
                number = self._column_numbers(file, opened.names, Columns(COLUMN_PREFIX + column))[(column,)]
                for start, records in opened.records:
                    if rows is not None:
                        records = records.part(rows[slice_between(rows, start, start + len(records.begin))] - start)
                    if len(records.begin):
                        values, _ = self._column(records, number)
                        yield as_strings(values).cast(pa.string())
                        found += len(values)
                    if rows is not None and found == len(rows):
                        break
        if rows is not None and found != len(rows):
            raise wrong_row_count(file)

    def write_kept(self, file: File, keep: Mask, target: NewFile, **how: Unpack[WriteOptions]) -> None:
        """The header and kept records as they are, in the same compression."""
        cuts, codec = how.get("cuts"), how.get("codec")
        with self._opened(file) as opened, self._writer(target, codec) as out, counting_rows(file, keep) as read:
            if opened is None:
                return
            out.write(opened.head)
            for start, records in opened.records:
                rows = np.flatnonzero(read.next(len(records.begin)))
                some = records.part(rows)
                if cuts is not None and (changed := cuts.changed(start + rows)).any():
                    number = self._column_numbers(file, opened.names, cuts.columns)[cuts.columns.texts[0]]
                    texts = arrow_rows(self._column(some, number)[0])
                    for at, record in enumerate(some.contents()):
                        if changed[at]:
                            text = cuts.text(int(start + rows[at]), texts.pieces(np.array([at]))[0])
                            record = self._with_value(record, number, text)
                        out.write(record)
                elif len(rows):
                    content = np.frombuffer(memoryview(records.content).toreadonly(), np.uint8)
                    out.write(own_values(gather_texts(content, some.begin, some.end)).data)

    def _with_value(self, record: bytes, number: int, text: bytes) -> bytes:
        """The record with another value in that column, in quotes."""
        field = re.compile(FIELD % re.escape(self.delimiter.encode()))
        begin, end = 0, -1
        for _ in range(number + 1):
            begin = end + 1
            matched = field.match(record, begin)
            assert matched is not None  # it matches anything
            end = matched.end()
        return record[:begin] + b'"' + self._encoded(text).replace(b'"', b'""') + b'"' + record[end:]

    def kept_batches(self, file: File, keep: Mask, **how: Unpack[WriteOptions]) -> Iterator[pa.RecordBatch]:
        """Every column as strings; invalid UTF-8 becomes U+FFFD."""
        with counting_rows(file, keep) as read, reading(file), self._opened(file, how.get("limit")) as opened:
            if opened is None:
                return
            if twice := [name for name, often in Counter(opened.names).items() if often > 1]:
                raise _ambiguous_column(file, twice[0], opened.names)
            for _, records in opened.records:
                rows = np.flatnonzero(read.next(len(records.begin)))
                if len(rows):
                    yield pa.record_batch(self._columns(records.part(rows), len(opened.names)), names=opened.names)

    def write_sample(self, file: File, share: float, target: NewFile) -> float:
        """The header and the first records."""
        with file.open() as source, self._writer(target, None) as out:
            beginning = Beginning(file, source, share, heading=1)
            split = split_records(file, self._blocks(file, source, STEP), ord(self.delimiter))
            for rows in beginning.of(list(records.contents()) for records in split):
                out.write(b"".join(rows))
        return beginning.taken

    @contextmanager
    def _opened(self, file: File, limit: Limit | None = None) -> Iterator[Opened | None]:
        """The file open after its header; None if it is empty."""
        with file.open() as source:
            split = split_records(file, self._blocks(file, source, STEP), ord(self.delimiter), limit)
            first = next((records for records in split if len(records.begin)), None)
            if first is None:
                yield None
                return
            head = bytes(first.content[: int(first.end[0])])
            header = head[int(first.begin[0]) :]
            if header.startswith(UTF16):
                raise utf16_file(file)
            try:
                text = header.decode(self.encoding or "utf-8", "replace")
                names = next(csv.reader([text], delimiter=self.delimiter))
            except csv.Error as error:
                line = next(first.lines())
                raise DamagedInputError(f"{file.name}: line {line}: is not a header: {error}") from error
            yield Opened(names, head, _number_records(first.part(slice(1, None)), split))

    def _column_numbers(self, file: File, names: list[str], columns: Columns) -> dict[FieldPath, int]:
        """The number of each wanted column; none of those that will be added may be there."""
        refuse_added(file, columns, names)
        numbers = {}
        for place in columns.fields():
            name = ".".join(place)  # the usual column name of a nested field
            if name not in names:
                header = self.delimiter.join(names)
                for sign, (signs, option) in SIGNS.items():
                    if sign in header and (len(names) == 1 or name in header.split(sign)):
                        raise InputError(f"{file.name}: has {signs} between its columns; give --delimiter {option}")
                raise missing_column(file, place, columns, names)
            if names.count(name) > 1:
                raise _ambiguous_column(file, name, names)
            numbers[place] = names.index(name)
        return numbers

    def _column(self, records: Records, number: int, fields: int | None = None) -> tuple[pa.Array, Numbers]:
        """A column as a pyarrow.LargeBinaryArray of UTF-8, and how many fields each record has.

        Records with another number of `fields` are null.
        """
        found = cells_of(records.content, records.begin, records.end, ord(self.delimiter), number)
        null = found.null if fields is None else found.null | (found.fields != fields)
        return as_utf8(binary_array(found.values, found.offset, null), self.encoding), found.fields

    def _columns(self, records: Records, count: int) -> list[pa.Array]:
        """All columns as strings. The records are read once, because they may have many columns."""
        found = cells_of(records.content, records.begin, records.end, ord(self.delimiter), 0, count)
        columns = []
        for number in range(count):
            texts = gather_texts(found.values, found.offset[number:-1:count], found.offset[number + 1 :: count])
            array = binary_array(texts.values, texts.offset, found.null[number::count])
            columns.append(as_strings(as_utf8(array, self.encoding)))
        return columns

    def _stray(self, records: Records) -> Stray:
        """The records with bytes that are not of the encoding, in any of their columns."""
        if len(records.begin) == 0 or records.content.isascii():
            return NO_STRAY
        offset = np.append(records.begin, records.end[-1])  # blank lines between records are ASCII
        return count_stray(binary_array(records.content, offset), self.encoding)


def _number_records(first: Records, others: Iterator[Records]) -> Iterator[tuple[int, Records]]:
    """Records by at most MAX_ROWS, each time with the row of the first."""
    row = 0
    for records in chain([first], others):
        for begin in range(0, len(records.begin), MAX_ROWS):
            part = records.part(slice(begin, begin + MAX_ROWS))
            yield row, part
            row += len(part.begin)


def _ambiguous_column(file: File, name: str, names: Sequence[str]) -> InputError:
    return InputError(f"{file.name}: has {names.count(name)} columns {name!r}; rename all but one")


def split_records(file: File, source: Iterable[bytes], delimiter: int, limit: Limit | None = None) -> Iterator[Records]:
    """All records of a file whose content comes in blocks. A LargeDocumentError for one that is not allowed.

    >>> for records in split_records(File("", "", ""), [b'a,"x', b'y"', b"\\n" + b"b,"], ord(",")):
    ...     print(bytes(records.content), records.begin, records.end)
    b'a,"xy"\\n' [0] [7]
    b'b,' [0] [2]
    """
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
        if limit is not None and size > limit.document:
            held.clear()
            if len(ends):
                raise too_large(file, f"the record from line {line} on", size, limit)
            continue
        held += block[:first]
        if not len(ends):
            continue
        yield _without_blank(held, np.array([size]), line, skip)
        line, skip = line + line_ends(held), 0
        last = int(ends[-1])
        if last > first:
            rest = block[first:last]
            yield _without_blank(rest, ends[1:] - first, line)
            line += line_ends(rest)
            del rest
        held = bytearray(block[last:])
        size = len(held)
    if state == QUOTED:
        raise DamagedInputError(
            f"{file.name}: the record from line {line} on ends within quotes; close them, or double a quote that is"
            " content"
        )
    if limit is not None and size > limit.document:
        raise too_large(file, f"the record from line {line} on", size, limit)
    if held:
        yield _without_blank(held, np.array([size]), line, skip)


def _without_blank(content: bytes | bytearray, end: Numbers, line: int, skip: int = 0) -> Records:
    begin = np.concatenate([[skip], end[:-1]])
    first = np.frombuffer(memoryview(content).toreadonly(), np.uint8)[np.minimum(begin, len(content) - 1)]
    filled = ~np.isin(first, LINE_ENDS) & (begin < end)
    return Records(content, begin[filled], end[filled], line)
