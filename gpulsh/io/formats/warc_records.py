"""Records of WARC files, plain or gzip, with the bytes that hold each.

gpulsh reports a broken record and continues at the next one. It finds that by its first line or, after broken
compressed data, by the next gzip member that begins with one.

Rejected: framing by FastWARC. It hands out a record that is cut short, or has a wrong length, as a whole one, so text
would be lost in silence. It cannot continue after broken data, and in a member of several records it names no places.

WARC 1.0 and 1.1: https://iipc.github.io/warc-specifications/
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple

from gpulsh.io.compression import (
    GZIP,
    PLAIN_STEP,
    DamagedMember,
    find_member,
    gzip_start,
    intact_members,
    member_pieces,
)
from gpulsh.io.rows import Bytes

FIRST = b"WARC/"
END = b"\r\n\r\n"  # of a record's header, and of the record
MAX_HEADER = 1 << 20
FIRST_LINE = re.compile(rb"\nWARC/\d\.\d\r\n")
LONGEST_LINE = 11
LAST_LINE = re.compile(b"(?s:.*)(" + FIRST_LINE.pattern + b")")
HEAD_END = re.compile(END + b"|" + FIRST_LINE.pattern)  # the latter begins another record: the header is cut short
SIZE = re.compile("[0-9]{1,18}")
NO_LINE_END = re.compile(rb"[^\r\n]")
CONTINUED = re.compile(r"\r\n[ \t]+")
LARGE = 8 << 20  # a record of more bytes is never held; they are read again where needed
SHOWN = 1 << 20  # of a large record, enough for the headers of HTTP

Broken = Callable[[int, str], None]  # takes the byte and the error there


class Record(NamedTuple):
    """A record of the file, decompressed."""

    offset: int  # byte of the file where it, or the gzip member that holds it, begins
    skip: int  # bytes of decompressed data from `offset` to where it begins
    headers: Mapping[str, Sequence[str]]  # by name in lower case
    raw: bytes  # header, content and the two line ends after it; only the beginning of it if it is large
    head: int  # bytes of the header
    size: int  # of the content
    whole: int  # of header, content and the line ends after it
    span: tuple[int, int] | None  # bytes of the file that hold it alone, in gzip members of its own

    def header(self, name: str) -> str | None:
        """The first value of a header, whose name is in any case."""
        return self.headers.get(name.lower(), (None,))[0]

    @property
    def content(self) -> Bytes:
        """The content, of a record that is held."""
        return memoryview(self.raw)[self.head : self.head + self.size]


def warc_records(source: BinaryIO, compressed: bool, broken: Broken, *, checked: bool = False) -> Iterator[Record]:
    """All records in order. `broken` is called once for damage between two records.

    Records of a damaged gzip member may come before the damage shows; with `checked` none of them does.
    """
    start: int | None = 0
    in_broken = False  # the damage was reported, and no record came since

    def report(offset: int, reason: str) -> None:
        nonlocal in_broken
        if not in_broken:
            broken(offset, reason)
        in_broken = True

    while start is not None:
        try:
            content = _Content(source, compressed, start, checked)
            start = None
            while content.begin():
                while content.skip_line_ends():
                    try:
                        record = _record(content)
                    except _BrokenRecord as error:
                        report(error.offset, str(error))
                        content.skip_to_record()
                    else:
                        in_broken = False
                        yield record
                        del record  # before the next one is read
        except DamagedMember as error:
            report(error.offset, error.message)
            start = find_member(source, error.offset + 1, GZIP, lambda packed: gzip_start(packed, len(FIRST)) == FIRST)


def record_bytes(source: BinaryIO, compressed: bool, record: Record) -> Iterator[bytes]:
    """A record that is not held, whole, in pieces; fewer bytes where the file has changed."""
    left, skip = record.whole, record.skip
    for _, block in _blocks(source, compressed, record.offset):
        piece = block[skip : skip + left]
        skip -= min(skip, len(block))
        left -= len(piece)
        yield piece
        if not left:
            return


class _BrokenRecord(Exception):
    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


class _Content:
    """Decompressed content in runs. A run begins where the file, or a gzip member, begins with a record.

    A record never reaches beyond its run, so that a wrong length does not take the rest of a file into memory.
    """

    def __init__(self, source: BinaryIO, compressed: bool, start: int, checked: bool) -> None:
        self.held = bytearray()  # of the run, from the place that is read next
        self.compressed = compressed
        self._source, self._blocks = source, _blocks(source, compressed, start, checked)
        self._next: tuple[int, bytes] | None = next(self._blocks)  # behind the run, once the run was read to its end
        # Behind the run: offset and message. The error itself would refer to this object, through its traceback.
        self._damaged: tuple[int, str] | None = None
        self._place = 0  # of the run, in bytes of content
        self._begins: deque[tuple[int, int]] = deque()  # of members: place in the run, and byte of the file

    def begin(self) -> bool:
        """Go on to the next run; False if there is none."""
        if self._damaged is not None:
            raise DamagedMember(*self._damaged)
        if self._next is None or not self._next[1]:
            return False
        (start, block), self._next = self._next, None
        self.held, self._place, self._begins = bytearray(block), 0, deque([(0, start)])
        return True

    def offset(self) -> int:
        """The next byte of the file, or the beginning of its gzip member."""
        return self._begins[0][1] + (0 if self.compressed else self._place)

    def skip(self) -> int:
        """How many bytes of content are between `offset` and the place."""
        return self._place - self._begins[0][0] if self.compressed else 0

    def border(self, count: int = 0) -> int | None:
        """The byte of the file that is `count` bytes of content ahead; None inside a gzip member."""
        if not self.compressed:
            return self.offset() + count
        if self._next is not None and count == len(self.held):
            return self._next[0]
        for place, start in self._begins:
            if place == self._place + count:
                return start
        return None

    def ahead(self, count: int) -> tuple[int, bytes]:
        """How many bytes of a plain file are left, and the few that follow `count` bytes ahead."""
        left = self._source.seek(0, os.SEEK_END) - self.offset()
        self._source.seek(self.offset() + min(count, left))
        return left, self._source.read(len(END))

    def fill(self, count: int) -> bool:
        """Hold `count` bytes; False if the run has fewer."""
        while len(self.held) < count:
            if self._next is not None:
                return False
            last = self._begins[-1][1]
            try:
                start, block = next(self._blocks)
            except DamagedMember as error:
                if error.offset == last:
                    raise
                self._damaged, self._next = (error.offset, error.message), (error.offset, b"")
                return False
            new = start != last
            if not block or (new and block.startswith(FIRST)):
                self._next = start, block
                return False
            if new:
                self._begins.append((self._place + len(self.held), start))
            self.held += block
        return True

    def take(self, count: int) -> bytes:
        """The first `count` bytes."""
        self._place += count
        while len(self._begins) > 1 and self._begins[1][0] <= self._place:
            self._begins.popleft()
        taken = bytes(memoryview(self.held)[:count])
        del self.held[:count]
        return taken

    def skip_bytes(self, count: int) -> int:
        """Skip the next `count` bytes, which are never held together; how many of them the run had."""
        left = count
        while left and self.fill(1):
            step = min(left, len(self.held))
            self.take(step)
            left -= step
        return count - left

    def skip_line_ends(self) -> bool:
        """Skip line ends; False at the end of the run."""
        while self.fill(1):
            other = NO_LINE_END.search(self.held)
            if before := len(self.held) if other is None else other.start():
                self.take(before)
            if other is not None:
                return True
        return False

    def skip_to_record(self) -> None:
        """Go on to the next line that may begin a record, or to the end of the run."""
        while (found := FIRST_LINE.search(self.held)) is None:
            self.take(max(len(self.held) - LONGEST_LINE, 0))
            if not self.fill(len(self.held) + 1):
                self.take(len(self.held))
                return
        # Of first lines without the end of a header between them, only the last may begin a whole record.
        end = self.held.find(END, found.end() - 2)
        last = LAST_LINE.match(self.held, found.start(), len(self.held) if end < 0 else end + 2)
        assert last is not None
        self.take(last.start(1) + 1)


def _blocks(source: BinaryIO, compressed: bool, start: int, checked: bool = False) -> Iterator[tuple[int, bytes]]:
    """Blocks of content, each with the start of the gzip member or plain file that it belongs to.

    The first block of a member shows whether a record begins. The last block is empty and has the file's size.
    """
    if not compressed:
        end = start
        while block := source.read(PLAIN_STEP) if source.seek(end) == end else b"":
            end += len(block)
            yield start, block
        yield end, b""
        return
    begun, first, shown = -1, b"", False
    for begin, block, stop in (intact_members if checked else member_pieces)("gz", source, start):
        if begin != begun:
            begun, first, shown = begin, b"", False
        if not shown:
            block = first = first + block
            shown = len(block) >= len(FIRST) or stop is not None
        if block and shown:
            yield begin, block
    yield source.tell(), b""


def _record(content: _Content) -> Record:
    """The next record. After a broken one, `content` is at its beginning, or after all that was read of it."""
    offset, skip, begin = content.offset(), content.skip(), content.border()
    headers, head = _header(content)
    length = headers.get("content-length", ["none"])[0]
    if SIZE.fullmatch(length) is None:
        raise _BrokenRecord(offset, f"the Content-Length of the record is {length[:32]}; it must be a number of bytes")
    size = int(length)
    end = head + size
    if size <= LARGE:
        found = size if content.fill(end) else len(content.held) - head
        content.fill(end + len(END))
        behind = bytes(content.held[end : end + len(END)])
        _check_end(offset, found, size, behind)
        whole = end + len(behind)
        content.fill(whole + 1)  # shows whether a gzip member ends here, and whether it ends well
        stop = content.border(whole)
        raw = content.take(whole)
    else:
        if not content.compressed:
            left, behind = content.ahead(end)
            _check_end(offset, min(left - head, size), size, behind)
        content.fill(SHOWN)
        raw = bytes(memoryview(content.held)[: min(end, SHOWN)])
        # One byte stays: a line end after which the next record may begin.
        found = content.skip_bytes(end - 1) + content.fill(1)
        content.fill(1 + len(END))
        behind = bytes(content.held[1 : 1 + len(END)])
        _check_end(offset, found - head, size, behind)
        whole = end + len(behind)
        content.take(1 + len(behind))
        content.fill(1)
        stop = content.border()
    span = None if begin is None or stop is None else (begin, stop)
    return Record(offset, skip, headers, raw, head, size, whole, span)


def _header(content: _Content) -> tuple[dict[str, list[str]], int]:
    """The header of the next record, and how many bytes it has."""
    if not (content.fill(len(FIRST)) and content.held.startswith(FIRST)):
        raise _BrokenRecord(content.offset(), "no WARC record begins here")
    searched = 0
    while (found := HEAD_END.search(content.held, searched)) is None:
        searched = max(len(content.held) - LONGEST_LINE, 0)
        if searched > MAX_HEADER:
            raise _BrokenRecord(content.offset(), "the header of the record has no end")
        if not content.fill(len(content.held) + 1):
            break
    if found is None or found[0] != END:
        raise _BrokenRecord(content.offset(), "the record is cut short in its header")
    text = bytes(content.held[: found.end()]).decode("utf-8", "replace")
    if "\n " in text or "\n\t" in text:  # lines that go on
        text = CONTINUED.sub(" ", text)
    headers: dict[str, list[str]] = {}
    for line in text.split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(name.strip().lower(), []).append(value.strip())
    if len(headers.get("warc-type", ())) > 1:  # within a line, the next record begins
        raise _BrokenRecord(content.offset(), "the record is cut short in its header, or has two headers WARC-Type")
    return headers, found.end()


def _check_end(offset: int, found: int, size: int, behind: bytes) -> None:
    """A _BrokenRecord if the content is shorter than `size`, or something other than line ends is `behind` it."""
    if found < size:
        raise _BrokenRecord(offset, f"the record is cut short: {found} of {size} bytes")
    if behind != END and (len(behind) == len(END) or behind.strip(b"\r\n")):
        raise _BrokenRecord(offset, f"the record does not end after the {size} bytes that its header states")
