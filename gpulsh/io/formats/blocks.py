"""Blocks of rows, from records or Arrow columns, with the values that `--keep COLUMN` orders by.

Where columns have no type, these values are numbers, or dates as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count, islice
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from gpulsh.errors import InputError, InputTypeError
from gpulsh.io.arrow.buffers import as_one_array, plain_values, python_array
from gpulsh.io.arrow.copy_keys import python_copy_keys
from gpulsh.io.arrow.rows import is_text
from gpulsh.io.arrow.texts import as_strings, column_named, copy_keys_of, texts_of
from gpulsh.io.columns import Columns
from gpulsh.io.file import File, wrong_row_count
from gpulsh.io.format import Block, OrderValues, Rejection, Stray
from gpulsh.io.limits import Limit, check_sizes
from gpulsh.io.rows import Bytes, piece_rows

INTEGER = re.compile(r"[+-]?[0-9]+")
# ISO 8601 dates, with or without a time. `datetime.fromisoformat` takes more, such as any character for the T.
DATE = re.compile(r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d([.,]\d+)?)?([Zz]|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)
# Those that Arrow reads, too, all at once.
PLAIN_DATE = r"^[1-9]\d{3}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)?)?$"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANTS = pa.timestamp("us", "UTC")
SHOWN_CHARACTERS = 40  # characters of a value


class Instant(int):
    """A date or a time: microseconds since 1970 in UTC."""


OrderValue = int | float | None
Value = TypeVar("Value")


class OrderColumn:
    """Reads the values of one column: all numbers, or all dates, in UTC if they name no offset."""

    def __init__(self, file: File, name: str, unit: str | None = None) -> None:
        self.name, self._file, self._unit = name, file, unit or file.unit
        self._first: tuple[int, bool] | None = None  # number of the first record with a value, and whether it is a date

    def value(self, number: int, value: object, detail: str = "") -> OrderValue:
        """A number, a date as an Instant, or None. An error names the record of another value.

        `detail` names the value's type unless it is text.
        """
        if isinstance(value, str):
            detail, value = repr(value[:SHOWN_CHARACTERS]), parse_value(value)
        if isinstance(value, float) and value != value:
            raise InputError(f"{self._at(number)} is NaN; make it a number, or null to be kept last")
        if value is None:
            return None
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise InputTypeError(
                f"{self._at(number)} is {detail}; --keep takes numbers, or dates as 2024-01-31T12:00:00Z"
            )
        is_date = isinstance(value, Instant)
        if self._first is None:
            self._first = number, is_date
        first, was_date = self._first
        if is_date != was_date:
            here, there = ("a date", "a number") if is_date else ("a number", "a date")
            raise InputTypeError(
                f"{self._at(number)} is {here}, and {self._unit} {first} has {there}; make the column one of them"
            )
        return value

    def read(self, values: pa.Array, numbers: Iterable[int]) -> OrderValues:
        """The values of the records with these `numbers`. A column whose type has an order stays as it is."""
        if pa.types.is_null(values.type) or not is_text(values.type):
            return plain_values(values)
        texts = as_strings(values)
        if (dates := read_dates(texts)) is None:
            return typed_array(list(map(self.value, numbers, texts.to_pylist())))
        first = texts.is_valid().index(True).as_py()
        self.value(next(islice(numbers, first, None)), texts[first].as_py())  # others may be no dates
        return dates

    def _at(self, number: int) -> str:
        return f"{self._file.name}: {self._unit} {number}: {self.name!r}"


def parse_value(text: str) -> int | float | str:
    """A number, or a date as an Instant; any other value unchanged.

    >>> parse_value("12"), parse_value("1970-01-02T01:00+01:00"), parse_value("soon")
    (12, 86400000000, 'soon')
    """
    try:
        if DATE.fullmatch(text):
            return parse_instant(text)
        return int(text) if INTEGER.fullmatch(text) else float(text.replace("_", "?"))
    except ValueError:  # an integer of thousands of digits, a 31st of February
        return text


def parse_instant(text: str) -> Instant:
    """A date or a time of ISO 8601; ValueError where it is none."""
    found = datetime.fromisoformat(text.upper())
    since = (found if found.tzinfo else found.replace(tzinfo=UTC)) - EPOCH
    return Instant((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


def read_dates(texts: pa.Array) -> pa.Array | None:
    """The dates of strings, as `parse_value` reads them; None where one has another form, or all are null."""
    if pc.all(pc.match_substring_regex(texts, PLAIN_DATE)).as_py():
        for zone in (None, "UTC"):  # Arrow takes an offset for all or for none
            with suppress(pa.ArrowInvalid):
                return texts.cast(pa.timestamp("us", zone)).cast(INSTANTS)
    return None


def typed_array(values: list[OrderValue]) -> OrderValues:
    """A pyarrow.Array if one type of 64 bits holds all of them."""
    kinds = {type(value) for value in values} - {type(None)}
    if not kinds:  # null fits numbers and dates
        return pa.nulls(len(values))
    if kinds == {Instant}:
        return python_array([None if value is None else int(value) for value in values]).view(INSTANTS)
    if kinds == {float} or (kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values)):
        return python_array(values)
    return values


def in_runs(values: Iterator[Value], most: int) -> Iterator[list[Value]]:
    """Lists of `most` values; the last one may be shorter.

    >>> list(in_runs(iter("abc"), 2))
    [['a', 'b'], ['c']]
    """
    return iter(lambda: list(islice(values, most)), [])


def in_counted_runs(file: File, values: Iterator[Value], counts: Iterable[int]) -> Iterator[list[Value]]:
    """Lists of so many values, for each of `counts`; `wrong_row_count` if there are fewer."""
    for wanted in counts:
        found = list(islice(values, wanted))
        if len(found) != wanted:
            raise wrong_row_count(file)
        yield found


def arrays_in_counted_runs(file: File, arrays: Iterator[pa.Array], counts: Iterable[int]) -> Iterator[pa.Array]:
    """The same of the values of arrays, which are joined."""
    held: list[pa.Array] = []
    size = 0
    for wanted in counts:
        while size < wanted:
            if (more := next(arrays, None)) is None:
                raise wrong_row_count(file)
            held.append(more)
            size += len(more)
        last, size = held.pop(), size - wanted
        end = len(last) - size
        yield as_one_array(pa.chunked_array([*held, last.slice(0, end)]))
        held = [last.slice(end)] if size else []


class RecordRows:
    """Rows of a block from row `start` on, appended record by record."""

    def __init__(self, start: int, rejected: list[Rejection]) -> None:
        self._start, self.rejected = start, rejected
        self.texts: list[Bytes | None] = []
        self.order: list[OrderValue] = []
        self.copy_key: list[str | int | None] = []
        self.stray: list[int] = []  # bytes that are not UTF-8, of each record that may have some

    def block(self, columns: Columns) -> Block:
        """The block."""
        order = typed_array(self.order) if columns.order is not None else None
        stray = Stray(sum(map(bool, self.stray)), sum(self.stray))
        copy_key = python_copy_keys(self.copy_key) if columns.copy_key is not None else None
        return Block(self._start, piece_rows(self.texts), order, tuple(self.rejected), stray, copy_key)


def batch_block(
    file: File, batch: pa.RecordBatch, columns: Columns, reader: OrderColumn | None, start: int, limit: Limit | None
) -> Block:
    """The block of a record batch whose first row is `start`. LargeDocumentError for a text that is not allowed."""
    order = None if reader is None else reader.read(column_named(batch, reader.name), count(start))
    texts, bad_bytes = texts_of(batch, columns)
    check_sizes(file, start, texts.lengths(), limit)
    copy_key = None if columns.copy_key is None else copy_keys_of(file, batch, columns)
    return Block(start, texts, order, stray=bad_bytes, copy_key=copy_key)
