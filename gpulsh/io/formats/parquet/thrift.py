"""Thrift's compact protocol, as far as footers and page headers of Parquet are looked into: all else is skipped over.

What ends before it should is an IndexError, what is nested without end a RecursionError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Fields: TypeAlias = dict[int, tuple[int, Any]]  # by the number of a field, its type and value

FALSE, I16, I32, I64, BINARY, LIST, STRUCT = 2, 4, 5, 6, 8, 9, 12  # types of fields
INTEGERS = range(I16, I64 + 1)
MOST_SHIFT = 63  # of the bits of an integer


class NoThriftError(ValueError):
    """Says what stands there instead."""


def fields(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Number, type and place of each field of the struct at `at`."""
    number = 0
    while head := data[at]:
        at += 1
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            number, at = signed(data, at), _skip_integer(data, at)
        yield number, kind, at
        at = SKIP[kind](data, at)


def struct_at(data: bytes, at: int) -> tuple[Fields, int]:
    """The struct at a place, and the place behind it, in one walk.

    A field's value is that of an integer, or of a struct, or how many a list holds, a list of structs itself, and None
    of other types.
    """
    found: Fields = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head > 15:
            number += head >> 4
        else:
            number, at = signed(data, at), _skip_integer(data, at)
        value: Any = None
        if I16 <= kind <= I64:
            value = data[at]
            if value < 128:  # most are: a call for each would take twice as long
                at += 1
            else:
                value, at = _integer(data, at)
            value = value >> 1 ^ -(value & 1)
        elif kind == BINARY and data[at] < 128:
            at += 1 + data[at]
        elif kind == STRUCT:
            value, at = struct_at(data, at)
        elif kind == LIST:
            of, value, _ = list_of(data, at)
            if of == STRUCT:
                value, at = structs_at(data, at)
            else:
                at = _skip_list(data, at)
        else:
            at = SKIP[kind](data, at)
        if number in found:
            raise NoThriftError("it has a field twice")
        found[number] = kind, value
    return found, at + 1


def structs_at(data: bytes, at: int) -> tuple[list[Fields], int]:
    """A list of structs, and the place behind it."""
    _, count, at = list_of(data, at)
    found = []
    for _ in range(count):
        struct, at = struct_at(data, at)
        found.append(struct)
    return found, at


def structs(data: bytes, at: int, kind: int) -> Iterator[Fields]:
    """Each struct of a list of them."""
    of, count, at = list_of(data, at) if kind == LIST else (0, 0, at)
    check_structs(count if of != STRUCT else [])
    for _ in range(count):
        struct, at = struct_at(data, at)
        yield struct


def check_structs(value: Any) -> list[Fields]:
    """The value of a field that is a list of structs; a NoThriftError where it is another list."""
    if isinstance(value, int) and value:
        raise NoThriftError("a list of it holds something else than it should")
    return value or []


def list_of(data: bytes, at: int) -> tuple[int, int, int]:
    """What a list holds, how many, and where they begin."""
    head, at = data[at], at + 1
    count = head >> 4
    if count == 15:
        count, at = _integer(data, at)
    return head & 15, count, at


def signed(data: bytes, at: int) -> int:
    """The integer at a place."""
    value, _ = _integer(data, at)
    return value >> 1 ^ -(value & 1)


def skip_struct(data: bytes, at: int) -> int:
    """The place behind the struct at a place."""
    while head := data[at]:
        at += 1
        kind = head & 15
        if head < 16:
            at = _skip_integer(data, at)
        if I16 <= kind <= I64:  # most are: a call for each would take twice as long
            while data[at] > 127:
                at += 1
            at += 1
        elif kind == BINARY and data[at] < 128:
            at += 1 + data[at]
        else:
            at = SKIP[kind](data, at)
    return at + 1


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[at]) > 127:
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if shift > MOST_SHIFT:
            raise NoThriftError("it has a number without end")
    return value | byte << shift, at + 1


def _skip_bytes(count: int) -> Skip:
    return lambda data, at: at + count


def _skip_integer(data: bytes, at: int) -> int:
    while data[at] > 127:
        at += 1
    return at + 1


def _skip_binary(data: bytes, at: int) -> int:
    size, at = _integer(data, at)
    return at + size


def _skip_list(data: bytes, at: int) -> int:
    of, count, at = list_of(data, at)
    if of <= FALSE:  # truth values take a byte in a list, and none in a struct
        return at + count
    skip = SKIP[of]
    for _ in range(count):
        at = skip(data, at)
    return at


def _skip_unknown(data: bytes, at: int) -> int:
    raise NoThriftError("it has a field of a type that there is not")


Skip = Callable[[bytes, int], int]
SKIP: list[Skip] = [_skip_unknown, *map(_skip_bytes, (0, 0, 1)), *[_skip_integer] * 3, _skip_bytes(8)]
SKIP += [_skip_binary, _skip_list, _skip_list, _skip_unknown, skip_struct, *[_skip_unknown] * 3]
