"""Compressed byte streams, read so that a file cut short is an error and never a shorter file."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal

from gpulsh.backends.processors import processors
from gpulsh.io.rows import Bytes
from gpulsh.io.zstd import TRUNCATED, Window, broken_data, zstd_blocks

Compression = Literal["", "gz", "zst"]

MEMBER_BYTES = 4 << 20  # of content in each gzip member written
PLAIN_STEP = 4 << 20
PACKED_STEP = 64 << 10


def blocks(source: BinaryIO, compression: Compression, window: Window | None = None) -> Iterator[bytes]:
    """The content in blocks of at most PLAIN_STEP. A broken or truncated stream is a ValueError or an EOFError."""
    if compression == "":
        while block := source.read(PLAIN_STEP):
            yield block
    elif compression == "gz":
        yield from _members(source)
    else:
        yield from zstd_blocks(source, window)


def _members(source: BinaryIO) -> Iterator[bytes]:
    # Gzip allows members one after another, and zero bytes between and behind them.
    member: Any = None
    while step := source.read(PACKED_STEP):
        while step:
            if member is None:
                step = step.lstrip(b"\0")
                if not step:
                    break
                member = zlib.decompressobj(wbits=31)
            try:
                block = member.decompress(step, PLAIN_STEP)
            except zlib.error as error:
                raise broken_data(error) from error
            if block:
                yield block
            step = member.unconsumed_tail
            if member.eof:
                step, member = member.unused_data, None
    if member is not None:
        raise EOFError(TRUNCATED)


@contextmanager
def packed_writer(target: str, compression: Compression) -> Iterator[Any]:
    """A file for writing; the same content gives the same bytes (no time, no name in the header)."""
    with open(target, "wb") as raw:
        if compression == "":
            yield raw
        elif compression == "gz":
            with ThreadPoolExecutor(processors()) as pool:
                members = _GzipMembers(raw, pool)
                yield members
                members.finish()
        else:
            import zstandard

            with zstandard.ZstdCompressor(level=3).stream_writer(raw, closefd=False) as out:
                yield out


class _GzipMembers:
    """Gzip as members of fixed content one after another, compressed side by side: zlib is slow and frees the lock.

    Where a member ends follows from the content alone, so the bytes do not depend on the number of threads.
    """

    def __init__(self, out: BinaryIO, pool: ThreadPoolExecutor) -> None:
        self._out = out
        self._pool = pool
        self._held = bytearray()
        self._waiting: deque[Future[bytes]] = deque()

    def write(self, content: bytes) -> None:
        self._held += content
        while len(self._held) >= MEMBER_BYTES:
            self._submit(bytes(self._held[:MEMBER_BYTES]))
            del self._held[:MEMBER_BYTES]

    def finish(self) -> None:
        self._submit(bytes(self._held))  # of an empty file too: no bytes at all would be no gzip file
        while self._waiting:
            self._out.write(self._waiting.popleft().result())

    def _submit(self, content: bytes) -> None:
        self._waiting.append(self._pool.submit(gzip_member, content))
        if len(self._waiting) > 2 * processors():
            self._out.write(self._waiting.popleft().result())


def gzip_member(content: Bytes) -> bytes:
    """A gzip member of this content, with no time and no name in its header."""
    return b"".join(packed_member([content]))


def packed_member(pieces: Iterable[Bytes]) -> Iterator[bytes]:
    """The same of content in pieces; where it is cut makes no difference."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()
