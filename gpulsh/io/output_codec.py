"""Compressed output: `--compression`, or the input's codec at its library's default level.

Rejected: guessing the input's level from a sample. A corpus compressed at a high level then took minutes to write;
the default level takes seconds. ISA-L compresses gzip several times as fast, but its bytes depend on the processor:
workers of one cluster would write different files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Protocol

from gpulsh.backends.parallel import processors
from gpulsh.checks import shown
from gpulsh.errors import ParameterError
from gpulsh.io.compression import Compression
from gpulsh.io.rows import Bytes

MEMBER_BYTES = 4 << 20  # of content in each gzip member and bzip2 stream written
MEMBER_STEP = 1 << 20  # of content given to the library at once
USUAL_GZIP, USUAL_BZIP2, USUAL_XZ, USUAL_ZSTD = 6, 9, 6, 3  # levels; a higher one of xz takes hundreds of megabytes
LEVELS: dict[str, tuple[int, ...]] = {
    "none": (),
    "snappy": (),
    "gzip": tuple(range(1, 10)),
    "brotli": tuple(range(1, 12)),
    "zstd": tuple(range(1, 20)),
    "lz4": (1, *range(3, 13)),
}


Compress = Callable[[bytes], bytes]


class Sink(Protocol):
    """A file for content."""

    def write(self, content: Bytes, /) -> object:
        """Append bytes to the file."""


NewFile = Callable[[], AbstractContextManager[BinaryIO]]  # opens a file for writing, once


@contextmanager
def compressed_writer(target: NewFile, compression: Compression, level: int | None = None) -> Iterator[Sink]:
    """A file for writing; the same content gives the same bytes (no time, no name in the header) at the same level."""
    with target() as raw:
        if compression == "":
            yield raw
        elif compression in ("gz", "bz2"):

            def compress(content: bytes) -> bytes:
                return b"".join(gzip_member([content], level or USUAL_GZIP))

            if compression == "bz2":
                import bz2

                compress = partial(bz2.compress, compresslevel=level or USUAL_BZIP2)
            with ThreadPoolExecutor(processors()) as pool:
                members = _Members(raw, pool, compress)
                yield members
                members.finish()
        elif compression == "xz":  # takes too much memory for several threads
            import lzma

            with lzma.open(raw, "wb", preset=USUAL_XZ) as xz:
                yield xz
        else:
            import zstandard

            compressor = zstandard.ZstdCompressor(level=USUAL_ZSTD if level is None else level)
            with compressor.stream_writer(raw, closefd=False) as out:
                yield out


class _Members:
    """Members whose content alone decides their ends, compressed by several threads for slow libraries."""

    def __init__(self, out: BinaryIO, pool: ThreadPoolExecutor, compress: Compress) -> None:
        self._out, self._pool, self._compress = out, pool, compress
        self._held = bytearray()
        self._waiting: deque[Future[bytes]] = deque()

    def write(self, content: Bytes, /) -> None:
        self._held += content
        while len(self._held) >= MEMBER_BYTES:
            self._submit(bytes(self._held[:MEMBER_BYTES]))
            del self._held[:MEMBER_BYTES]

    def finish(self) -> None:
        if not self._waiting:  # an empty file has a member, too: a file of no bytes is no gzip file
            self._out.write(self._compress(bytes(self._held)))
            return
        self._submit(bytes(self._held))
        while self._waiting:
            self._out.write(self._waiting.popleft().result())

    def _submit(self, content: bytes) -> None:
        self._waiting.append(self._pool.submit(self._compress, content))
        if len(self._waiting) > 2 * processors():
            self._out.write(self._waiting.popleft().result())


def gzip_member(pieces: Iterable[Bytes], level: int = USUAL_GZIP) -> Iterator[bytes]:
    """A gzip member of content that comes in pieces, with no time and no name in its header.

    The cuts between the pieces make no difference.
    """
    from zlib_ng import zlib_ng

    compressor = zlib_ng.compressobj(level, zlib_ng.DEFLATED, 31)
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        while len(waiting) >= MEMBER_STEP:  # the library's bytes depend on the steps that it gets
            yield compressor.compress(bytes(waiting[:MEMBER_STEP]))
            del waiting[:MEMBER_STEP]
    yield compressor.compress(bytes(waiting))
    yield compressor.flush()


@dataclass(frozen=True)
class OutputCodec:
    """How outputs are compressed, as `--compression` says: a codec and its level, None for the library's default."""

    name: str
    level: int | None = None

    @classmethod
    def parse(cls, given: str) -> OutputCodec:
        """Parse CODEC or CODEC:LEVEL. ParameterError for an unknown codec, or a level that it lacks.

        >>> OutputCodec.parse("zstd:9")
        OutputCodec(name='zstd', level=9)
        """
        codec, colon, level = given.partition(":") if isinstance(given, str) else ("", "", "")
        levels = LEVELS.get(codec)
        if levels is None:
            raise ParameterError(
                f"compression is {shown(given)}; give one of {', '.join(LEVELS)}, or CODEC:LEVEL such as zstd:9"
            )
        if not colon:
            return cls(codec)
        if not (level.isascii() and level.isdigit() and int(level) in levels):
            first = "1, 3" if levels and 2 not in levels else "1"
            allowed = f"give a level of {first} to {levels[-1]}" if levels else f"{codec} has no levels; leave it out"
            raise ParameterError(f"compression is {given!r}; {allowed}")
        return cls(codec, int(level))

    def __str__(self) -> str:
        return self.name if self.level is None else f"{self.name}:{self.level}"
