"""Compressed byte streams, read so that a file cut short is an error and never a shorter file."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO, Literal, Protocol

from gpulsh.backends.parallel import processors
from gpulsh.io.compression.bzip2_xz import BZIP2, XZ, bzip2_pieces, is_bzip2, is_xz, xz_pieces
from gpulsh.io.compression.members import (
    GZIP,
    PLAIN_STEP,
    DamagedMember,
    Pieces,
    gzip_begin,
    gzip_pieces,
    next_member,
    whole_members,
)
from gpulsh.io.compression.zstd import MAGIC as ZSTD
from gpulsh.io.compression.zstd import Window, zstd_pieces
from gpulsh.io.rows import Bytes

Compression = Literal["", "gz", "bz2", "xz", "zst"]

# Levels where the input tells none. A higher one of xz takes hundreds of megabytes.
USUAL_GZIP, USUAL_BZIP2, USUAL_XZ, USUAL_ZSTD = 6, 9, 6, 3
NAMES = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}
HEAD = 512  # bytes that show whether a file is compressed
MEMBER_BYTES = 4 << 20  # of content in each gzip member and bzip2 stream written


def blocks(
    source: BinaryIO, compression: Compression, window: Window | None = None, *, intact_only: bool = False
) -> Iterator[bytes]:
    """The content in blocks of at most PLAIN_STEP. A broken or truncated stream is a DamagedMember, a ValueError, where
    that shows: what was given of the member before may be wrong, but with `intact_only` nothing of it was given.
    """
    if compression == "":
        block = source.read(PLAIN_STEP)
        refuse_packed(block)
        while block:
            yield block
            block = source.read(PLAIN_STEP)
    else:
        pieces = _pieces_of(compression, window)
        for piece in whole_members(pieces, source) if intact_only else pieces(source, 0):
            if piece.content:
                yield piece.content


def refuse_packed(head: bytes) -> None:
    """A ValueError where a file that is called plain begins as a compressed one does."""
    for compression, (magic, begins) in BEGINNINGS.items():
        if head.startswith(magic) and begins(head[:HEAD]):
            raise ValueError(f"it is {NAMES[compression]}, and its name does not end in .{compression}; rename it")


class IntactBlocks:
    """The content of the members from byte `start` on up to the first that is damaged, nothing of which is given.

    With it, `damaged` says what is wrong, and `next` where reading can go on, None where no member is found any more.
    """

    def __init__(self, source: BinaryIO, compression: Compression, start: int, window: Window | None = None) -> None:
        self._source, self._start, self._compression = source, start, compression
        self._pieces = _pieces_of(compression, window)
        self.damaged: DamagedMember | None = None
        self.next: int | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            for piece in whole_members(self._pieces, self._source, self._start):
                if piece.content:
                    yield piece.content
        except DamagedMember as error:
            self.damaged = error
            self.next = next_member(self._source, error.offset + 1, *BEGINNINGS[self._compression])


def _pieces_of(compression: Compression, window: Window | None) -> Pieces:
    if compression in ("xz", "zst"):
        return partial(xz_pieces if compression == "xz" else zstd_pieces, window=window)
    return gzip_pieces if compression == "gz" else bzip2_pieces


def _is_gzip(packed: bytes) -> bool:
    return gzip_begin(packed) is not None


def _is_zstd(packed: bytes) -> bool:
    return len(packed) > len(ZSTD)


# What a member of each begins with, and whether one does that has it.
BEGINNINGS: dict[Compression, tuple[bytes, Callable[[bytes], bool]]] = {
    "gz": (GZIP, _is_gzip),
    "bz2": (BZIP2, is_bzip2),
    "xz": (XZ, is_xz),
    "zst": (ZSTD, _is_zstd),
}


class Sink(Protocol):
    """What content is written to."""

    def write(self, content: Bytes, /) -> object:
        """More of it."""


@contextmanager
def packed_writer(target: str, compression: Compression, level: int | None = None) -> Iterator[Sink]:
    """A file for writing; the same content gives the same bytes (no time, no name in the header) at the same level."""
    with open(target, "wb") as raw:
        if compression == "":
            yield raw
        elif compression in ("gz", "bz2"):
            pack = partial(gzip_member, level=level or USUAL_GZIP)
            if compression == "bz2":
                import bz2

                pack = partial(bz2.compress, compresslevel=level or USUAL_BZIP2)
            with ThreadPoolExecutor(processors()) as pool:
                members = _Members(raw, pool, pack)
                yield members
                members.finish()
        elif compression == "xz":  # which takes too much memory to be done side by side
            import lzma

            with lzma.open(raw, "wb", preset=USUAL_XZ) as xz:
                yield xz
        else:
            import zstandard

            packer = zstandard.ZstdCompressor(level=USUAL_ZSTD if level is None else level)
            with packer.stream_writer(raw, closefd=False) as out:
                yield out


class _Members:
    """Members of fixed content one after another, compressed side by side: the libraries are slow and free the lock.

    Where a member ends follows from the content alone, so the bytes do not depend on the number of threads.
    """

    def __init__(self, out: BinaryIO, pool: ThreadPoolExecutor, pack: Callable[[bytes], bytes]) -> None:
        self._out, self._pool, self._pack = out, pool, pack
        self._held = bytearray()
        self._waiting: deque[Future[bytes]] = deque()

    def write(self, content: Bytes, /) -> None:
        self._held += content
        while len(self._held) >= MEMBER_BYTES:
            self._submit(bytes(self._held[:MEMBER_BYTES]))
            del self._held[:MEMBER_BYTES]

    def finish(self) -> None:
        if not self._waiting:  # of an empty file too: no bytes at all would be no such file
            self._out.write(self._pack(bytes(self._held)))
            return
        self._submit(bytes(self._held))
        while self._waiting:
            self._out.write(self._waiting.popleft().result())

    def _submit(self, content: bytes) -> None:
        self._waiting.append(self._pool.submit(self._pack, content))
        if len(self._waiting) > 2 * processors():
            self._out.write(self._waiting.popleft().result())


def gzip_member(content: Bytes, level: int = USUAL_GZIP) -> bytes:
    """A gzip member of this content, with no time and no name in its header."""
    return b"".join(packed_member([content], level))


def packed_member(pieces: Iterable[Bytes], level: int = USUAL_GZIP) -> Iterator[bytes]:
    """Pack content that comes in pieces; where it is cut makes no difference."""
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()
