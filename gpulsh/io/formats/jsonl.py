"""JSON lines, and `.json`: JSON lines or one array of objects, as the first byte says.

gpulsh splits both itself, so that messages name lines or elements and kept ones are copied byte for byte. An array is
never in memory as a whole. Each kept element of it is written on a line of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, compress
from typing import BinaryIO, NamedTuple, Unpack

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.errors import DamagedInputError, InputError, InputTypeError, LargeDocumentError
from gpulsh.io.arrow.buffers import as_one_array, python_array
from gpulsh.io.arrow.ids import cast_to, common_type, json_strings, json_texts
from gpulsh.io.arrow.texts import count_stray_bytes
from gpulsh.io.columns import Columns, FieldPath, missing_column, refuse_added
from gpulsh.io.compression import BEGINNINGS, PLAIN_STEP, Compression, DamagedMember, blocks, find_member, intact_blocks
from gpulsh.io.file import FIRST, File, SeekPoint, reading, reason
from gpulsh.io.format import STRICT, Block, Mask, Rejection, Rules, WriteOptions, counting_rows
from gpulsh.io.formats.blocks import OrderColumn, RecordRows, in_counted_runs, in_runs
from gpulsh.io.formats.json_record import (
    BOM,
    FEW_LINES,
    Lenient,
    Record,
    RecordReader,
    RecordValues,
    is_blank,
    is_plain,
    json_type_name,
    on_one_line,
    plain_records,
    plain_texts,
)
from gpulsh.io.formats.json_text import member_texts, with_text
from gpulsh.io.formats.json_types import MAX_FIELDS, NumberKind, Shape, record_batch
from gpulsh.io.formats.seek_points import find_seek_points
from gpulsh.io.formats.streamed import (
    END,
    LARGE_LINE,
    SPACE,
    STEP,
    Beginning,
    Line,
    Streamed,
    line_begins,
    part_of,
    split_elements,
    split_lines,
)
from gpulsh.io.limits import COPIES, Limit
from gpulsh.io.output_codec import NewFile, Sink
from gpulsh.ragged import mask_of, offsets, row_ranges

CHECKED_LINE = 1 << 20  # bytes of the first line up to which it is checked before the work begins
MAX_REJECTED = 1 << 14  # lines of a block
PARSED_ROWS = 1 << 12  # at once
LINES_AT_ONCE = 64  # with added members: the memory of so few is used again for the next
VALUES_AT_ONCE = 1 << 16
ELEMENT = "element"  # the unit of a file that is an array

Lost = Callable[[str], None]  # takes the error of a skipped stretch


class Group(NamedTuple):
    """Rows of a block: their lines, each with its end where it has one, and the lines' numbers."""

    numbers: Sequence[int]
    lines: list[Line]

    def slices(self) -> Iterator[Group]:
        """Some neighbours at a time: a parser makes up to 30 times the bytes of its lines."""
        sizes = [*map(len, self.lines)]
        if len(sizes) < FEW_LINES or max(sizes) > LARGE_LINE:
            yield self
            return
        for start, stop in row_ranges(offsets(sizes), LARGE_LINE, PARSED_ROWS):
            yield Group(self.numbers[start:stop], self.lines[start:stop])

    def take_lines(self) -> Iterator[tuple[int, Line]]:
        """Each row, which leaves the group, so at most one large document is held twice."""
        self.lines.reverse()
        for number in self.numbers:
            yield number, self.lines.pop()


class _RowReader:
    """Reads rows of a file, and finds out which fields of the columns no record has, if it reads `all_rows`."""

    def __init__(self, file: File, columns: Columns, rules: Rules, *, all_rows: bool) -> None:
        self._file, self._columns, self._rules = file, columns, rules
        self._record = RecordReader(file, rules.limit, columns.depth())
        self._order = None if columns.order is None else OrderColumn(file, columns.order)
        self.missing = set(columns.fields()) if all_rows else set()
        self.names: list[str] | None = None  # of the first record; None before it

    def look_for_fields(self, records: Sequence[Record]) -> None:
        """Note the fields of records, for columns that are not nested."""
        if self.missing:
            self.missing -= {(name,) for record in records for name in record}
            self.names = self.names or list(records[0])

    def read(self, found: RecordRows, row: int, number: int, line: Line | None) -> None:
        """Append a row to `found`: null without a `line`, rejected if that is damaged and may be skipped."""
        text = value = copy_key = None
        if line is not None:
            try:
                text, value, copy_key = self._values(found, number, line)
            except (DamagedInputError, InputTypeError) as error:
                if not self._rules.skip:
                    raise
                bad = Rejection(row, 1, "line", number, reason(self._file, error))
                if self._file.unit != "line":
                    bad = bad._replace(unit="row", offset=row)
                found.rejected.append(bad)
        order = None if self._order is None else self._order.value(number, value, json_type_name(value))
        found.texts.append(text)
        found.order.append(order)
        found.copy_key.append(copy_key)
        self._record.clear()

    def _values(self, found: RecordRows, number: int, line: Line) -> RecordValues:
        reader, columns = self._record, self._columns
        reader.load(number, line)
        if self.missing:
            self.missing = {place for place in self.missing if not reader.has_field(place, columns)}
            self.names = self.names or list(reader.record)
        if not columns.added.isdisjoint(reader.record):
            refuse_added(self._file, columns, reader.record, f"{reader.place} ")
        if isinstance(reader.record, Lenient) or len(line) > LARGE_LINE:
            found.stray.append(count_stray_bytes(memoryview(line)))
        return reader.values(columns)


class JsonLines(Streamed):
    """Files whose rows are the lines that are not blank, or the elements of an array if it `may_be_array`."""

    def __init__(self, compression: Compression = "", *, may_be_array: bool = False) -> None:
        super().__init__(compression)
        self.may_be_array = may_be_array
        self._found = set[tuple[File, SeekPoint, tuple[FieldPath, ...], FieldPath]]()  # fields that large files have

    def check(self, file: File, columns: Columns) -> None:
        """Check that the file opens and that its first line is a record."""
        small = Limit(COPIES * CHECKED_LINE)  # the first pass checks a longer line
        file, source = self._opened(file)
        with reading(file), source, suppress(LargeDocumentError):
            for group in self._groups(file, source, small):
                if group.lines:
                    number, line = next(group.take_lines())
                    reader = RecordReader(file)
                    refuse_added(file, columns, reader.load(number, line), f"{reader.place} ")
                    break

    def takes_seek_points(self, file: File) -> bool:
        """Whether it is a plain local file, and no array."""
        if not self._is_divisible(file):
            return False
        opened, source = self._opened(file)
        source.close()
        return opened.unit != ELEMENT

    def find_seek_points(self, file: File, least: int, advance: Callable[[int], None]) -> tuple[SeekPoint, ...]:
        """Lines that are not blank."""
        return find_seek_points(file, least, advance)

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """A block of the stream at a time. A column that no line of the file has is missing."""
        whole = file
        file, first = part_of(file, rules.part)
        row = first.row
        damage: list[Rejection] = []

        def lost(detail: str) -> None:
            damage.append(Rejection(row, 0, "row", row, detail))

        file, source = self._opened(file)
        with reading(file), source:
            row_reader = _RowReader(file, columns, rules, all_rows=wanted is None)
            groups = self._groups(file, source, rules.limit, lost, number=first.line)
            may_be_plain = wanted is None and is_plain(columns)
            for group in chain.from_iterable(map(Group.slices, groups)) if may_be_plain else groups:
                records = plain_records(group.lines) if may_be_plain else None
                if records is not None and (texts := plain_texts(records, columns)) is not None:
                    row_reader.look_for_fields(records)
                    yield Block(row, texts, rejected=tuple(damage))
                    row, damage = row + len(texts), []
                    continue
                found, damage = RecordRows(row, damage), []
                for number, line in group.take_lines():
                    at = row - first.row
                    is_wanted = wanted is None or (at < len(wanted) and wanted[at])
                    row_reader.read(found, row, number, line if is_wanted else None)
                    row += 1
                    del line  # it may be as large as a document may be
                    if len(found.rejected) == MAX_REJECTED:
                        yield found.block(columns)
                        found = RecordRows(row, [])
                yield found.block(columns)
                del found
        missing = row_reader.missing
        if missing and row_reader.names is not None and rules.part is not None:
            missing = self._missing(whole, columns, missing)
        if missing and row_reader.names is not None:
            place = next(place for place in columns.fields() if place in missing)
            raise missing_column(file, place, columns, row_reader.names)

    def _missing(self, file: File, columns: Columns, places: set[FieldPath]) -> set[FieldPath]:
        """Return the fields of `places` that no line has. Other parts do not look again for a field that was found."""
        of = file, file.seek_points[-1], columns.texts
        places = {place for place in places if (*of, place) not in self._found}
        file, source = self._opened(file)
        reader = RecordReader(file, depth=columns.depth())
        with reading(file), source:
            for group in self._groups(file, source):
                for number, line in group.take_lines():
                    if not places:
                        return places
                    with suppress(DamagedInputError):
                        reader.load(number, line)
                        here = {place for place in places if reader.has_field(place, columns)}
                        self._found.update((*of, place) for place in here)
                        places -= here
        return places

    def values(self, file: File, column: str, rows: Numbers) -> pa.Array:
        """The field at `rows` in its JSON type; where that is several types, objects or lists, each as JSON text."""
        wanted = mask_of(rows, int(rows.max(initial=-1)) + 1)
        # Arrow holds values in a fraction of the memory that Python takes.
        runs = [*map(_as_array, in_runs(self._values(file, column, wanted), VALUES_AT_ONCE))]
        kind = common_type(run.type for run in runs)
        if kind is None:
            runs, kind = [*map(json_strings, runs)], pa.string()
        return as_one_array(pa.chunked_array([cast_to(run, kind) for run in runs], kind))

    def value_runs(self, file: File, column: str, counts: Iterable[int]) -> Iterator[pa.Array]:
        """`values` in runs, each in its own type."""
        return map(_as_array, in_counted_runs(file, self._values(file, column, None), counts))

    def _values(self, file: File, column: str, wanted: Mask | None) -> Iterator[object]:
        file, source = self._opened(file)
        reader = RecordReader(file, depth=column.count(".") + 1)
        with reading(file), source:
            all_groups = self._groups(file, source)
            for kept in all_groups if wanted is None else self._kept_lines(file, source, wanted, more=True):
                for number, line in kept.take_lines():
                    reader.load(number, line)
                    yield reader.id(column)
                    reader.clear()

    def row_begins(self, file: File) -> Iterator[tuple[int, int]]:
        """All rows of a plain file, unless it is an array."""
        file, source = self._opened(file)
        with source:
            if not self.compression and file.unit != ELEMENT:
                lines = enumerate(line_begins(file, self._blocks(file, source, STEP)), 1)
                yield from enumerate(begin for number, (begin, line) in lines if not is_blank(number, line))

    def place(self, file: File, row: int) -> str:
        """The number of the row's line or element, from 1; lines that are blank count."""
        file, source = self._opened(file)
        with source:
            (number,) = next(self._kept_lines(file, source, np.arange(row + 1) == row, more=True)).numbers
        return f"{file.unit} {number}"

    def write_kept(self, file: File, keep: Mask, target: NewFile, **how: Unpack[WriteOptions]) -> None:
        """Kept lines as they are, in the same compression."""
        file, source = self._opened(file)
        with source, self._writer(target, how.get("codec")) as out:
            _write(file, out, self._written(file, source, keep, how))

    def write_lines(self, file: File, keep: Mask, out: Sink, how: WriteOptions) -> None:
        """Kept records as they are, each on one line."""
        file, source = self._opened(file)
        with source:
            for lines in self._written(file, source, keep, how, one_line=True):
                write_lines(out, lines)
                del lines

    def _written(
        self, file: File, source: BinaryIO, keep: Mask, how: WriteOptions, *, one_line: bool = False
    ) -> Iterator[list[Line]]:
        """The kept rows of each group as they are, but without the parts that are cut, and with the added members."""
        cuts, added = how.get("cuts"), how.get("added")
        rows, done = np.flatnonzero(keep) if cuts else np.zeros(0, np.int64), 0
        for kept in self._kept_lines(file, source, keep):
            if cuts is not None:
                here = rows[done : done + len(kept.lines)]
                done += len(here)
                for at in np.flatnonzero(cuts.changed(here)).tolist():
                    change = partial(cuts.text, int(here[at]))
                    kept.lines[at] = with_text(file, kept.numbers[at], kept.lines[at], cuts.columns, change)
            if one_line:
                for at, number in enumerate(kept.numbers):
                    kept.lines[at] = on_one_line(number, kept.lines[at])
            if added is None:
                yield kept.lines
            else:
                for start in range(0, len(kept.lines), LINES_AT_ONCE):
                    some = kept.lines[start : start + LINES_AT_ONCE]
                    yield _with_members(some, added.take(len(some), member_texts))
                    del some
            del kept  # its lines may be as large as a document may be

    def write_sample(self, file: File, share: float, target: NewFile) -> float:
        """The first lines, as `write_kept` writes them."""
        file, source = self._opened(file)
        with source, self._writer(target, None) as out:
            beginning = Beginning(file, source, share)
            _write(file, out, beginning.of(group.lines for group in self._groups(file, source, step=STEP)))
        return beginning.taken

    def kept_batches(self, file: File, keep: Mask, **how: Unpack[WriteOptions]) -> Iterator[pa.RecordBatch]:
        """Every field in the type that holds all its values, which a pass of its own finds (`json_types`)."""
        limit = how.get("limit")
        for exactly in (False, True):
            shape = Shape()
            for records in self._kept_records(file, how.get("typed", keep), limit, exactly):
                shape.see(records)
            if not shape.has(NumberKind.GREAT):
                break
        if shape.many:
            raise InputError(f"{file.name}: has more than {MAX_FIELDS} different fields; leave it as JSON lines")
        schema = shape.schema()
        for records in self._kept_records(file, keep, limit, exactly) if len(schema) else ():
            try:
                batch = record_batch(schema, records)
            except RecursionError as error:
                raise InputError(
                    f"{file.name}: a record is nested too deeply; flatten it, or leave --format out"
                ) from error
            yield batch

    def _kept_records(self, file: File, keep: Mask, limit: Limit | None, exactly: bool) -> Iterator[list[Record]]:
        file, source = self._opened(file)
        reader = RecordReader(file, limit)
        with reading(file), source:
            for kept in self._kept_lines(file, source, keep):
                records: list[Record] = []
                for some in kept.slices():
                    plain = None if exactly else plain_records(some.lines)
                    if plain is None:
                        plain = [reader.whole(number, line, exactly=exactly) for number, line in some.take_lines()]
                    records += plain
                kept.lines.clear()
                yield records
                del records

    def _kept_lines(self, file: File, source: BinaryIO, keep: Mask, *, more: bool = False) -> Iterator[Group]:
        """The kept rows of each group that has some; with `more` the file may have more rows than `keep`, and is read
        from the seek point before the first kept one on.
        """
        first = file.seek_point_before(int(np.argmax(keep))) if more and len(keep) else FIRST
        if first.byte:
            source.seek(first.byte)
        with counting_rows(file, keep, first.row) as read:
            for group in self._groups(file, source, number=first.line):
                stays = read.next(len(group.lines)).tolist()
                kept = Group(list(compress(group.numbers, stays)), list(compress(group.lines, stays)))
                group.lines.clear()  # they may be as large as a document may be
                if kept.lines:
                    yield kept
                del kept
                if more and read.rows >= len(keep):
                    read.rows = len(keep)
                    return

    def _opened(self, file: File) -> tuple[File, BinaryIO]:
        """The file with its `unit`, and open at its first byte."""
        source = file.open(buffering=0)  # all steps are large; a small file is faster without
        if not self.may_be_array or file.sections:  # an array has none
            return file, source
        with ExitStack() as stack:
            stack.enter_context(source)
            begin = b""
            with reading(file):
                with suppress(ValueError):  # the reading that follows meets it
                    for block in self._blocks(file, source, STEP):
                        if begin := (begin + block).removeprefix(BOM).lstrip(SPACE):
                            break
                source.seek(0)
            stack.pop_all()
        return replace(file, unit=ELEMENT) if begin.startswith(b"[") else file, source

    def _groups(
        self,
        file: File,
        source: BinaryIO,
        limit: Limit | None = None,
        lost: Lost = lambda detail: None,
        step: int = PLAIN_STEP,
        number: int = 1,
    ) -> Iterator[Group]:
        """The rows of each block, or elements of an array, the first of this number.

        Of a file that is `intact_only`, `lost` is called for each stretch that is skipped. A line that the stretch cuts
        is dropped: the rest of a line is never a JSON object, and an object there is a whole line.
        """
        if file.unit == ELEMENT:
            for elements in split_elements(file, self._blocks(file, source, STEP), limit):
                yield Group(range(number, number + len(elements)), elements)
                number += len(elements)
            return
        with reading(file):
            if not (file.intact_only and self.compression):
                for first, lines in split_lines(file, blocks(source, self.compression, step), limit, number):
                    yield _without_blank(lines, first)
                    del lines
                return
            start: int | None = 0
            while start is not None:
                cut, damage = start > 0, list[DamagedMember]()
                intact = intact_blocks(self.compression, source, start, damage)
                start = None
                for first, lines in split_lines(file, intact, limit, number):
                    number = first + len(lines)
                    if cut:
                        lines[0], cut = _intact_line(file, first, lines[0]), False
                    if damage and not lines[-1].endswith(END):
                        lines[-1] = _intact_line(file, number - 1, lines[-1]) + END
                    yield _without_blank(lines, first)
                    del lines
                for error in damage:
                    start = find_member(source, error.offset + 1, *BEGINNINGS[self.compression])
                    lost(f"{error}; nothing up to {start or 'the end'} is read")
                    yield Group((), [])


def _intact_line(file: File, number: int, line: Line) -> Line:
    """The line, or nothing where damage cut it."""
    try:
        RecordReader(file).load(number, line)
    except DamagedInputError:
        return b""
    return line


def _without_blank(lines: list[Line], number: int) -> Group:
    """The lines that are not blank, numbered from `number`."""
    numbers = range(number, number + len(lines))
    filled = [bool(line) and not line.isspace() for line in lines]
    if number == 1:  # it may have a mark of UTF-8
        filled[0] = not is_blank(1, lines[0])
    if all(filled):
        return Group(numbers, lines)
    return Group(list(compress(numbers, filled)), list(compress(lines, filled)))


def _as_array(values: Sequence[object]) -> pa.Array:
    # One Arrow type for several objects would give each the fields of all, and for all numbers makes integers floats.
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) < 2 and kinds.isdisjoint({dict, list}):
        with suppress(pa.ArrowException, OverflowError, UnicodeError):
            return python_array(values)
    return json_texts(values)


def _write(file: File, out: Sink, groups: Iterable[list[Line]]) -> None:
    """Write lines as they are, or elements within brackets, each on a line of its own."""
    before = b"[\n"
    for lines in groups:
        if file.unit != ELEMENT:
            write_lines(out, lines)
            continue
        for element in lines:
            out.write(before)
            write_lines(out, [element])
            before = b",\n"
    if file.unit == ELEMENT:
        out.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def _with_members(lines: list[Line], more: list[bytes]) -> list[Line]:
    """The lines with more members; joined, where each is an object without spaces around it, as nearly always."""
    pieces: list[bytes | memoryview] = []
    for line, own in zip(lines, more, strict=True):
        if not (line.startswith(b'{"') and line.endswith(b"}\n") and type(line) is bytes):
            return list(map(_line_with_members, lines, more))
        pieces += (memoryview(line)[:-2], own)
    return [b"".join(pieces)]


def _line_with_members(line: Line, more: bytes) -> Line:
    """The line with more members. `more` replaces the closing brace: a comma, the members, a brace and a line end."""
    end = line.rindex(b"}")
    more = more[:-2] + bytes(line[end:])
    if line.find(b'"', 0, end) < 0:  # it has no member
        more = more[1:]
    if isinstance(line, bytearray):  # a copy would be as large
        line[end:] = more
        return line
    return b"".join((memoryview(line)[:end], more))  # one copy


def write_lines(out: Sink, lines: list[Line]) -> None:
    """Write lines as they are, all at once; a long one in pieces, because a copy of it would be as large."""
    if {bytes}.issuperset(map(type, lines)):
        out.write(b"".join(lines))
        return
    for line in lines:
        for start in range(0, len(line), PLAIN_STEP):
            out.write(bytes(memoryview(line)[start : start + PLAIN_STEP]))
