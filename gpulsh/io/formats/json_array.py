"""`.json`: JSON lines, or one array of objects, which its first byte tells.

An array is split here, as lines are, so that it is never in memory and messages say which element they mean. Each kept
element is copied byte for byte, on a line of its own: what stands between elements belongs to none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import BinaryIO

from gpulsh.errors import DamagedInputError, LargeDocumentError
from gpulsh.io.file import File
from gpulsh.io.formats.json_record import BOM
from gpulsh.io.formats.jsonl import (
    Group,
    JsonLines,
    Layout,
    Lost,
    handed_out,
    nothing_lost,
    write_lines,
)
from gpulsh.io.formats.lines import LARGE_LINE, Line
from gpulsh.io.limits import Limit, too_large
from gpulsh.io.packing import Sink

STEP = 1 << 20  # bytes split at once
ELEMENT = "element"
SPACE = b" \t\n\r"


class Json(JsonLines):
    """Files of JSON lines, or of one array whose elements are rows."""

    def _looked_at(self, file: File, source: BinaryIO, limit: Limit | None) -> File:
        found = b""
        with suppress(ValueError, LargeDocumentError):  # which the reading that follows meets
            for block in self._blocks(file, source, limit, STEP):
                found += block
                if found := found.removeprefix(BOM).lstrip(SPACE):
                    break
        source.seek(0)
        return replace(file, unit=ELEMENT) if found.startswith(b"[") else file

    def _groups(
        self,
        file: File,
        source: BinaryIO,
        limit: Limit | None = None,
        lost: Lost = nothing_lost,
    ) -> Iterator[Group]:
        if file.unit != ELEMENT:
            yield from super()._groups(file, source, limit, lost)
            return
        number = 1
        try:
            most = None if limit is None else limit.document
            for elements in split_elements(self._blocks(file, source, limit, STEP), most):
                count = len(elements)
                yield enumerate(handed_out(elements), number)
                number += count
        except LongElementError as error:
            assert limit is not None
            raise too_large(file, f"element {number + error.place}", error.size, limit) from None
        except ArrayEndError as error:
            raise DamagedInputError(f"{file.name}: {error}; give one whole array, or JSON lines") from None

    def _layout(self, file: File, out: Sink) -> Layout:
        return _Array(out) if file.unit == ELEMENT else super()._layout(file, out)


class LongElementError(Exception):
    """An element has `size` bytes, more than allowed; `place` is which it is of those that were to come next."""

    def __init__(self, place: int, size: int) -> None:
        super().__init__(place, size)
        self.place, self.size = place, size


class ArrayEndError(Exception):
    """The file ends before its array does, or behind it."""


def split_elements(source: Iterable[bytes], most: int | None = None) -> Iterator[list[Line]]:
    """The elements of the array that the content is, without white space around them, a block's together.

    Raises LongElementError at one of more than `most` bytes, and ArrayEndError.

    >>> list(split_elements([b'[{"a": 1}, {"b', b'": 2} , 3', b"]"]))
    [[b'{"a": 1}'], [b'{"b": 2}'], [b'3']]
    """
    from gpulsh.backends.cpu.records import State, element_ends

    source, head = iter(source), b""
    while b"[" not in head:
        head += next(source)
    held, size, state, count = bytearray(), 0, State(), 0
    for block in chain([head[head.index(b"[") + 1 :]], source):
        if state.depth == 0:
            if block.strip(SPACE):
                raise ArrayEndError("there is more behind the end of its array")
            continue
        ends, state = element_ends(block, state)
        found: list[Line] = []
        at = 0
        for end in [*ends.tolist(), len(block)]:
            piece = block[at:end] if held else block[at:end].lstrip(SPACE)
            size += len(piece)
            if most is not None and size > most:
                held.clear()  # it is only counted
            else:
                held += piece
            at = end + 1
            if len(found) < len(ends):
                if most is not None and size > most:
                    raise LongElementError(len(found), size)
                found.append(_ended(held))
                held, size = bytearray(), 0
        if state.depth == 0:
            if held:
                raise ArrayEndError("there is more behind the end of its array")
            if not count and found == [b""]:  # an array without elements
                found = []
        count += len(found)
        if found:
            yield found
    if state.depth:
        raise ArrayEndError("its array does not end; the file is truncated")


def _ended(held: bytearray) -> Line:
    """An element without the white space behind it."""
    if len(held) <= LARGE_LINE:
        return bytes(held.rstrip(SPACE))
    while held[-1:].isspace():  # in pieces, because a copy would be as large
        tail = held[-STEP:]
        del held[len(held) - len(tail) + len(tail.rstrip(SPACE)) :]
    return held


class _Array(Layout):
    """Elements, each on a line of its own, within brackets."""

    def __init__(self, out: Sink) -> None:
        super().__init__(out)
        self._next = b"[\n"

    def write(self, kept: list[Line]) -> None:
        for element in kept:
            self._out.write(self._next)
            write_lines(self._out, [element])
            self._next = b",\n"

    def close(self) -> None:
        self._out.write(b"[]\n" if self._next == b"[\n" else b"\n]\n")
