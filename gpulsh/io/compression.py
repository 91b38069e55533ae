"""Compressed byte streams, read so that a file cut short is an error and never a shorter file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal

Compression = Literal["", "gz", "zst"]

PLAIN_STEP = 4 << 20
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
            import gzip

            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as out:
                yield out
        else:
            import zstandard

            with zstandard.ZstdCompressor(level=3).stream_writer(raw, closefd=False) as out:
                yield out
