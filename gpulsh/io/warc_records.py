"""Records of WARC files, plain or gzip, with the bytes that hold each.

They are framed here: a reader that takes a record cut short for a shorter record would lose text and say nothing. What
is broken is told, and reading goes on at the next record that can be found: by its first line, or, where compressed
data is broken, by the next gzip member that begins with one.

WARC 1.0 and 1.1: https://iipc.github.io/warc-specifications/
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

from gpulsh.io.members import GZIP, PLAIN_STEP, DamagedMember, gzip_begin, gzip_pieces, next_member, whole_members
from gpulsh.io.rows import Bytes

FIRST = b"WARC/"
END = b"\r\n\r\n"  # of a record's header, and of the record
MOST_HEADER = 1 << 20
FIRST_LINE = re.compile(rb"\nWARC/\d\.\d\r\n")
HEAD_END = re.compile(END + b"|" + FIRST_LINE.pattern)  # the latter begins another record: the header is cut short
NO_LINE_END = re.compile(rb"[^\r\n]")
LONGEST_LINE = 11
LARGE = 1 << 20  # bytes of a record that are not copied once more
MOST_BEHIND = 8 << 20  # bytes of a record behind others of a gzip member that is held: that member cannot be copied
MOST_AGAIN = 16  # times that a gzip member is read again, for the length of a record in it was wrong
SHOWN = 64 << 10  # of a large record, enough for the headers of HTTP

Broken = Callable[[int, str], None]  # is told the byte and what is wrong there


@dataclass(frozen=True)
class Record:
    """A record as it stands in the file, decompressed."""

    offset: int  # byte of the file where it, or the gzip member that holds it, begins
    headers: Mapping[str, tuple[str, ...]]  # by name in lower case
    raw: Bytes  # header, content and the two line ends behind it; the first SHOWN bytes of it where it is not held
    content: Bytes
    size: int  # bytes of the content
    span: tuple[int, int] | None  # bytes of the file that hold this record alone, in gzip members of its own
    skip: int = 0  # bytes of content from `offset` to where it begins, where it is not held
    whole: int = 0  # bytes of header, content and the line ends behind it, where it is not held
    held: bool = True

    def header(self, name: str) -> str | None:
        """The first value of a header, whose name is in any case."""
        return self.headers.get(name.lower(), (None,))[0]


Wanted = Callable[[Record], bool]


def warc_records(
    source: BinaryIO,
    compressed: bool,
    broken: Broken,
    wanted: Wanted = lambda record: True,
    *,
    checked: bool = False,
    aside: Callable[[], BinaryIO] | None = None,
) -> Iterator[Record]:
    """All records in order; `broken` is called for each stretch of the file that is none. Of a gzip member that is
    damaged records may come before that shows, unless it is `checked`: then none does. `aside` opens the file again.

    A record of more than LARGE bytes is held only where `wanted` says so, which is shown its beginning; of
    MOST_BEHIND bytes where it begins inside a gzip member, behind other records.
    """
    start: int | None = 0
    skip = again = 0
    in_broken = doubted = False
    broken_at = -1
    while start is not None:
        blocks = _members(source, start, checked) if compressed else _plain(source, start)
        start = None
        try:
            content = _Content(blocks, compressed, aside if doubted and not compressed else None)
            content.trusted = again < MOST_AGAIN
            while content.begin():
                if in_broken:
                    in_broken = False
                    content.pass_over(skip)
                    _pass_broken(content)
                yield from _records(content, broken, wanted)
        except _BrokenPassedRecord as error:
            broken(error.offset, str(error))
            again = again + 1 if error.offset == broken_at else 0
            start, in_broken, doubted, skip, broken_at = error.offset, True, True, error.skip, error.offset
        except DamagedMember as error:
            broken(error.offset, error.told)
            start = next_member(source, error.offset + 1, GZIP, _is_record)


def record_bytes(source: BinaryIO, compressed: bool, record: Record) -> Iterator[bytes]:
    """A record that is not held, whole, in pieces; fewer bytes where the file has changed."""
    left, skip = record.whole, record.skip
    for _, block in _members(source, record.offset) if compressed else _plain(source, record.offset):
        piece = block[skip : skip + left]
        skip -= min(skip, len(block))
        left -= len(piece)
        yield piece
        if not left:
            return


class _BrokenRecord(Exception):
    pass


class _BrokenPassedRecord(Exception):
    def __init__(self, offset: int, skip: int, told: str) -> None:
        super().__init__(told)
        self.offset, self.skip = offset, skip


class _Content:
    """Decompressed content in runs; a run begins where the file or a gzip member begins with a record.

    A record never reaches beyond its run, so that a length that is wrong cannot take the rest of a file into memory.
    """

    def __init__(
        self, blocks: Iterator[tuple[int, bytes]], compressed: bool, doubted: Callable[[], BinaryIO] | None
    ) -> None:
        self.held = bytearray()  # of the run, from the place that is read next
        self.place = 0  # of it, bytes from the run's begin
        self.compressed = compressed
        self.trusted = True  # whether the length of a record that is passed over may be wrong: then all is read again
        self._doubted = doubted  # opens the file where a length in it was wrong and others are looked up before
        self._aside: BinaryIO | None = None
        self._blocks = blocks
        self._next: tuple[int, bytes] | None = next(blocks)  # behind the run, once the run was read to its end
        self._damaged: DamagedMember | None = None  # behind the run
        self._begins: deque[tuple[int, int]] = deque()  # of members: place, and byte of the file
        self._borders: dict[int, int] = {}  # the same

    def begin(self) -> bool:
        """Go on to the next run; False where there is none."""
        if self._damaged is not None:
            raise self._damaged
        if self._next is None or not self._next[1]:
            return False
        (start, block), self._next = self._next, None
        self.held, self.place, self._begins, self._borders = bytearray(block), 0, deque([(0, start)]), {0: start}
        return True

    def offset(self) -> int:
        """Where in the file the place is, as `Record.offset` says it."""
        while len(self._begins) > 1 and self._begins[1][0] <= self.place:
            del self._borders[self._begins.popleft()[0]]
        return self._begins[0][1] + (0 if self.compressed else self.place)

    def skip(self) -> int:
        """How many bytes of content lie between the byte of `offset` and the place."""
        self.offset()
        return self.place - self._begins[0][0] if self.compressed else 0

    def border(self, count: int = 0) -> int | None:
        """The byte of the file where what lies `count` bytes ahead begins; None inside a gzip member."""
        if not self.compressed:
            return self._begins[0][1] + self.place + count
        if self._next is not None and count == len(self.held):
            return self._next[0]
        return self._borders.get(self.place + count)

    def check_end(self, count: int, size: int) -> None:
        """A _BrokenRecord where lengths are doubted and a record of `count` bytes does not end there: many lengths that
        are wrong would each cost the rest of the file.
        """
        if self._doubted is None:
            return
        if self._aside is None:
            self._aside = self._doubted()
        self._aside.seek(self.offset() + count - 1)
        last = self._aside.read(1 + len(END))
        if not last:
            raise _BrokenRecord(f"the record is cut short: the file ends before its {size} bytes")
        _check_end(size, size, last[1:])

    def pass_over(self, count: int) -> int:
        """Go on behind the first `count` bytes, which are never held together; how many the run had."""
        left = count
        while left and self.fill(1):
            step = min(left, len(self.held))
            self.take(step)
            left -= step
        return count - left

    def fill(self, count: int) -> bool:
        """Hold `count` bytes; False where the run has fewer."""
        while len(self.held) < count:
            if self._next is not None:
                return False
            try:
                start, block = next(self._blocks)
            except DamagedMember as error:
                if error.offset == self._begins[-1][1]:
                    raise
                self._damaged, self._next = error, (error.offset, b"")
                return False
            new = start != self._begins[-1][1]
            if not block or (new and block.startswith(FIRST)):
                self._next = start, block
                return False
            if new:
                self._begins.append((self.place + len(self.held), start))
                self._borders[self.place + len(self.held)] = start
            self.held += block
        return True

    def take(self, count: int) -> Bytes:
        """The first `count` bytes."""
        self.place += count
        if count < LARGE or 2 * count < len(self.held):
            taken: Bytes = bytes(memoryview(self.held)[:count])
            del self.held[:count]
            return taken
        taken, self.held = memoryview(self.held)[:count], self.held[count:]
        return taken


def _plain(source: BinaryIO, start: int) -> Iterator[tuple[int, bytes]]:
    """Blocks with the start of what they belong to, and at the end a block of nothing with the file's size."""
    source.seek(start)
    size = start
    while block := source.read(PLAIN_STEP):
        size += len(block)
        yield start, block
    yield size, b""


def _members(source: BinaryIO, start: int, checked: bool = False) -> Iterator[tuple[int, bytes]]:
    """As `_plain`, of gzip members from byte `start` on. The first block of a member shows whether a record begins."""
    begun = -1
    first, shown = b"", False
    for begin, block, end in whole_members(gzip_pieces, source, start) if checked else gzip_pieces(source, start):
        if begin != begun:
            begun, first, shown = begin, b"", False
        if not shown:
            block = first = first + block
            shown = len(block) >= len(FIRST) or end is not None
        if block and shown:
            yield begin, block
    yield source.tell(), b""


def _is_record(packed: bytes) -> bool:
    return gzip_begin(packed, len(FIRST)) == FIRST


def _records(content: _Content, broken: Broken, wanted: Wanted) -> Iterator[Record]:
    """The records of a run."""
    while True:
        _pass_line_ends(content)
        if not content.fill(1):
            return
        try:
            record = _record(content, wanted)
        except _BrokenRecord as error:
            broken(content.offset(), str(error))
            _pass_broken(content)
        else:
            yield record
            del record  # before the next one is read


def _pass_line_ends(content: _Content) -> None:
    while content.fill(1):
        other = NO_LINE_END.search(content.held)
        content.take(len(content.held) if other is None else other.start())
        if other is not None:
            return


def _pass_broken(content: _Content) -> None:
    """On to the next line that begins a record."""
    while True:
        found = FIRST_LINE.search(content.held)
        if found:
            content.take(found.start() + 1)
            return
        content.take(max(len(content.held) - LONGEST_LINE, 0))
        if not content.fill(len(content.held) + 1):
            content.take(len(content.held))
            return


def _record(content: _Content, wanted: Wanted) -> Record:
    if not (content.fill(len(FIRST)) and content.held.startswith(FIRST)):
        raise _BrokenRecord("no WARC record begins here")
    searched = 0
    while (found := HEAD_END.search(content.held, searched)) is None:
        searched = max(len(content.held) - LONGEST_LINE, 0)
        if searched > MOST_HEADER:
            raise _BrokenRecord("the header of the record has no end")
        if not content.fill(len(content.held) + 1):
            raise _BrokenRecord("the record is cut short in its header")
    head = found.end()
    if found[0] != END:
        raise _BrokenRecord("the record is cut short in its header")
    headers = _headers(bytes(content.held[:head]))
    length = headers.get("content-length", ("none",))[0].strip()
    if not (length.isascii() and length.isdigit()):
        raise _BrokenRecord(f"the Content-Length of the record is {length}; it must be a number of bytes")
    size = int(length)
    end = head + size
    begin = content.border()
    if size > (LARGE if begin is not None else MOST_BEHIND):
        content.fill(min(end, head + SHOWN))
        shown = bytes(memoryview(content.held)[: min(end, head + SHOWN)])
        skip = content.skip()
        beginning = Record(content.offset(), headers, shown, memoryview(shown)[head:], size, None, skip, held=False)
        content.check_end(end, size)
        if not wanted(beginning):
            if begin is None and not content.trusted:
                raise _BrokenRecord(f"its {length} bytes are not looked for behind so many wrong lengths")
            behind_it = _pass_record(content, end, head)
            stop = content.border()
            return replace(
                beginning, span=None if begin is None or stop is None else (begin, stop), whole=end + behind_it
            )
    there = content.fill(end)
    content.fill(end + len(END))
    behind = bytes(content.held[end : end + len(END)])
    _check_end(size if there else len(content.held) - head, size, behind)
    end_behind = end + len(behind)
    content.fill(end_behind + 1)  # shows whether a gzip member ends here, and whether it ends well
    offset, stop = content.offset(), content.border(end_behind)
    raw = content.take(end_behind)
    span = None if begin is None or stop is None else (begin, stop)
    return Record(offset, headers, raw, memoryview(raw)[head:end], size, span)


def _pass_record(content: _Content, end: int, head: int) -> int:
    """Go on behind a record that ends at `end` and the line ends behind it, of which it tells how many there are."""
    offset, skip = content.offset(), content.skip()
    passed = content.pass_over(end)
    content.fill(len(END))
    behind = bytes(content.held[: len(END)])
    try:
        _check_end(passed - head, end - head, behind)
    except _BrokenRecord as error:
        raise _BrokenPassedRecord(offset, skip, str(error)) from None
    content.take(len(behind))
    content.fill(1)
    return len(behind)


def _check_end(found: int, size: int, behind: bytes) -> None:
    """A _BrokenRecord where the content is shorter than `size`, or something else than line ends is `behind` it."""
    if found < size:
        raise _BrokenRecord(f"the record is cut short: {found} of {size} bytes")
    if behind != END and (len(behind) == len(END) or behind.strip(b"\r\n")):
        raise _BrokenRecord(f"the record does not end after the {size} bytes that its header tells")


def _headers(head: bytes) -> dict[str, tuple[str, ...]]:
    """Values by name in lower case; each is joined once, however many lines it goes on for."""
    found: dict[str, list[list[str]]] = {}
    last: list[str] = []
    for line in head.decode("utf-8", "replace").split("\r\n")[1:]:
        if line[:1] in (" ", "\t") and last:  # goes on with the line above
            last.append(line.strip())
        elif ":" in line:
            name, value = (part.strip() for part in line.split(":", 1))
            last = [value]
            found.setdefault(name.lower(), []).append(last)
    return {name: tuple(map(" ".join, values)) for name, values in found.items()}
