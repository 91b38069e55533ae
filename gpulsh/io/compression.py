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
from typing import Any, BinaryIO, Literal, NamedTuple

Compression = Literal["", "gz", "bz2", "xz", "zst"]

CODECS = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}
GZIP, BZIP2, XZ, ZSTD = b"\x1f\x8b\x08", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"  # begin a member of each
SKIPPABLE = b"\x2a\x4d\x18"  # follows the first byte of a zstd frame without content
BZIP2_BLOCK, BZIP2_END = b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"  # one of these follows the level of a bzip2 stream
MAX_WINDOW = 1 << 31  # bytes; `zstd --long=31` asks for this window
HEAD = 512  # bytes that show whether a member begins
POINTER, MAX_POINTER = b"version https://git-lfs.github.com/", 1 << 10  # the first bytes of one, and all of them
PLAIN_STEP, PACKED_STEP = 4 << 20, 64 << 10  # bytes of content, and of compressed data, that are handled at once
# Bytes that are decoded at once, but by zlib: few where they hold much content; four of zstd may hold 128 KiB.
STEPS, MUCH = (64, 2 << 10), 1 << 18
MAX_JOINED = 1 << 20  # bytes of content that are decoded by several steps and come as one piece
MIN_STEP = 4 << 10  # of a file that may grow
MAX_HELD = 8 << 20  # bytes of a member's content; a larger one is read twice, once for its checksum
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


def member_pieces(compression: Compression, source: BinaryIO, start: int = 0) -> Generator[Piece]:
    """The content of all members from byte `start` on, in pieces of a few megabytes at most unless it packs very well.

    Zero bytes between members and after them are padding, which all codecs but zstd allow.
    """
    opened, refusal, magic = _decoder(compression)
    is_gzip = compression == "gz"
    step = PACKED_STEP if is_gzip else STEPS[0]
    limits = (PLAIN_STEP,) if is_gzip else ()  # of the content of a step
    first = BEGINNINGS[compression][0]
    source.seek(start)
    begin, read, member = start, start, None
    while data := source.read(PACKED_STEP):
        if not read and data[1:4] != SKIPPABLE and not data.startswith((first[: len(data)], b"\0")):
            refuse_pointer(data)
            raise DamagedMember(0, f"it is not {CODECS[compression]}; rename it without .{compression}, or restore it")
        view, found, size, at = memoryview(data), [], 0, 0
        while at < len(data):
            if member is None:
                if compression != "zst" and not data[at]:
                    at = len(data) - len(data[at:].lstrip(b"\0"))
                    continue
                begin, member = read + at, opened()
                if not data.startswith(magic[: len(data) - at], at):  # the decoder would call noise truncated
                    raise DamagedMember(begin, _broken_message("no stream begins here"))
            try:
                content = member.decompress(view[at : at + step], *limits)
            except refusal as error:
                if "not enough memory" in str(error):
                    raise MemoryError(str(error)) from error
                raise DamagedMember(begin, _broken_message(error)) from error
            left = member.unconsumed_tail if is_gzip and not member.eof else member.unused_data
            at = min(at + step, len(data)) - len(left)
            step = step if is_gzip else STEPS[len(content) < MUCH]
            found.append(content)
            size += len(content)
            if member.eof or size >= MAX_JOINED or at == len(data):
                yield Piece(begin, b"".join(found), read + at if member.eof else None)
                member = None if member.eof else member
                found, size = [], 0
        read += len(data)
    if member is not None:
        raise DamagedMember(begin, TRUNCATED)


def _decoder(compression: Compression) -> tuple[Callable[[], Any], type[Exception], bytes]:
    """A decoder, its error, and the first bytes of a member if the decoder does not refuse other bytes at once."""
    if compression == "gz":
        from zlib_ng import zlib_ng

        return partial(zlib_ng.decompressobj, wbits=31), zlib_ng.error, b""
    if compression == "bz2":
        import bz2

        return bz2.BZ2Decompressor, OSError, BZIP2
    if compression == "xz":
        import lzma

        return partial(lzma.LZMADecompressor, lzma.FORMAT_XZ), lzma.LZMAError, XZ
    import zstandard

    library = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)  # one for all frames: making it takes long
    return library.decompressobj, zstandard.ZstdError, b""


def _broken_message(error: object) -> str:
    return f"its compressed data is broken ({error})"


def gzip_start(packed: bytes, most: int = PLAIN_STEP) -> bytes | None:
    """The content of the beginning of a gzip member; None if it is none."""
    from zlib_ng import zlib_ng

    try:
        content: bytes = zlib_ng.decompressobj(wbits=31).decompress(packed, most)
    except zlib_ng.error:
        return None
    return content


# For each compression the bytes that a member begins with, and whether one begins in data that has them.
BEGINNINGS: dict[Compression, tuple[bytes, Callable[[bytes], bool]]] = {
    "gz": (GZIP, lambda packed: gzip_start(packed) is not None),
    "bz2": (BZIP2, lambda packed: packed[3:4] in b"123456789" and packed[4:10] in (BZIP2_BLOCK, BZIP2_END)),
    "xz": (XZ, lambda packed: zlib.crc32(packed[6:8]).to_bytes(4, "little") == packed[8:12]),  # of the flags
    "zst": (ZSTD, lambda packed: len(packed) > len(ZSTD)),
}


def intact_members(compression: Compression, source: BinaryIO, start: int = 0) -> Iterator[Piece]:
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
            elif size > MAX_HELD:
                held = []
                again = next(more.end for more in running if more.end is not None)
                running.close()  # frees its decoder, whose window may be as large as a document
                for known in member_pieces(compression, source, piece.begin):
                    yield known
                    if known.end is not None:
                        break
                break


def find_member(source: BinaryIO, start: int, magic: bytes, begins: Callable[[bytes], bool]) -> int | None:
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
            step = min(step, max(os.fstat(source.fileno()).st_size, MIN_STEP))
        block = source.read(step)
        refuse_compressed(block)
        while block:
            yield block
            block = source.read(step)
    else:
        members = intact_members if intact_only else member_pieces
        for piece in members(compression, source, 0):
            for start in range(0, len(piece.content), step):
                yield piece.content[start : start + step]


def refuse_pointer(head: bytes) -> None:
    """A ValueError if the file is a pointer of Git LFS."""
    if head.startswith(POINTER):
        raise ValueError("it is a pointer of Git LFS, and has no content; run `git lfs pull` in its repository")


def refuse_compressed(head: bytes) -> None:
    """A ValueError if the file is compressed, though its name has no such ending, or a pointer of Git LFS."""
    refuse_pointer(head)
    for compression, (magic, begins) in BEGINNINGS.items():
        if head.startswith(magic) and begins(head[:HEAD]):
            raise ValueError(f"it is {CODECS[compression]}, and its name does not end in .{compression}; rename it")


def intact_blocks(
    compression: Compression, source: BinaryIO, start: int, damage: list[DamagedMember]
) -> Iterator[bytes]:
    """The content of the members from byte `start` on, up to the first damaged one, which is added to `damage`."""
    try:
        for piece in intact_members(compression, source, start):
            if piece.content:
                yield piece.content
    except DamagedMember as error:
        # Not `error` itself: its traceback holds this frame, with `damage` and the decoder's buffers, in a cycle.
        damage.append(DamagedMember(error.offset, error.message))
