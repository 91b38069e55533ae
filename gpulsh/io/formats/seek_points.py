"""Seek points in a large file of lines: places from which its rows are read without the rows before them.

To find them reads the file once, which takes a small part of the time of parsing its lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from gpulsh.backends.parallel import processors
from gpulsh.io.file import FIRST, File, SeekPoint, reading
from gpulsh.io.formats.json_record import is_blank
from gpulsh.memory_limit import fitting_threads

BLOCK = 1 << 20  # bytes that a thread reads at once
MOST_POINTS = 1 << 12
NEWLINE, LAST_SPACE = ord("\n"), ord(" ")


class _Lines(NamedTuple):
    """The lines of a stretch of bytes. Rows are lines that are not blank."""

    ends: int = 0
    rows: int = 0  # that begin and end in the stretch
    head: bool = False  # whether the line that it begins in has more than white space there
    tail: bool = False  # the same of the line that it ends in
    stop: int = 0  # the byte after the last end

    def then(self, after: _Lines) -> _Lines:
        """The lines of this stretch and the next."""
        if not self.ends:
            head = self.head or after.head
            return after._replace(head=head, tail=after.tail if after.ends else head)
        if not after.ends:
            return self._replace(tail=self.tail or after.head)
        rows = self.rows + (self.tail or after.head) + after.rows
        return _Lines(self.ends + after.ends, rows, self.head, after.tail, after.stop)


def find_seek_points(
    file: File, least: int, advance: Callable[[int], None], block: int = BLOCK
) -> tuple[SeekPoint, ...]:
    """The first row of a local file, further rows about `least` bytes apart, and the end.

    `advance` gets the bytes as they are read.
    """
    size, found, lines = os.path.getsize(file.path), [FIRST], _Lines()
    step = max(least, size // MOST_POINTS)
    starts = range(0, size, step)
    threads = fitting_threads(processors())
    with reading(file), file.open(0) as source, ThreadPoolExecutor(threads) as pool:
        stretches = pool.map(partial(_lines_of, source.fileno(), step, block), starts)
        try:
            for start, lines in zip(starts, accumulate(stretches, _Lines.then), strict=True):
                advance(min(step, size - start))
                if lines.stop > found[-1].byte:
                    found.append(SeekPoint(lines.head + lines.rows, 1 + lines.ends, lines.stop))
        finally:
            pool.shutdown(cancel_futures=True)  # after Ctrl-C, the rest of a large file would be read
    if lines.stop < size:
        found.append(SeekPoint(found[-1].row + lines.tail, found[-1].line + 1, size))
    return tuple(found)


def _lines_of(handle: int, size: int, block: int, start: int) -> _Lines:
    """The lines of the `size` bytes from `start` on."""
    places = range(start, start + size, block)
    found = (_lines_in(os.pread(handle, min(block, start + size - at), at), at) for at in places)
    return reduce(_Lines.then, found, _Lines())


def _lines_in(block: bytes, at: int) -> _Lines:
    values = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(values == NEWLINE)
    number = 1 if at == 0 else 2  # only the first line may have a mark of UTF-8
    if not len(ends):
        head = not is_blank(number, block)
        return _Lines(head=head, tail=head)
    begins, stops, last = ends[:-1] + 1, ends[1:] + 1, int(ends[-1]) + 1
    if block.isspace():  # a look at each of a million lines would take a second
        return _Lines(len(ends), stop=at + last)
    first = values[begins]
    some = np.flatnonzero((first <= LAST_SPACE) & (first != NEWLINE))  # they may be blank; with an end there, they are
    blank = int(np.count_nonzero(first == NEWLINE))
    blank += sum(block[start:stop].isspace() for start, stop in zip(begins[some], stops[some], strict=True))
    head, tail = not is_blank(number, block[: ends[0]]), not is_blank(2, block[last:])
    return _Lines(len(ends), len(begins) - blank, head, tail, at + last)
