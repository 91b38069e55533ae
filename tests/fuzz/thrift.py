"""Thrift's compact protocol as trees that can be changed: what Parquet's footers and page headers are written in.

A struct is a list of [field, type, value]; a list is (type, items), a map (key type, value type, pairs).
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz.damage import damaged, integer

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


def read_struct(data: bytes, at: int = 0) -> tuple[list[list[Any]], int]:
    """The struct at byte `at`, and the byte behind it."""
    fields: list[list[Any]] = []
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            zigzag, at = _varint(data, at)
            number = _signed(zigzag)
        value, at = _read(data, at, head & 15, in_struct=True)
        fields.append([number, head & 15, value])
    return fields, at + 1


def _read(data: bytes, at: int, kind: int, in_struct: bool = False) -> tuple[Any, int]:
    if kind in (TRUE, FALSE):
        return (None, at) if in_struct else (data[at], at + 1)
    if kind == BYTE:
        return data[at], at + 1
    if kind in (I16, I32, I64):
        value, at = _varint(data, at)
        return _signed(value), at
    if kind == DOUBLE:
        return data[at : at + 8], at + 8
    if kind == BINARY:
        size, at = _varint(data, at)
        return data[at : at + size], at + size
    if kind in (LIST, SET):
        head, at = data[at], at + 1
        count = head >> 4
        if count == 15:
            count, at = _varint(data, at)
        items = []
        for _ in range(count):
            item, at = _read(data, at, head & 15)
            items.append(item)
        return [head & 15, items], at
    if kind == STRUCT:
        return read_struct(data, at)
    raise ValueError(f"a type {kind}, which Parquet does not have")


def write_struct(fields: list[list[Any]]) -> bytes:
    """The struct's bytes."""
    out, before = bytearray(), 0
    for number, kind, value in fields:
        if 0 < number - before < 16:
            out.append((number - before) << 4 | kind)
        else:
            out.append(kind)
            out += _packed(_zigzag(number))
        before = number
        out += b"" if kind in (TRUE, FALSE) else _write(kind, value)
    return bytes(out) + b"\0"


def _write(kind: int, value: Any) -> bytes:
    if kind in (TRUE, FALSE, BYTE):
        return bytes([value & 255])
    if kind in (I16, I32, I64):
        return _packed(_zigzag(value))
    if kind == DOUBLE:
        return bytes(value)
    if kind == BINARY:
        return _packed(len(value)) + value
    if kind in (LIST, SET):
        of, items = value
        head = bytes([len(items) << 4 | of]) if len(items) < 15 else bytes([0xF0 | of]) + _packed(len(items))
        return head + b"".join(_write(of, item) for item in items)
    return write_struct(value)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 128:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
    return value | data[at] << shift, at + 1


def _packed(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def _signed(zigzag: int) -> int:
    return zigzag >> 1 ^ -(zigzag & 1)


def _zigzag(value: int) -> int:
    value &= (1 << 64) - 1
    value = value - (1 << 64) if value >> 63 else value
    return (value << 1 ^ value >> 63) & ((1 << 64) - 1)


def field(fields: list[list[Any]], number: int) -> Any:
    """The value of a field; None where it is not there."""
    return next((value for found, _, value in fields if found == number), None)


def set_field(fields: list[list[Any]], number: int, kind: int, value: Any) -> None:
    """Give a field a value."""
    for each in fields:
        if each[0] == number:
            each[1:] = [kind, value]
            return
    fields.append([number, kind, value])
    fields.sort(key=lambda each: each[0])


def change(source: Random, fields: list[list[Any]]) -> str:
    """One change at any place of the struct; says where."""
    places = list(_structs(fields, ""))
    holder, path = source.choice([place for place in places if place[0]] or places)
    if not holder:
        return "nothing"
    row = source.randrange(len(holder))
    number, kind, value = holder[row]
    told = f"field {path}{number}"
    how = source.random()
    if how < 0.08:
        del holder[row]
        return f"{told} gone"
    if how < 0.12:
        holder.insert(row, [number, kind, value])
        return f"{told} twice"
    if how < 0.16:
        holder[row][0] = source.randrange(1, 30)
        return f"{told} is {holder[row][0]}"
    if kind in (I16, I32, I64):
        beside = value + source.choice([-1, 1, 8, -8, value, -2 * value])
        holder[row][2] = source.choice([beside, integer(source), integer(source, 32)])
        return f"{told} = {holder[row][2]}"
    if kind in (TRUE, FALSE):
        holder[row][1] = TRUE + FALSE - kind
    elif kind in (BINARY, DOUBLE):
        new = (
            damaged(source, value)[0]
            if source.random() < 0.7
            else source.choice([b"", b"text", b"\xff", b"x" * 70_000])
        )
        holder[row][2] = new if kind == BINARY else (new + b"\0" * 8)[:8]
    elif kind in (LIST, SET) and value[1]:
        items = value[1]
        place = source.randrange(len(items))
        if how < 0.5:
            del items[place]
        elif how < 0.9:
            items.insert(place, items[source.randrange(len(items))])
        else:
            items *= source.choice([2, 100])
    return f"{told} changed"


def _structs(fields: list[list[Any]], path: str) -> Any:
    """Every struct inside, with the numbers of the fields that lead to it."""
    yield fields, path
    for number, kind, value in fields:
        if kind == STRUCT:
            yield from _structs(value, f"{path}{number}.")
        elif kind in (LIST, SET) and value[0] == STRUCT:
            for item in value[1]:
                yield from _structs(item, f"{path}{number}.")
