"""The Arrow types that hold all values of JSON, which has no schema: looked for in every record, then used.

The values of one place (a field, or the elements of a list) get one type: string, bool, int64, float64, list, or a
struct with every field that occurs. Integers among floats must be exact as float64. Where no such type holds all
values, each becomes JSON text, and strings stay as they are. Examples are values of several kinds, integers beyond 64
bits, and objects with very many fields. Except among numbers, NaN means null.

Rejected: pyarrow.json, which guesses types from the first block and names no line; JSON text for all values, which no
query could sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from itertools import chain
from types import NoneType
from typing import Any

import pyarrow as pa

from gpulsh.io.arrow.ids import json_text
from gpulsh.io.rows import text_bytes

MAX_FIELDS = 1 << 10  # of an object: one with more is a map, whose keys are data
MAX_DEPTH = 32
EXACT = 1 << 53  # integers up to it are exact as float64


class NumberKind(Enum):
    """Kinds of numbers that their Python type does not show."""

    NAN = auto()
    WIDE = auto()  # an integer that is exact in 64 bits, but not as a float
    BEYOND = auto()  # an integer of more than 64 bits
    GREAT = auto()  # a float so great that orjson may have made it of an integer


def _int_kind(value: int) -> type | NumberKind:
    if -EXACT <= value <= EXACT:
        return int
    return NumberKind.WIDE if -(2**63) <= value < 2**63 else NumberKind.BEYOND


def _float_kind(value: float) -> type | NumberKind:
    if abs(value) < 2**63:
        return float
    return NumberKind.NAN if value != value else NumberKind.GREAT


class Shape:
    """All values of one place."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._kinds: set[type | NumberKind] = set()
        self._fields: dict[str, Shape] = {}
        self.many = False  # fields: no struct holds them
        self._elements: Shape | None = None

    def see(self, values: Sequence[Any]) -> None:
        """More of the values."""
        kinds = set(map(type, values))
        for kind in kinds:
            some: Sequence[Any] = values if len(kinds) == 1 else [each for each in values if type(each) is kind]
            if kind is int:  # others are between these
                self._kinds |= {_int_kind(min(some)), _int_kind(max(some))}
            elif kind is float:
                self._kinds.update(map(_float_kind, some))
            else:
                self._kinds.add(kind)
            if kind is dict:
                self._see_fields(some)
            elif kind is list and self._depth < MAX_DEPTH:
                self._elements = self._elements or Shape(self._depth + 1)
                for each in some:
                    self._elements.see(each)

    def _see_fields(self, records: Sequence[dict[str, Any]]) -> None:
        if self.many or self._depth == MAX_DEPTH:
            return
        for name in dict.fromkeys(chain.from_iterable(records)):
            if (field := self._fields.get(name)) is None:
                field = self._fields[name] = Shape(self._depth + 1)
                if len(self._fields) > MAX_FIELDS:
                    self.many = True
                    self._fields.clear()
                    return
            field.see([record[name] for record in records if name in record])

    def has(self, kind: NumberKind) -> bool:
        """Whether it was seen, here or below."""
        below = [*self._fields.values(), *([self._elements] if self._elements else [])]
        return kind in self._kinds or any(each.has(kind) for each in below)

    def schema(self) -> pa.Schema:
        """The columns for all fields."""
        return pa.schema([(name, field.kind()) for name, field in self._fields.items()])

    def kind(self) -> pa.DataType:
        """The type for all values."""
        kinds = self._kinds - {NoneType}
        if kinds == {bool}:
            return pa.bool_()
        if kinds and kinds <= {int, NumberKind.WIDE}:
            return pa.int64()
        if kinds and kinds <= {int, float, NumberKind.NAN, NumberKind.GREAT}:
            return pa.float64()
        if kinds == {list} and self._elements is not None:
            return pa.list_(self._elements.kind())
        if kinds == {dict} and self._fields:
            return pa.struct(list(self.schema()))
        return pa.large_string()


def record_batch(schema: pa.Schema, records: Sequence[dict[str, object]]) -> pa.RecordBatch:
    """The records, whose values are taken out, as a pyarrow.RecordBatch; text that is not valid becomes U+FFFD."""
    arrays = []
    for field in schema:
        values = [record.pop(field.name, None) for record in records]
        try:
            arrays.append(pa.array(values, field.type))
        except (UnicodeError, pa.ArrowException, TypeError):
            arrays.append(pa.array([_fit_value(value, field.type) for value in values], field.type))
    return pa.record_batch(arrays, schema=schema)


def _fit_value(value: Any, kind: pa.DataType) -> object:
    """The value in a type of `Shape`, as valid text: halves of surrogate pairs and invalid UTF-8 become U+FFFD."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [_fit_value(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind):
        return {field.name: _fit_value(value.get(field.name), field.type) for field in kind}
    if not pa.types.is_large_string(kind):
        return value
    if value != value:  # NaN
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return text_bytes(json_text(value)).decode()
