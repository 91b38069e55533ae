"""The Arrow types that hold all values of JSON, which has no schema: looked for in every record, then used.

The values of one place (a field, or the elements of a list) get one type: string, bool, int64, float64, list, or a
struct with every field that occurs. Integers among floats must be exact as float64. Where no such type holds all
values, each becomes JSON text, and strings stay as they are. Examples are values of several kinds, integers beyond 64
bits, and objects with very many fields. Except among numbers, NaN means null.

Rejected: pyarrow.json, which guesses types from the first block and names no line; all as JSON text, which nobody could
sum up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from types import NoneType
from typing import Any, NamedTuple

import pyarrow as pa

from gpulsh.io.arrow.ids import json_text

MOST_FIELDS = 1 << 10  # of an object: one with more is a map, whose keys are data
MOST_DEPTH = 32
EXACT = 1 << 53  # integers up to it are exact as float64

Fit = Callable[[object], object]


class Odd(Enum):
    """Numbers that are not of their Python type alone."""

    NAN = auto()
    WIDE = auto()  # an integer that is exact in 64 bits, but not as a float
    BEYOND = auto()  # an integer of more than 64 bits
    GREAT = auto()  # a float so great that orjson may have made it of an integer


class Column(NamedTuple):
    """The type of the values of one place, and the conversion to it, None if they fit."""

    kind: pa.DataType
    fit: Fit | None = None


class Shape:
    """All values of one place."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._kinds: set[type | Odd] = set()
        self._fields: dict[str, Shape] = {}
        self.many = False  # fields, or levels: no struct holds them
        self._elements: Shape | None = None

    def see(self, value: Any) -> None:
        """One more of the values."""
        kind: type | Odd = type(value)
        if kind is int and not -EXACT <= value <= EXACT:
            kind = Odd.WIDE if -(2**63) <= value < 2**63 else Odd.BEYOND
        elif kind is float and not abs(value) < 2**63:
            kind = Odd.NAN if value != value else Odd.GREAT
        self._kinds.add(kind)
        if kind is dict and not self.many:
            for name, each in value.items():
                if (field := self._fields.get(name)) is None:
                    field = self._fields[name] = Shape(self._depth + 1)
                field.see(each)
            if len(self._fields) > MOST_FIELDS or self._depth == MOST_DEPTH:
                self.many = True
                self._fields.clear()
        elif kind is list and self._depth < MOST_DEPTH:
            self._elements = self._elements or Shape(self._depth + 1)
            for each in value:
                self._elements.see(each)

    def has(self, kind: Odd) -> bool:
        """Whether it was seen, here or below."""
        below = [*self._fields.values(), *([self._elements] if self._elements else [])]
        return kind in self._kinds or any(each.has(kind) for each in below)

    def columns(self) -> dict[str, Column]:
        """The columns for all fields."""
        return {name: field.column() for name, field in self._fields.items()}

    def column(self) -> Column:
        """The column for all values."""
        kinds = self._kinds - {NoneType}
        if kinds <= {str, bytes, Odd.NAN} and kinds != {Odd.NAN}:
            return Column(pa.large_string(), _unless_nan if Odd.NAN in kinds else None)
        if kinds == {bool}:
            return Column(pa.bool_())
        if kinds <= {int, Odd.WIDE}:
            return Column(pa.int64())
        if kinds <= {int, float, Odd.NAN, Odd.GREAT}:
            return Column(pa.float64())
        if kinds == {list} and self._elements is not None:
            return _list(self._elements.column())
        if kinds == {dict} and self._fields:
            return _struct(self.columns())
        return Column(pa.large_string(), _text)


def record_batch(columns: Mapping[str, Column], records: Sequence[dict[str, object]]) -> pa.RecordBatch:
    """The records, whose values are taken out, as a pyarrow.RecordBatch; text that is not valid becomes U+FFFD."""
    arrays = []
    for name, (kind, fit) in columns.items():
        values = [record.pop(name, None) for record in records]
        if fit is not None:
            values = [fit(value) for value in values]
        try:
            arrays.append(pa.array(values, kind))
        except (UnicodeError, pa.ArrowInvalid):
            arrays.append(pa.array(list(map(_valid, values)), kind))
    return pa.record_batch(arrays, schema=pa.schema([(name, column.kind) for name, column in columns.items()]))


def _text(value: object) -> str | None:
    return None if value is None else json_text(value.decode("utf-8", "replace") if type(value) is bytes else value)


def _unless_nan(value: object) -> object:
    return value if value == value else None


def _list(of: Column) -> Column:
    fit = of.fit
    made = None if fit is None else lambda value: None if value is None else [fit(each) for each in value]
    return Column(pa.list_(of.kind), made)


def _struct(fields: Mapping[str, Column]) -> Column:
    kind = pa.struct([(name, column.kind) for name, column in fields.items()])
    fits = [(name, column.fit) for name, column in fields.items() if column.fit is not None]

    def fit(value: Any) -> Any:
        return None if value is None else {**value, **{name: made(value.get(name)) for name, made in fits}}

    return Column(kind, fit if fits else None)


def _valid(value: object) -> object:
    """The value as valid text: halves of surrogate pairs and invalid UTF-8 become U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return [_valid(each) for each in value]
    return {name: _valid(each) for name, each in value.items()} if isinstance(value, dict) else value
