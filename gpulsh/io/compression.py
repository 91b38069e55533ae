"""Compressed files: gzip, bzip2, xz and zstd, read by the libraries' decoders.

A compressed file is a run of members: gzip members, zstd frames, bzip2 and xz streams. Each has a checksum at its end.
A file that was cut short is an error, never a shorter file. With `--on-error skip` a damaged member is passed over, and
reading continues at the next one.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import partial
from io import FileIO
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:  # Python may have been built without them
    import bz2
    import lzma

Compression = Literal["", "gz", "bz2", "xz", "zst"]

NAMES = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}
GZIP, BZIP2, XZ, ZSTD = b"\x1f\x8b\x08", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"  # begin a member of each
BZIP2_BLOCK, BZIP2_END = b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"  # one of these follows the level of a bzip2 stream
# Bytes that zstd decodes together: few where they hold much content. Four bytes may hold 128 KiB, so the first of these
# bytes come with 64 MiB at most.
ZSTD_STEPS, ZSTD_CONTENT = (64, 2048), 1 << 18
MOST_WINDOW = 1 << 31  # bytes; `zstd --long=31` asks for this window
HEAD = 512  # bytes that show whether a member begins
PLAIN_STEP, PACKED_STEP = 4 << 20, 64 << 10  # bytes of content, and of compressed data, that are handled at once
LEAST_STEP = 4 << 10  # of a file that may grow
MOST_HELD = 8 << 20  # bytes of a member's content; a larger one is read twice, once for its checksum
TRUNCATED = "its compressed data ends too early; the file is truncated"


class DamagedMember(ValueError):
    """A member that its decoder or its checksum refuses, or that is cut short; `offset` is the byte where it begins."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(f"byte {offset}: {message}")
        self.offset, self.message = offset, message


class Piece(NamedTuple):
    """Content of the member that begins at byte `begin`; `end` is known with its last piece."""

    begin: int
    content: bytes
    end: int | None


class _Gzip:
    """zlib-ng's decoder of a member, with the attributes of the decoders of bz2 and lzma."""

    eof, needs_input, unused_data = False, True, b""

    def __init__(self, library: Any) -> None:
        self._inner = library.decompressobj(wbits=31)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        inner = self._inner
        content: bytes = inner.decompress(inner.unconsumed_tail + data, max_length)
        self.eof, self.needs_input, self.unused_data = inner.eof, not inner.unconsumed_tail, inner.unused_data
        return content


class _Zstd:
    """zstandard's decoder of a frame, with the same attributes. It gives all content of its input, so steps are small.

    The library's stream reader would take a truncated frame for a whole one.
    """

    eof, needs_input, unused_data = False, True, b""

    def __init__(self, library: Any) -> None:
        self._inner = library.decompressobj()
        self._left, self._step = b"", ZSTD_STEPS[0]

    def decompress(self, data: bytes, max_length: int) -> bytes:
        data, at, size = self._left + data, 0, 0
        found = []
        while at < len(data) and size < max_length and not self._inner.eof:
            found.append(self._inner.decompress(data[at : at + self._step]))
            at += self._step
            size += len(found[-1])
            self._step = ZSTD_STEPS[len(found[-1]) < ZSTD_CONTENT]
        self._left = data[at:]
        self.eof, self.needs_input = self._inner.eof, not self._left
        self.unused_data = self._inner.unused_data + self._left
        return b"".join(found)


Decoder: TypeAlias = "bz2.BZ2Decompressor | lzma.LZMADecompressor | _Gzip | _Zstd"


def member_pieces(compression: Compression, source: BinaryIO, start: int = 0) -> Generator[Piece]:
    """The content of all members from byte `start` on, in pieces of about PLAIN_STEP.

    Zero bytes between members and behind them are padding, which all codecs but zstd allow.
    """
    opened, refusal, magic = _decoder(compression)
    source.seek(start)
    read = begin = start
    member: Decoder | None = None
    while step := source.read(PACKED_STEP):
        read += len(step)
        while step or (member is not None and not member.needs_input):
            if member is None:
                step = step if compression == "zst" else step.lstrip(b"\0")
                if not step:
                    break
                begin, member = read - len(step), opened()
                if not step.startswith(magic[: len(step)]):  # the decoder would call noise truncated
                    raise DamagedMember(begin, _broken("no stream begins here"))
            try:
                content = member.decompress(step, PLAIN_STEP)
            except refusal as error:
                if "not enough memory" in str(error):
                    raise MemoryError(str(error)) from error
                raise DamagedMember(begin, _broken(error)) from error
            step = b""
            if member.eof:
                step, member = member.unused_data, None
                yield Piece(begin, content, read - len(step))
            elif content:
                yield Piece(begin, content, None)
    if member is not None:
        raise DamagedMember(begin, TRUNCATED)


def _decoder(compression: Compression) -> tuple[Callable[[], Decoder], type[Exception], bytes]:
    """A decoder, its error, and the first bytes of a member if the decoder does not refuse other bytes at once."""
    if compression == "gz":
        from zlib_ng import zlib_ng

        return partial(_Gzip, zlib_ng), zlib_ng.error, b""
    if compression == "bz2":
        import bz2

        return bz2.BZ2Decompressor, OSError, BZIP2
    if compression == "xz":
        import lzma

        return partial(lzma.LZMADecompressor, lzma.FORMAT_XZ), lzma.LZMAError, XZ
    import zstandard

    library = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW)  # one for all frames: making it takes long
    return partial(_Zstd, library), zstandard.ZstdError, b""


def _broken(error: object) -> str:
    return f"its compressed data is broken ({error})"


def gzip_begin(packed: bytes, most: int = PLAIN_STEP) -> bytes | None:
    """The content of the beginning of a gzip member; None if it is none."""
    from zlib_ng import zlib_ng

    try:
        content: bytes = zlib_ng.decompressobj(wbits=31).decompress(packed, most)
    except zlib_ng.error:
        return None
    return content


# For each compression the bytes that a member begins with, and whether one begins in data that has them.
BEGINNINGS: dict[Compression, tuple[bytes, Callable[[bytes], bool]]] = {
    "gz": (GZIP, lambda packed: gzip_begin(packed) is not None),
    "bz2": (BZIP2, lambda packed: packed[3:4] in b"123456789" and packed[4:10] in (BZIP2_BLOCK, BZIP2_END)),
    "xz": (XZ, lambda packed: zlib.crc32(packed[6:8]).to_bytes(4, "little") == packed[8:12]),  # of the flags
    "zst": (ZSTD, lambda packed: len(packed) > len(ZSTD)),
}


def whole_members(compression: Compression, source: BinaryIO, start: int = 0) -> Iterator[Piece]:
    """Yield the pieces of intact members; a damaged one is a DamagedMember instead."""
    again: int | None = start
    while again is not None:
        running, again = member_pieces(compression, source, again), None
        held: list[Piece] = []
        size = 0
        for piece in running:
            held.append(piece)
            size += len(piece.content)
            if piece.end is not None:
                yield from held
                held, size = [], 0
            elif size > MOST_HELD:
                held = []
                again = next(more.end for more in running if more.end is not None)
                running.close()  # frees its decoder, whose window may be as large as a document
                for known in member_pieces(compression, source, piece.begin):
                    yield known
                    if known.end is not None:
                        break
                break


def next_member(source: BinaryIO, start: int, magic: bytes, begins: Callable[[bytes], bool]) -> int | None:
    """The first byte from `start` on where a member begins: `magic`, in data that passes the check `begins`."""
    source.seek(start)
    held = b""
    last = False
    while not last:
        step = source.read(PACKED_STEP)
        held, last = held + step, not step
        at = held.find(magic)
        while at >= 0 and (last or at < len(held) - HEAD):
            if begins(held[at : at + HEAD]):
                return start + at
            at = held.find(magic, at + 1)
        keep = min(len(held), HEAD)
        start += len(held) - keep
        held = held[len(held) - keep :]
    return None


def blocks(
    source: BinaryIO, compression: Compression, step: int = PLAIN_STEP, *, intact_only: bool = False
) -> Iterator[bytes]:
    """The content in blocks of at most `step`.

    A broken or truncated member is a DamagedMember, a ValueError, where that shows. The content of it that came before
    may be wrong; with `intact_only` none came.
    """
    if compression == "":
        if isinstance(source, FileIO):  # memory for a whole step would be taken from the system for each small file
            step = min(step, max(os.fstat(source.fileno()).st_size, LEAST_STEP))
        block = source.read(step)
        refuse_packed(block)
        while block:
            yield block
            block = source.read(step)
    else:
        members = whole_members if intact_only else member_pieces
        for piece in members(compression, source, 0):
            for start in range(0, len(piece.content), step):
                yield piece.content[start : start + step]


def refuse_packed(head: bytes) -> None:
    """A ValueError if the file is compressed, though its name has no such ending."""
    for compression, (magic, begins) in BEGINNINGS.items():
        if head.startswith(magic) and begins(head[:HEAD]):
            raise ValueError(f"it is {NAMES[compression]}, and its name does not end in .{compression}; rename it")


class IntactBlocks:
    """The content of the members from byte `start` on, up to the first damaged one.

    Then `damaged` describes the damage. `next` is where reading can continue; None if there is no other member.
    """

    def __init__(self, source: BinaryIO, compression: Compression, start: int) -> None:
        self._source, self._start, self._compression = source, start, compression
        self.damaged: DamagedMember | None = None
        self.next: int | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            for piece in whole_members(self._compression, self._source, self._start):
                if piece.content:
                    yield piece.content
        except DamagedMember as error:
            self.damaged = error
            self.next = next_member(self._source, error.offset + 1, *BEGINNINGS[self._compression])
