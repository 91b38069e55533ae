"""Bytes cut where records end, which is not where lines do: a value in quotes may hold any number of line ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from gpulsh.arrays import Numbers

LINE_ENDS = np.frombuffer(b"\n\r", np.uint8)
BOM = b"\xef\xbb\xbf"


class Records(NamedTuple):
    """Whole records `content[begin[i] : end[i]]` with their ends, blank ones left out."""

    content: bytes | bytearray
    begin: Numbers  # int64 [n]
    end: Numbers  # int64 [n]
    line: int  # of the content's first byte, from 1

    def part(self, rows: slice | Numbers) -> Records:
        """Some of the records."""
        return self._replace(begin=self.begin[rows], end=self.end[rows])

    def lines(self) -> Iterator[int]:
        """The line that each record begins in."""
        line, at = self.line, 0
        for begin in self.begin.tolist():
            line += line_ends(self.content[at:begin])
            at = begin
            yield line


class OpenQuoteError(Exception):
    """The file ends within quotes; `line` is the one that the record begins in."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class LongRecordError(Exception):
    """A record from line `line` on has `size` bytes, more than allowed."""

    def __init__(self, line: int, size: int) -> None:
        super().__init__(line, size)
        self.line, self.size = line, size


def split_records(source: Iterable[bytes], delimiter: int, most: int | None = None) -> Iterator[Records]:
    """All records of a file whose content comes in blocks. One of more than `most` bytes is a LongRecordError.

    >>> for records in split_records([b'a,"x', b'y"', b"\\n" + b"b,"], ord(",")):
    ...     print(bytes(records.content), records.begin, records.end)
    b'a,"xy"\\n' [0] [7]
    b'b,' [0] [2]
    """
    from gpulsh.backends.cpu.delimited import BEGIN, QUOTED, record_ends

    source = iter(source)
    head = b""
    while len(head) < len(BOM) and (block := next(source, b"")):
        head += block
    skip = len(BOM) if head.startswith(BOM) else 0
    held = bytearray(head[:skip])
    line, size, state = 1, skip, BEGIN  # size of the record that is held, or was too large for it
    for block in chain([head[skip:]], source):
        ends, state = record_ends(block, delimiter, state)
        first = int(ends[0]) if len(ends) else len(block)
        size += first
        if most is not None and size > most:
            held.clear()
            if len(ends):
                raise LongRecordError(line, size)
            continue
        held += block[:first]
        if not len(ends):
            continue
        yield _filled(held, np.array([size]), line, skip)
        line, skip = line + line_ends(held), 0
        last = int(ends[-1])
        if last > first:
            rest = block[first:last]
            yield _filled(rest, ends[1:] - first, line)
            line += line_ends(rest)
            del rest
        held = bytearray(block[last:])
        size = len(held)
    if state == QUOTED:
        raise OpenQuoteError(line)
    if most is not None and size > most:
        raise LongRecordError(line, size)
    if held:
        yield _filled(held, np.array([size]), line, skip)


def line_ends(content: bytes | bytearray) -> int:
    """How many lines end there: by a newline, a carriage return, or both."""
    returns = content.count(b"\r")
    return content.count(b"\n") + (returns - content.count(b"\r\n") if returns else 0)


def _filled(content: bytes | bytearray, end: Numbers, line: int, skip: int = 0) -> Records:
    begin = np.concatenate([[skip], end[:-1]])
    first = np.frombuffer(memoryview(content).toreadonly(), np.uint8)[np.minimum(begin, len(content) - 1)]
    filled = ~np.isin(first, LINE_ENDS) & (begin < end)
    return Records(content, begin[filled], end[filled], line)
