"""Bytes cut into lines, or into the elements of a JSON array. One longer than a block is held once, and one longer than
allowed never.

Long runs of blank lines are left out before lines are split: a megabyte of gzip holds a gigabyte of them.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain

END = b"\n"
LARGE_LINE = 1 << 20  # bytes of a line from which on gpulsh makes no copy of it
SPACE = b" \t\n\r"  # of JSON
STEP = 1 << 20  # bytes of white space looked at together
STRIDE = 61  # bytes between those that are sampled
SHORT = 16  # bytes: only in blocks whose lines are shorter on average does gpulsh look for blank ones
# White space that is left out, from its first line end to its last. What follows is a block of its own.
GAP = re.compile(rb"(?<!\s)\s{1024,}+")

Line = bytes | bytearray  # the latter where it is longer than a block


class BlankLines:
    """The blocks of `source` without most blank lines. `left_out` counts those before the block given last.

    >>> lines = BlankLines([b"a" + bytes(3) + b"\\n" * 2000 + b"b"])
    >>> list(lines), lines.left_out
    ([b'a\\x00\\x00\\x00\\n', b'b'], 1999)
    """

    def __init__(self, source: Iterable[bytes]) -> None:
        self._source = source
        self.left_out = 0

    def __iter__(self) -> Iterator[bytes]:
        for block in self._source:
            written = 0
            # To count all line ends would take as long as to split. Nobody knows beforehand which part is sampled.
            sample = block[secrets.randbelow(STRIDE) :: STRIDE]
            for gap in GAP.finditer(block) if sample.count(END) * SHORT >= len(sample) else ():
                # The first line end may end a line that holds something, and the last may begin one.
                first, last = block.find(END, *gap.span()) + 1, block.rfind(END, *gap.span()) + 1
                if first < last:
                    yield block[written:first]
                    self.left_out += block.count(END, first, last)
                    written = last
            if written < len(block):
                yield block[written:]
            del block


class ArrayEndError(Exception):
    """The file ends before its array does, or behind it."""


class LongLineError(Exception):
    """A line or an element that is longer than allowed: `held` bytes of it were read, `rest` begins with the others.

    `place` is which line it is of those that were to come next.
    """

    def __init__(self, held: int, rest: Iterable[bytes] = (), place: int = 0) -> None:
        super().__init__(held)
        self.place, self._held, self._rest = place, held, rest

    def size(self) -> int:
        """Bytes of the line, of which those not held are only counted."""
        size = self._held
        for block in self._rest:
            end = block.find(b"\n")
            if end >= 0:
                return size + end
            size += len(block)
        return size


def whole_lines(source: Iterable[bytes], most: int | None = None) -> Iterator[tuple[bytearray, bytes]]:
    """Yield lines with their ends: one that began in an earlier block, or nothing, and all that the block holds whole.

    The last line may have no end. A line of more than `most` bytes that is not in one block is a LongLineError.

    >>> list(whole_lines([b"a\\nb", b"c\\nd\\n", b"e"]))
    [(bytearray(b''), b'a\\n'), (bytearray(b'bc\\n'), b'd\\n'), (bytearray(b'e'), b'')]
    """
    held = bytearray()
    source = iter(source)
    for block in source:
        first = block.find(b"\n") + 1
        size = len(held) + (first - 1 if first else len(block))
        if most is not None and size > most:
            raise LongLineError(size, () if first else source)
        if not first:
            held += block  # in one place, so that it costs its length once
            continue
        begin = first if held else 0
        end = block.rfind(b"\n") + 1
        held += block[:begin]
        rest, left = block[begin:end], block[end:]
        del block
        yield held, rest
        del rest
        held = bytearray(left)
    if held:
        yield held, b""


def split_lines(source: Iterable[bytes], most: int | None = None) -> Iterator[list[Line]]:
    """Groups of lines, each with its end; the file's last may have none.

    A line of more than `most` bytes is a LongLineError.

    >>> list(split_lines([b"a\\nb", b"c\\n", b"d"]))
    [[b'a\\n'], [b'bc\\n'], [b'd']]
    """
    for begun, block in whole_lines(source, most):
        lines = list[Line](BytesIO(block).readlines())  # faster than split, above all of long lines
        if begun:
            lines.insert(0, begun if len(begun) > LARGE_LINE else bytes(begun))
        if most is not None and max(map(len, lines)) > most:
            sizes = [len(line) - line.endswith(END) for line in lines]
            if max(sizes) > most:
                raise LongLineError(max(sizes), place=sizes.index(max(sizes)))
        del begun, block
        yield lines
        lines = []


def split_elements(source: Iterable[bytes], most: int | None = None) -> Iterator[list[Line]]:
    """The elements of the array that the content is, without white space around them, a block's together.

    An element of more than `most` bytes is a LongLineError.

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
                    raise LongLineError(size, place=len(found))
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
