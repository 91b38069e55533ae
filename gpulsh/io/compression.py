"""Compressed byte streams, read so that a file cut short is an error and never a shorter file."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal

from gpulsh.backends.processors import processors
from gpulsh.io.rows import Bytes

Compression = Literal["", "gz", "zst"]

PLAIN_STEP = 4 << 20
MEMBER_BYTES = 4 << 20  # of content in each gzip member written
PACKED_STEP = 64 << 10  # one step of input may grow a thousandfold


def blocks(source: BinaryIO, compression: Compression) -> Iterator[bytes]:
    """The content in blocks. A broken or truncated stream is a ValueError or an EOFError."""
    if compression == "":
        while block := source.read(PLAIN_STEP):
            yield block
    elif compression == "gz":
        yield from _members(source, lambda: zlib.decompressobj(wbits=31), zlib.error)
    else:
        import zstandard

        reader = zstandard.ZstdDecompressor(max_window_size=1 << 31)
        yield from _members(source, reader.decompressobj, zstandard.ZstdError)


def _members(source: BinaryIO, begin: Callable[[], Any], broken: type[Exception]) -> Iterator[bytes]:
    # Both formats allow members one after another; gzip also zero bytes after the last.
    member: Any = None
    while step := source.read(PACKED_STEP):
        while step:
            if member is None:
                step = step.lstrip(b"\0") if broken is zlib.error else step
                if not step:
                    break
                member = begin()
            try:
                block = member.decompress(step)
            except broken as error:
                raise ValueError(f"its compressed data is broken ({error})") from error
            if block:
                yield block
            step = b""
            if member.eof:
                step, member = member.unused_data, None
    if member is not None:
        raise EOFError("its compressed data ends too early; the file is truncated")


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
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(content) + packer.flush()
