"""bzip2 and xz streams in pieces of bounded content: their decoders hand over no more than they are asked for.

Python may have been built without either, so that they are imported where such a file is read.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator
from typing import BinaryIO, Protocol

from gpulsh.io.compression.members import PACKED_STEP, PLAIN_STEP, TRUNCATED, DamagedMember, Piece, broken_data
from gpulsh.io.compression.zstd import MOST_WINDOW, Window, WindowError

BZIP2, XZ = b"BZh", b"\xfd7zXZ\0"  # begin a stream of each
BLOCK, END = b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"  # one of which follows the level of a bzip2 stream
LEAST_MEMORY = 80 << 20  # bytes that an xz decoder may always take: those of the highest level are less


class Decoder(Protocol):
    """Of one stream."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether more content takes more of the stream."""

    @property
    def unused_data(self) -> bytes:
        """What was given of what is behind its end."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """At most so much content."""


def bzip2_pieces(source: BinaryIO, start: int = 0) -> Generator[Piece]:
    """Pieces of at most PLAIN_STEP, of streams one after another."""
    import bz2

    return _pieces(bz2.BZ2Decompressor, OSError, BZIP2, source, start)


def xz_pieces(source: BinaryIO, start: int = 0, window: Window | None = None) -> Generator[Piece]:
    """The same; a WindowError where the decoder would take more memory than a window of the most bytes allowed."""
    import lzma

    most = MOST_WINDOW if window is None else window.most
    limit = None if most == MOST_WINDOW else max(most, LEAST_MEMORY)
    try:
        yield from _pieces(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, limit), lzma.LZMAError, XZ, source, start)
    except DamagedMember as error:
        if limit is not None and "Memory usage limit" in str(error.__cause__):
            raise WindowError(2 * limit) from None  # how much more it does not tell
        raise


def _pieces(
    opened: Callable[[], Decoder], refusal: type[Exception], magic: bytes, source: BinaryIO, start: int
) -> Generator[Piece]:
    source.seek(start)
    read = begin = start
    member: Decoder | None = None
    while step := source.read(PACKED_STEP):
        read += len(step)
        while step or (member is not None and not member.needs_input):
            if member is None:
                step = step.lstrip(b"\0")  # xz allows them between streams and behind
                if not step:
                    break
                begin, member = read - len(step), opened()
                if not step.startswith(magic[: len(step)]):  # less than a header would only be too short
                    raise DamagedMember(begin, broken_data("no stream begins here"))
            try:
                content = member.decompress(step, PLAIN_STEP)
            except refusal as error:
                raise DamagedMember(begin, broken_data(error)) from error
            step = b""
            if member.eof:
                step, member = member.unused_data, None
                yield Piece(begin, content, read - len(step))
            elif content:
                yield Piece(begin, content, None)
    if member is not None:
        raise DamagedMember(begin, TRUNCATED)


def is_bzip2(packed: bytes) -> bool:
    """Whether a bzip2 stream begins so."""
    return packed[3:4] in b"123456789" and packed[4:10] in (BLOCK, END)


def is_xz(packed: bytes) -> bool:
    """Whether an xz stream begins so, by the checksum of its flags."""
    return zlib.crc32(packed[6:8]).to_bytes(4, "little") == packed[8:12]
