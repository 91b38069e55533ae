"""Formats that are one stream of bytes, plain or compressed: their blocks, lines and array elements.

A line longer than a block is held once, and one longer than allowed never.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from io import BytesIO
from itertools import chain, groupby, pairwise
from typing import BinaryIO

from gpulsh.backends.host import State, element_ends
from gpulsh.errors import DamagedInputError
from gpulsh.io.columns import Columns
from gpulsh.io.compression import CODECS, HEAD, Compression, blocks
from gpulsh.io.file import FIRST, File, SeekPoint, reading
from gpulsh.io.format import Format, Part
from gpulsh.io.limits import Limit, too_large
from gpulsh.io.output_codec import NewFile, OutputCodec, Sink, compressed_writer

STEP = 1 << 20  # bytes of a file that are split into rows together
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # such a file begins with one of these; no UTF-8 file does

END = b"\n"
LARGE_LINE = 1 << 20  # bytes of a line from which on gpulsh makes no copy of it
SPACE = b" \t\n\r"  # of JSON
Line = bytes | bytearray  # a bytearray if longer than a block


class Beginning:
    """The rows at the beginning of a stream that are a share of the file, and at least one after its `heading`."""

    def __init__(self, file: File, source: BinaryIO, share: float, heading: int = 0) -> None:
        self._source, self._size, self._heading = source, max(file.size() or 0, 1), heading
        self._wanted = share * self._size
        self.taken = 0.0  # share of the file, of the rows so far

    def of(self, groups: Iterable[list[Line]]) -> Iterator[list[Line]]:
        """The first rows of `groups`; of those found in one step of the file, a share."""
        begun = taken = 0
        for end, found in groupby(groups, lambda group: self._source.tell()):
            rows = list(chain.from_iterable(found))
            if rows:
                size = max(end - begun, 1)
                least = max(self._heading + 1 - taken, 0)
                count = min(max(math.ceil(len(rows) * (self._wanted - begun) / size), least), len(rows))
                whole = count == len(rows) and end >= self._size
                self.taken = 1.0 if whole else (begun + size * count / len(rows)) / self._size
                yield rows[:count]
                begun, taken = end, taken + count
            if taken > self._heading and end >= self._wanted:
                return


class Streamed(Format):
    """Files whose bytes are read in order."""

    def __init__(self, compression: Compression = "", encoding: str | None = None) -> None:
        self.compression = compression
        self.encoding = encoding  # of its texts; None is UTF-8
        self._codec = CODECS.get(compression)

    def parts(self, file: File, columns: Columns) -> list[Part] | None:
        """The rows between seek points; None without any."""
        if len(file.seek_points) == 1:
            return None
        with suppress(DamagedInputError):  # the pass in order meets it again, or skips it
            self.check(file, columns)
        return [
            Part(number, point.row, after.row - point.row, after.byte - point.byte, point.line, point.byte)
            for number, (point, after) in enumerate(pairwise(file.seek_points))
        ]

    def _is_divisible(self, file: File) -> bool:
        """Whether it is a plain local file, and none of those that readers refuse as a whole by their first bytes."""
        if self.compression or file.filesystem is not None:
            return False
        with suppress(DamagedInputError), file.open(buffering=0) as source:
            return not next(self._blocks(file, source, HEAD), b"").startswith(UTF16)
        return False

    def takes_codec(self, codec: OutputCodec) -> bool:
        """Whether it is a level of the file's own codec."""
        return codec.name == self._codec and codec.level is not None

    def _blocks(self, file: File, source: BinaryIO, step: int) -> Iterator[bytes]:
        with reading(file):
            yield from blocks(source, self.compression, step, intact_only=file.intact_only)

    def _encoded(self, text: bytes) -> bytes:
        """Text of UTF-8 in the encoding of the file."""
        return text if self.encoding is None else text.decode("utf-8", "replace").encode(self.encoding, "replace")

    def _writer(self, target: NewFile, codec: OutputCodec | None) -> AbstractContextManager[Sink]:
        level = codec.level if codec is not None and self.takes_codec(codec) else None
        return compressed_writer(target, self.compression, level)


def part_of(file: File, part: Part | None) -> tuple[File, SeekPoint]:
    """The file with the bytes of the part alone, and the seek point where it begins."""
    if part is None:
        return file, FIRST
    section = part.byte, part.byte + part.size
    return replace(file, sections=(section,)), SeekPoint(part.start, part.line, part.byte)


def utf16_file(file: File) -> DamagedInputError:
    """The error of a file of UTF-16, whose bytes would be another text."""
    return DamagedInputError(f"{file.name}: is UTF-16; write it as UTF-8")


def whole_lines(
    file: File, source: Iterable[bytes], limit: Limit | None = None, line: Callable[[], int] = lambda: 1
) -> Iterator[tuple[bytearray, bytes]]:
    """Yield lines with their ends: one that began in an earlier block, or nothing, and all that the block holds whole.

    The last line may have no end. In a line that no block holds whole, gpulsh only counts bytes that are not allowed.
    `line` gives the number of the line after those that were yielded, for messages.

    >>> list(whole_lines(File("", "", ""), [b"a\\nb", b"c\\nd\\n", b"e"]))
    [(bytearray(b''), b'a\\n'), (bytearray(b'bc\\n'), b'd\\n'), (bytearray(b'e'), b'')]
    """
    held = bytearray()
    source = iter(source)
    for block in source:
        first = block.find(END) + 1
        size = len(held) + (first - 1 if first else len(block))
        if limit is not None and size > limit.document:
            raise too_large(file, f"line {line()}", size if first else size + _left_of_line(source), limit)
        if not first:
            held += block  # in one place, so that it costs its length once
            continue
        begin = first if held else 0
        end = block.rfind(END) + 1
        held += block[:begin]
        rest, left = block[begin:end], block[end:]
        del block
        yield held, rest
        del rest
        held = bytearray(left)
    if held:
        yield held, b""


def line_begins(file: File, source: Iterable[bytes]) -> Iterator[tuple[int, Line]]:
    """All lines, each with the byte where it begins."""
    begin = 0
    for begun, block in whole_lines(file, source):
        for line in filter(None, (begun, *BytesIO(block))):
            yield begin, line
            begin += len(line)


def _left_of_line(source: Iterator[bytes]) -> int:
    """Bytes up to the next end of a line."""
    size = 0
    for block in source:
        if (end := block.find(END)) >= 0:
            return size + end
        size += len(block)
    return size


def split_lines(
    file: File, source: Iterable[bytes], limit: Limit | None = None, number: int = 1
) -> Iterator[tuple[int, list[Line]]]:
    """Groups of lines, each with its end, and the number of the first; the file's last may have none.

    Blocks of blank lines alone are left out.

    >>> list(split_lines(File("", "", ""), [b"a\\nb", b"c\\n", b"\\n\\n", b"d"]))
    [(1, [b'a\\n']), (2, [b'bc\\n']), (5, [b'd'])]
    """

    def next_line() -> int:
        return number

    for begun, block in whole_lines(file, source, limit, next_line):
        if block.isspace() and (not begun or begun.isspace()):
            number += bool(begun) + block.count(END)
            continue
        lines = list[Line](BytesIO(block).readlines())  # faster than split, above all of long lines
        if begun:
            lines.insert(0, begun if len(begun) > LARGE_LINE else bytes(begun))
        if limit is not None and max(map(len, lines)) > limit.document:
            sizes = [len(line) - line.endswith(END) for line in lines]
            if (size := max(sizes)) > limit.document:
                raise too_large(file, f"line {number + sizes.index(size)}", size, limit)
        del begun, block
        first, number = number, number + len(lines)  # of the next
        yield first, lines
        del lines


def split_elements(file: File, source: Iterable[bytes], limit: Limit | None = None) -> Iterator[list[Line]]:
    """The elements of the array that the content is, without white space around them, a block's together.

    >>> list(split_elements(File("", "", ""), [b'[{"a": 1}, {"b', b'": 2} , 3', b"]"]))
    [[b'{"a": 1}'], [b'{"b": 2}'], [b'3']]
    """

    def refused(detail: str) -> DamagedInputError:
        return DamagedInputError(f"{file.name}: {detail}; give one whole array, or JSON lines")

    source, head = iter(source), b""
    while b"[" not in head:
        head += next(source)
    held, size, state, count = bytearray(), 0, State(), 0
    for block in chain([head[head.index(b"[") + 1 :]], source):
        if state.depth == 0:
            if block.strip(SPACE):
                raise refused("more data follows the end of its array")
            continue
        ends, state = element_ends(block, state)
        found: list[Line] = []
        at = 0
        for end in [*ends.tolist(), len(block)]:
            piece = block[at:end] if held else block[at:end].lstrip(SPACE)
            size += len(piece)
            is_large = limit is not None and size > limit.document
            if is_large:
                held.clear()  # it is only counted
            else:
                held += piece
            at = end + 1
            if len(found) < len(ends):
                if limit is not None and is_large:
                    raise too_large(file, f"element {count + len(found) + 1}", size, limit)
                found.append(_stripped(held))
                held, size = bytearray(), 0
        if state.depth == 0:
            if held:
                raise refused("more data follows the end of its array")
            if not count and found == [b""]:  # an array without elements
                found = []
        count += len(found)
        if found:
            yield found
    if state.depth:
        raise refused("its array does not end; the file is truncated")


def _stripped(held: bytearray) -> Line:
    """An element without the white space after it."""
    if len(held) <= LARGE_LINE:
        return bytes(held.rstrip(SPACE))
    while held[-1:].isspace():  # in pieces, because a copy would be as large
        tail = held[-STEP:]
        del held[len(held) - len(tail) + len(tail.rstrip(SPACE)) :]
    return held
