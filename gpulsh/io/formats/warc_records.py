"""Records of WARC files, plain or gzip, with the bytes that hold each.

They are framed here: a reader that takes a record cut short for a shorter record would lose text in silence.
What is broken is reported, and reading goes on at the next record that can be found: by its first line, or, where
compressed data is broken, by the next gzip member that begins with one.

WARC 1.0 and 1.1: https://iipc.github.io/warc-specifications/
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from gpulsh.io.compression import GZIP, PLAIN_STEP, DamagedMember, gzip_begin, gzip_pieces, next_member, whole_members
from gpulsh.io.rows import Bytes

FIRST = b"WARC/"
LINE_END = b"\r\n"
END = 2 * LINE_END  # of a record's header, and of the record
MOST_HEADER = 1 << 20
FIRST_LINE = re.compile(rb"\nWARC/\d\.\d\r\n")
LAST_FIRST_LINE = re.compile(b"(?s:.*)" + FIRST_LINE.pattern)
LENGTH = re.compile(rb"-(?i:length)")  # of Content-Length, without which a header is none
HEAD_END = re.compile(END + b"|" + FIRST_LINE.pattern)  # the latter begins another record: the header is cut short
NO_LINE_END = re.compile(rb"[^\r\n]")
LONGEST_LINE = 11
LARGE = 1 << 20  # bytes of a record that are not copied once more
MOST_BEHIND = 8 << 20  # bytes of a record behind others of a gzip member that is held: that member cannot be copied
MOST_VAIN = 1 << 30  # bytes read for lengths that were wrong, after which large records are not looked for, and
VAIN_SHARE = 16  # more of them for each byte of the file
MEMBER_COST = 4 << 10  # bytes that are read in the time that a gzip member takes
MOST_MEMBERS = 1 << 16  # that one record lies in: what is known of each takes ten times its bytes in the file
MANY_MEMBERS = "the record lies in too many gzip members"
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
    """All records in order; `broken` is called for each stretch of the file between two of them that is none, with
    where it begins and what is wrong there. Of a gzip member that is damaged records may come before that shows, unless
    it is `checked`: then none does. `aside` opens the file again.

    A record of more than LARGE bytes is held only where `wanted` says so, which is shown its beginning; of
    MOST_BEHIND bytes where it begins inside a gzip member, behind other records.
    """
    start: int | None = 0
    skip = 0
    in_broken = doubted = False
    stretch, vain = _Stretch(broken), _Vain()
    while start is not None:
        blocks = _members(source, start, checked) if compressed else _plain(source, start)
        start = None
        try:
            content = _Content(blocks, compressed, aside if doubted and not compressed else None, vain)
            while content.begin():
                if in_broken:
                    in_broken = False
                    content.pass_over(skip)
                    _pass_broken(content)
                yield from _records(content, stretch, wanted)
        except _BrokenPassedRecord as error:
            stretch.tell(error.offset, str(error))
            start, in_broken, doubted, skip = error.offset, True, True, error.skip
        except DamagedMember as error:
            stretch.tell(error.offset, error.told)
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


class _Stretch:
    """Reports what is broken, once up to the next record: a file may hold nothing but beginnings of records."""

    def __init__(self, broken: Broken) -> None:
        self._broken, self._told = broken, False

    def tell(self, offset: int, told: str) -> None:
        """Something is broken here."""
        if not self._told:
            self._told = True
            self._broken(offset, told)

    def end(self) -> None:
        """Here is a record."""
        self._told = False


class _Vain:
    """Counts what was read in vain for wrong lengths of large records: each may cost the rest of the file."""

    def __init__(self) -> None:
        self._read = 0

    def add(self, size: int, members: int) -> None:
        """So many bytes of content in so many gzip members, whether they were held or passed over."""
        self._read += size + MEMBER_COST * members

    def too_much(self, offset: int) -> bool:
        """For what is read of the file, up to that byte."""
        return self._read > MOST_VAIN + VAIN_SHARE * offset


class _BrokenPassedRecord(Exception):
    def __init__(self, offset: int, skip: int, told: str) -> None:
        super().__init__(told)
        self.offset, self.skip = offset, skip


class _Content:
    """Decompressed content in runs; a run begins where the file or a gzip member begins with a record.

    A record never reaches beyond its run, so that a length that is wrong cannot take the rest of a file into memory.
    """

    def __init__(
        self, blocks: Iterator[tuple[int, bytes]], compressed: bool, doubted: Callable[[], BinaryIO] | None, vain: _Vain
    ) -> None:
        self.held = bytearray()  # of the run, from the place that is read next
        self.place = 0  # of it, bytes from the run's begin
        self.members = 0  # that lie behind
        self.compressed = compressed
        self.vain = vain
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
        return self._begins[0][1] + (0 if self.compressed else self.place)

    def skip(self) -> int:
        """How many bytes of content lie between the byte of `offset` and the place."""
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

    def pass_over(self, count: int, most: int | None = None) -> int:
        """Go on behind the first `count` bytes, which are never held together; how many the run had, or how many were
        in more than `most` members.
        """
        left, first = count, self.members
        while left and self.fill(1) and (most is None or self.members - first <= most):
            step = min(left, len(self.held))
            self.take(step)
            left -= step
        return count - left

    def fill(self, count: int) -> bool:
        """Hold `count` bytes; False where the run has fewer. A _BrokenRecord where they lie in too many members."""
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
            if len(self._begins) > 2 * MOST_MEMBERS:  # nearly all of them before `count`
                raise _BrokenRecord(MANY_MEMBERS)
        return True

    def members_ahead(self, count: int) -> int:
        """How many members end before or where what lies `count` bytes ahead begins."""
        return sum(place <= self.place + count for place, _ in self._begins) - 1

    def check_members(self, count: int) -> None:
        """A _BrokenRecord where what lies `count` bytes ahead is more than MOST_MEMBERS members away."""
        if len(self._begins) > MOST_MEMBERS + 1 and self._begins[MOST_MEMBERS + 1][0] <= self.place + count:
            raise _BrokenRecord(MANY_MEMBERS)

    def take(self, count: int) -> Bytes:
        """The first `count` bytes."""
        self.place += count
        while len(self._begins) > 1 and self._begins[1][0] <= self.place:
            del self._borders[self._begins.popleft()[0]]
            self.members += 1
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


def _records(content: _Content, stretch: _Stretch, wanted: Wanted) -> Iterator[Record]:
    """The records of a run."""
    while True:
        _pass_line_ends(content)
        if not content.fill(1):
            return
        try:
            record = _record(content, wanted)
        except _BrokenRecord as error:
            stretch.tell(content.offset(), str(error))
            _pass_broken(content)
        else:
            stretch.end()
            yield record
            del record  # before the next one is read


def _pass_line_ends(content: _Content) -> None:
    while content.fill(1):
        other = NO_LINE_END.search(content.held)
        if before := len(content.held) if other is None else other.start():
            content.take(before)
        if other is not None:
            return


def _pass_broken(content: _Content) -> None:
    """On to the next line that may begin a record."""
    while (begin := _next_begin(content.held)) is None:
        content.take(max(len(content.held) - LONGEST_LINE, 0))
        if not content.fill(len(content.held) + 1):
            content.take(len(content.held))
            return
    content.take(begin)


def _next_begin(held: bytearray) -> int | None:
    """Where the first record can begin whose header is whole and tells a length, or has no end in what is held.

    A header ends at the first END, or without one at the next first line. So what is looked for is a length behind a
    first line, the end behind that, and the last first line before it: each byte is searched a few times, however many
    first lines there are.
    """
    at = 0
    while first := FIRST_LINE.search(held, at):
        length = LENGTH.search(held, first.end())
        end = held.find(END, length.end()) if length else -1
        last = LAST_FIRST_LINE.match(held, first.start(), len(held) if end < 0 else end + len(LINE_END))
        assert last is not None  # the first one, where there is no other
        begin, behind = last.end() - LONGEST_LINE + 1, last.end() - len(LINE_END)
        if length is None or end < 0:
            return begin if held.find(END, behind) < 0 else None
        if held.find(END, behind) == end and LENGTH.search(held, behind, end):
            return begin
        at = end
    return None


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
    large = size > (LARGE if begin is not None else MOST_BEHIND)
    if large:
        if content.vain.too_much(content.offset()):
            raise _BrokenRecord(f"its {length} bytes are not looked for behind so many wrong lengths")
        content.fill(min(end, head + SHOWN))
        shown = bytes(memoryview(content.held)[: min(end, head + SHOWN)])
        skip = content.skip()
        beginning = Record(content.offset(), headers, shown, memoryview(shown)[head:], size, None, skip, held=False)
        content.check_end(end, size)
        if not wanted(beginning):
            behind_it = _pass_record(content, end, head)
            stop = content.border()
            return replace(
                beginning, span=None if begin is None or stop is None else (begin, stop), whole=end + behind_it
            )
    try:
        there = content.fill(end)
        content.check_members(end)
    except _BrokenRecord:
        if large:
            content.vain.add(content.skip(), MOST_MEMBERS)
        raise
    content.fill(end + len(END))
    behind = bytes(content.held[end : end + len(END)])
    try:
        _check_end(size if there else len(content.held) - head, size, behind)
    except _BrokenRecord:
        if large:
            reached = min(end, len(content.held))
            content.vain.add(content.skip() + reached, content.members_ahead(reached))
        raise
    end_behind = end + len(behind)
    content.fill(end_behind + 1)  # shows whether a gzip member ends here, and whether it ends well
    offset, stop = content.offset(), content.border(end_behind)
    raw = content.take(end_behind)
    span = None if begin is None or stop is None else (begin, stop)
    return Record(offset, headers, raw, memoryview(raw)[head:end], size, span)


def _pass_record(content: _Content, end: int, head: int) -> int:
    """Go on behind a record that ends at `end` and the line ends behind it, of which it tells how many there are."""
    offset, skip, members = content.offset(), content.skip(), content.members
    passed = content.pass_over(end, MOST_MEMBERS)
    members = content.members - members
    if members > MOST_MEMBERS:
        content.vain.add(skip, MOST_MEMBERS)
        raise _BrokenPassedRecord(offset, skip, MANY_MEMBERS)
    content.fill(len(END))
    behind = bytes(content.held[: len(END)])
    try:
        _check_end(passed - head, end - head, behind)
    except _BrokenRecord as error:
        content.vain.add(skip + passed, members)
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
    """Values by name in lower case."""
    text = head.decode("utf-8", "replace")
    lines = text.split("\r\n")[1:]
    if "\n " not in text and "\n\t" not in text:  # each line is a header, as nearly always
        pairs = [line.split(":", 1) for line in lines if ":" in line]
        single: dict[str, tuple[str, ...]] = {name.strip().lower(): (value.strip(),) for name, value in pairs}
        if len(single) == len(pairs):
            return single
    return _joined(lines)


def _joined(lines: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse a header whose lines go on or whose names repeat; each value is joined once, however long it is."""
    found: dict[str, list[list[str]]] = {}
    last: list[str] = []
    for line in lines:
        if line[:1] in (" ", "\t") and last:  # goes on with the line above
            last.append(line.strip())
        elif ":" in line:
            name, value = (part.strip() for part in line.split(":", 1))
            last = [value]
            found.setdefault(name.lower(), []).append(last)
    return {name: tuple(map(" ".join, values)) for name, values in found.items()}
