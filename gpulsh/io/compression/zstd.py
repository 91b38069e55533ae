"""Zstandard streams in pieces of bounded content.

A few bytes may hold any amount of content, and the decoder hands over all that its input holds; a block of a frame has
at most 128 KiB of it. So frames are cut here at their blocks, and the decoder is given a few blocks at a time,
which also shows a stream that was cut short.

Rejected: `compression.zstd`, or `backports.zstd` before Python 3.14. Its decoder bounds what it hands over, but does
not tell how large a window a frame asks for, so the frame's header would be read here all the same; and it takes longer
to begin a frame.

Format: RFC 8878, sections 3.1.1 and 3.1.2.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import BinaryIO

from gpulsh.io.compression.members import TRUNCATED, DamagedMember, Piece, broken_data

READ_STEP = 256 << 10
BLOCKS = 32  # given to the decoder at once, of at most 128 KiB of content each
MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPED = b"\x2a\x4d\x18"  # behind a byte 0x50 to 0x5f
LEAST_WINDOW, MOST_WINDOW = 8 << 20, 1 << 31  # every decoder should allow the former (RFC 8878, section 3.1.1.1.2)


class Window:
    """How much of what came before a decoder holds, in bytes: `most` it may, and `size` in the frame that is read."""

    def __init__(self, most: int = MOST_WINDOW) -> None:
        self.most, self.size = min(max(most, LEAST_WINDOW), MOST_WINDOW), 0


class WindowError(Exception):
    """A frame asks for a window of `size` bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def zstd_pieces(source: BinaryIO, start: int = 0, window: Window | None = None) -> Generator[Piece]:
    """The content of all frames from byte `start` on, in pieces of at most 4 MiB. A larger window is a WindowError."""
    import zstandard

    decoder = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW)
    window = window or Window()
    packed = _Packed(source, start)
    while packed.fill(1):
        packed.begin = packed.offset()
        magic = packed.take(4)
        if magic[1:] == SKIPPED and magic[0] & 0xF0 == 0x50:
            packed.pass_over(int.from_bytes(packed.take(4), "little"))
            continue
        if magic != MAGIC:
            raise DamagedMember(packed.begin, broken_data("no frame begins here"))
        frame = decoder.decompressobj()
        for run, last in _frame(packed, window):
            try:
                content = frame.decompress(run)
            except zstandard.ZstdError as error:
                raise DamagedMember(packed.begin, broken_data(error)) from error
            if content or last:
                yield Piece(packed.begin, content, packed.offset() if last else None)


def _frame(packed: _Packed, window: Window) -> Iterator[tuple[bytes, bool]]:
    """A frame behind its magic number, cut into runs of blocks, and whether each is the last."""
    flags = packed.take(1)
    of_size, alone = flags[0] >> 6, bool(flags[0] & 0x20)
    behind = (0 if alone else 1) + (0, 1, 2, 4)[flags[0] & 3] + (1 if alone else 0, 2, 4, 8)[of_size]
    described = packed.take(behind)
    window.size = _window(described, alone, (1 if alone else 0, 2, 4, 8)[of_size])
    if window.size > MOST_WINDOW:  # which no decoder allows, whatever the budget
        told = f"a frame asks for a window of {window.size} bytes, and decoders have {MOST_WINDOW} at most"
        raise DamagedMember(packed.begin, broken_data(told))
    if window.size > window.most:
        raise WindowError(window.size)
    run, count, last = [MAGIC, flags, described], 0, False
    while not last:
        head = packed.take(3)
        fields = int.from_bytes(head, "little")
        last, kind, size = bool(fields & 1), fields >> 1 & 3, fields >> 3
        run += [head, packed.take(1 if kind == 1 else size)]  # of one byte repeated, `size` says how often
        count += 1
        if count == BLOCKS and not last:
            yield b"".join(run), False
            run, count = [], 0
    if flags[0] & 4:
        run.append(packed.take(4))  # a checksum
    yield b"".join(run), True


def _window(described: bytes, alone: bool, of_size: int) -> int:
    """Bytes of content that a decoder must hold, from what follows a frame's flags."""
    size = int.from_bytes(described[len(described) - of_size :], "little") + (256 if of_size == 2 else 0)
    if alone:
        return size
    window = (8 + (described[0] & 7)) << (7 + (described[0] >> 3))
    return min(window, size) if of_size else window


class _Packed:
    """Bytes of a file, taken in order."""

    def __init__(self, source: BinaryIO, start: int) -> None:
        source.seek(start)
        self.begin = start  # of the frame
        self._source, self._read = source, start
        self._held = b""
        self._place = 0

    def fill(self, count: int) -> bool:
        """Hold `count` bytes; False where the file has fewer."""
        while len(self._held) - self._place < count:
            step = self._source.read(max(READ_STEP, count))
            if not step:
                return False
            self._held, self._place = self._held[self._place :] + step, 0
            self._read += len(step)
        return True

    def offset(self) -> int:
        """The byte of the file that comes next."""
        return self._read - len(self._held) + self._place

    def take(self, count: int) -> bytes:
        """The next `count` bytes; a DamagedMember where the file ends before them."""
        if not self.fill(count):
            raise DamagedMember(self.begin, TRUNCATED)
        self._place += count
        return self._held[self._place - count : self._place]

    def pass_over(self, count: int) -> None:
        """Go on behind the next `count` bytes."""
        while count:
            step = min(count, READ_STEP)
            self.take(step)
            count -= step
