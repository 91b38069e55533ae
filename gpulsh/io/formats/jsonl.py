"""JSON lines: split here, not by a parser, so that messages name lines and kept lines are copied byte for byte."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import BinaryIO, TypeVar, Unpack

import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.errors import DamagedInputError, InputError, InputTypeError, LargeDocumentError
from gpulsh.io.arrow.ids import json_texts
from gpulsh.io.arrow.texts import stray_bytes
from gpulsh.io.columns import Columns, missing_column
from gpulsh.io.compression import PLAIN_STEP, IntactBlocks, blocks
from gpulsh.io.file import File, reading, reason, wrong_length
from gpulsh.io.format import STRICT, Block, Mask, Rejection, Rules, Stray, Writing, counting
from gpulsh.io.formats.json_record import (
    Lenient,
    Parse,
    Record,
    content_of,
    exact_value,
    id_value,
    is_blank,
    is_there,
    kind_of,
    on_one_line,
    parse,
    parse_exactly,
    parsed,
    text_of,
    whole_record,
)
from gpulsh.io.formats.json_types import MOST_FIELDS, Odd, Shape, record_batch
from gpulsh.io.formats.keys import Key, KeyColumn, typed_keys
from gpulsh.io.formats.lines import END, LARGE_LINE, BlankLines, Line, LongLineError, split_lines
from gpulsh.io.formats.streamed import Beginning, Streamed
from gpulsh.io.limits import COPIES, Limit, check_values_fit, too_large
from gpulsh.io.packing import Sink
from gpulsh.io.rows import Bytes, piece_rows

CHECKED_LINE = 1 << 20  # bytes of the first line up to which it is looked at before the work begins

Item = TypeVar("Item")
Group = Iterator[tuple[int, Line]]
Lost = Callable[[str], None]


def nothing_lost(told: str) -> None:
    """Told of what is passed over, where nobody asks."""


MOST_REJECTED = 1 << 14  # lines of a block


class JsonLines(Streamed):
    """Files whose rows are the lines that are not blank."""

    def check(self, file: File, columns: Columns) -> int | None:
        """Check that the file opens and that its first line is a record."""
        small = Limit(COPIES * CHECKED_LINE)  # a longer line is met by the pass in order
        with reading(file), file.open() as source, contextlib.suppress(LargeDocumentError):
            told = self._looked_at(file, source, small)
            for first in chain.from_iterable(self._groups(told, source, small)):
                parsed(told, *first)
                break
        return self._size(file)

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """A block of the stream at a time. A column that no line has is missing."""
        missing = set() if wanted is not None else set(columns.places())
        first: list[str] = []
        depth = columns.depth()
        row = records = 0
        damage: list[Rejection] = []
        sorting: KeyColumn | None = None

        def lost(told: str) -> None:
            damage.append(Rejection(row, 0, "row", row, told))

        with reading(file), file.open() as source:
            file = self._looked_at(file, source, rules.limit)
            if columns.key is not None and wanted is None:
                sorting = KeyColumn(file, columns.key)
            for lines in self._groups(file, source, rules.limit, lost):
                start = row
                texts: list[Bytes | None] = []
                keys: list[Key] = []
                rejected, damage = damage, []
                odd: list[int] = []  # bytes that are not UTF-8, of records that may have such
                for number, line in lines:
                    text = key = sorted_by = None
                    if wanted is None or (row < len(wanted) and wanted[row]):
                        try:
                            record = parsed(file, number, line, rules.limit, 0, depth)
                            if missing:
                                missing = {place for place in missing if not is_there(record, place, columns)}
                                first = first or list(record)
                            records += 1
                            if isinstance(record, Lenient) or len(line) > LARGE_LINE:
                                odd.append(stray_bytes(memoryview(line)))
                            text = text_of(file, number, columns, record, rules.limit)
                            if wanted is None and columns.id is not None:
                                id_value(file, record, columns.id, number, line)
                            if wanted is None and columns.key is not None:
                                sorted_by = exact_value(file, record, columns.key, number, line)
                        except (DamagedInputError, InputTypeError) as error:
                            if not rules.skip:
                                raise
                            text = None
                            rejected.append(_rejection(file, row, number, error))
                        else:
                            if sorting is not None:
                                key = sorting.key(number, sorted_by, kind_of(sorted_by))
                        if text is not None and rules.limit is not None and len(text) > rules.limit.document:
                            raise too_large(file, f"{file.unit} {number}", len(text), rules.limit)
                    texts.append(text)
                    keys.append(key)
                    row += 1
                    record = {}
                    del line, text  # each may be as large as a document may be
                    if len(rejected) == MOST_REJECTED:
                        yield _block(start, texts, keys, columns, rejected, odd)
                        start, texts, keys, rejected, odd = row, [], [], [], []
                yield _block(start, texts, keys, columns, rejected, odd)
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
            records = chain.from_iterable(self._groups(file, source))
            for row, (number, line) in enumerate(records):
                if sought is None:
                    break
                if row == sought:
                    record = parsed(file, number, line, depth=column.count(".") + 1)
                    found.append(id_value(file, record, column, number, line))
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
        with reading(file):
            source = file.open()
        with source, self._writer(target, how.get("packing")) as out:
            with reading(file):
                file = self._looked_at(file, source, how.get("limit"))
            layout = self._layout(file, out)
            for kept in self._kept_lines(file, source, keep):
                layout.write([line for _, line in kept])
            layout.close()

    def write_lines(self, file: File, keep: Mask, out: Sink, limit: Limit | None = None) -> None:
        """Kept records as they are, each on one line."""
        with reading(file):
            source = file.open()
        with source:
            with reading(file):
                file = self._looked_at(file, source, limit)
            for kept in self._kept_lines(file, source, keep):
                write_lines(out, [on_one_line(content_of(number, line)) for number, line in kept])

    def kept(self, file: File, keep: Mask, **how: Unpack[Writing]) -> Iterator[pa.RecordBatch]:
        """Every field in the type that holds all its values, which is looked for first (`jsonl.shape`)."""
        limit, parsing = how.get("limit"), parse
        shape = self._shape(file, keep, limit, parsing)
        if shape.has(Odd.GREAT):
            parsing = parse_exactly
            shape = self._shape(file, keep, limit, parsing)
        if shape.many:
            raise InputError(f"{file.name}: has more than {MOST_FIELDS} different fields; leave it as JSON lines")
        columns = shape.columns()
        for records in self._kept_records(file, keep, limit, parsing) if columns else ():
            yield record_batch(columns, records)

    def _shape(self, file: File, keep: Mask, limit: Limit | None, parsing: Parse) -> Shape:
        shape = Shape()
        for records in self._kept_records(file, keep, limit, parsing):
            for record in records:
                shape.see(record)
        return shape

    def _kept_records(self, file: File, keep: Mask, limit: Limit | None, parsing: Parse) -> Iterator[list[Record]]:
        with reading(file):
            source = file.open()
        with source, reading(file):
            file = self._looked_at(file, source, limit)
            for kept in self._kept_lines(file, source, keep):
                yield [whole_record(file, number, line, limit, parsing) for number, line in handed_out(kept)]

    def _kept_lines(self, file: File, source: BinaryIO, keep: Mask) -> Iterator[list[tuple[int, Line]]]:
        """The kept rows of each group that has some."""
        with counting(file, keep) as read:
            for lines in self._groups(file, source):
                found = []
                for number, line in lines:
                    if read.rows < len(keep) and keep[read.rows]:
                        found.append((number, line))
                    read.rows += 1
                    del line  # it may be as large as a document may be
                if found:
                    yield found
                found.clear()

    def write_sample(self, file: File, share: float, target: str) -> float:
        """The first lines, as `write_kept` writes them."""
        with reading(file), file.open() as source, self._writer(target, None) as out:
            file = self._looked_at(file, source, None)
            layout, beginning = self._layout(file, out), Beginning(file, source, share)
            for end, groups in beginning.steps(self._groups(file, beginning.source)):
                rows = [line for lines in groups for _, line in lines]
                if first := rows[: beginning.rows(len(rows), end)]:
                    layout.write(first)
            layout.close()
        return beginning.taken

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
        lost: Lost = nothing_lost,
    ) -> Iterator[Group]:
        """The rows with their lines' numbers, as they stand in the file, each with its end where it has one.

        Of a file that is `intact_only`, `lost` is told of each stretch that is passed over, and so much of the lines at
        its ends: what is left of a line is never a JSON object, and an object there is a whole line.
        """
        most = None if limit is None else limit.document
        number, start = 1, 0
        with reading(file):
            while True:
                intact = None
                if file.intact_only and self.compression:
                    intact = IntactBlocks(source, self.compression, start)
                filled = BlankLines(intact or blocks(source, self.compression))
                cut = start > 0
                try:
                    for lines in split_lines(filled, most):
                        count = len(lines)
                        if cut:
                            lines[0], cut = _unless_cut(file, number + filled.left_out, lines[0]), False
                        if intact and intact.damaged and not lines[-1].endswith(END):
                            lines[-1] = _unless_cut(file, number + filled.left_out, lines[-1]) + END
                        yield _rows(lines, number + filled.left_out)
                        number += count
                        del lines
                except LongLineError as error:
                    assert limit is not None
                    place = f"line {number + filled.left_out + error.place}"
                    raise too_large(file, place, error.size(), limit) from None
                number += filled.left_out
                if intact is None or intact.damaged is None:
                    return
                lost(f"{intact.damaged}; nothing up to {'the end' if intact.next is None else intact.next} is read")
                yield iter(())
                if intact.next is None:
                    return
                start = intact.next


class Layout:
    """How kept records are put: lines, each ended as it was."""

    def __init__(self, out: Sink) -> None:
        self._out = out

    def write(self, kept: list[Line]) -> None:
        """More of them, in order."""
        write_lines(self._out, kept)

    def close(self) -> None:
        """No more come."""


def _rejection(file: File, row: int, number: int, error: InputError) -> Rejection:
    told = reason(file, error)
    return Rejection(row, 1, "line", number, told) if file.unit == "line" else Rejection(row, 1, "row", row, told)


def _block(
    start: int,
    texts: list[Bytes | None],
    keys: list[Key],
    columns: Columns,
    rejected: list[Rejection],
    odd: list[int],
) -> Block:
    sorted_by = typed_keys(keys) if columns.key is not None else None
    return Block(start, piece_rows(texts), sorted_by, tuple(rejected), Stray(sum(map(bool, odd)), sum(odd)))


def handed_out(items: list[Item]) -> Iterator[Item]:
    """Each leaves the list as it is handed out, so that no more than one large document is held twice."""
    items.reverse()
    while items:
        yield items.pop()


def _unless_cut(file: File, number: int, line: Line) -> Line:
    """The line, or nothing where damage cut it."""
    try:
        if not is_blank(number, line):
            parsed(file, number, line)
    except DamagedInputError:
        return b""
    return line


def _rows(lines: list[Line], number: int) -> Iterator[tuple[int, Line]]:
    """The lines that are not blank, numbered from `number`. Each leaves `lines` as it is handed out."""
    lines.reverse()
    while lines:
        if lines[-1] and not is_blank(number, lines[-1]):
            yield number, lines.pop()
        else:
            lines.pop()
        number += 1


def write_lines(out: Sink, lines: list[Line]) -> None:
    """Write lines as they are, all at once; a long one in pieces, because a copy of it would be as large."""
    if all(isinstance(line, bytes) for line in lines):
        out.write(b"".join(lines))
        return
    for line in lines:
        for start in range(0, len(line), PLAIN_STEP):
            out.write(bytes(memoryview(line)[start : start + PLAIN_STEP]))
