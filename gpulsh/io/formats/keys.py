"""Blocks of rows, from records or Arrow columns, with the keys that `--keep COLUMN` orders by.

Keys from columns without a type are numbers, or dates as text.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pyarrow as pa

from gpulsh.errors import InputError, InputTypeError
from gpulsh.io.arrow.buffers import decoded, python_array
from gpulsh.io.arrow.identities import identities, of_python
from gpulsh.io.arrow.rows import is_text
from gpulsh.io.arrow.texts import as_strings, column_named, texts_of
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.format import Block, Keys, Rejection, Stray
from gpulsh.io.limits import Limit, check_sizes
from gpulsh.io.rows import Bytes, piece_rows

INTEGER = re.compile(r"[+-]?[0-9]+")
# ISO 8601 dates, with or without a time. `datetime.fromisoformat` takes more, such as any character for the T.
DATE = re.compile(r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d([.,]\d+)?)?([Zz]|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANTS = pa.timestamp("us", "UTC")
SHOWN = 40  # characters of a value


class Instant(int):
    """A date or a time: microseconds since 1970 in UTC."""


Key = int | float | None


class KeyColumn:
    """Reads the keys of one column: all numbers, or all dates, in UTC where they name no offset."""

    def __init__(self, file: File, name: str, unit: str | None = None) -> None:
        self._file, self._name, self._unit = file, name, unit or file.unit
        self._first: tuple[int, bool] | None = None  # number of the first record with a key, and whether it is a date

    def key(self, number: int, value: object, detail: str = "") -> Key:
        """A number, a date as an Instant, or None. An error names the record of another value.

        `detail` names the value's type unless it is text.
        """
        if isinstance(value, str):
            detail, value = repr(value[:SHOWN]), parsed_key(value)
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

    def read(self, values: pa.Array, start: int) -> Keys:
        """The keys of values from row `start` on. A column whose type has an order stays as it is."""
        if pa.types.is_null(values.type) or not is_text(values.type):
            return decoded(values)
        return typed_keys([self.key(start + row, text) for row, text in enumerate(as_strings(values).to_pylist())])

    def _at(self, number: int) -> str:
        return f"{self._file.name}: {self._unit} {number}: {self._name!r}"


def parsed_key(text: str) -> int | float | str:
    """A number, or a date as an Instant; any other value unchanged.

    >>> parsed_key("12"), parsed_key("1970-01-02T01:00+01:00"), parsed_key("soon")
    (12, 86400000000, 'soon')
    """
    try:
        if DATE.fullmatch(text):
            return instant(text)
        return int(text) if INTEGER.fullmatch(text) else float(text.replace("_", "?"))
    except ValueError:  # an integer of thousands of digits, a 31st of February
        return text


def instant(text: str) -> Instant:
    """A date or a time of ISO 8601; ValueError where it is none."""
    found = datetime.fromisoformat(text.upper())
    since = (found if found.tzinfo else found.replace(tzinfo=UTC)) - EPOCH
    return Instant((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


def typed_keys(keys: list[Key]) -> Keys:
    """A pyarrow.Array where one type of 64 bits holds all of them."""
    kinds = {type(key) for key in keys} - {type(None)}
    if not kinds:  # null fits numbers and dates
        return pa.nulls(len(keys))
    if kinds == {Instant}:
        return python_array([None if key is None else int(key) for key in keys]).view(INSTANTS)
    if kinds == {float} or (kinds == {int} and all(key is None or -(2**63) <= key < 2**63 for key in keys)):
        return python_array(keys)
    return keys


class RecordRows:
    """Rows of a block from row `start` on, appended record by record."""

    def __init__(self, start: int, rejected: list[Rejection]) -> None:
        self._start, self.rejected = start, rejected
        self.texts: list[Bytes | None] = []
        self.keys: list[Key] = []
        self.identity: list[str | int | None] = []
        self.stray: list[int] = []  # bytes that are not UTF-8, of each record that may have some

    def block(self, columns: Columns) -> Block:
        """The block."""
        keys = typed_keys(self.keys) if columns.key is not None else None
        stray = Stray(sum(map(bool, self.stray)), sum(self.stray))
        identity = of_python(self.identity) if columns.identity is not None else None
        return Block(self._start, piece_rows(self.texts), keys, tuple(self.rejected), stray, identity)


def batch_block(
    file: File, batch: pa.RecordBatch, columns: Columns, keys: KeyColumn | None, start: int, limit: Limit | None
) -> Block:
    """The block of a record batch whose first row is `start`. LargeDocumentError for a text that is not allowed."""
    key = None if keys is None or columns.key is None else keys.read(column_named(batch, columns.key), start)
    texts, bad_bytes = texts_of(batch, columns)
    check_sizes(file, start, texts.lengths(), limit)
    identity = None if columns.identity is None else identities(column_named(batch, columns.identity))
    return Block(start, texts, key, stray=bad_bytes, identity=identity)
