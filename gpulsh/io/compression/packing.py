"""How outputs are compressed: as asked for, or with the codec of the input at the cheapest level that packs as well.

A codec is told by a file's name or footer, the level by neither. So some of the input's content is compressed again at
one level after another, the cheapest first, until the result is no larger than what stands in the input.

Rejected: the codec's default level, with which fewer rows took more bytes than all of them did (48.5 MB of 33.6 MB);
levels beyond 19 of Zstandard, whose tables alone take hundreds of megabytes.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO, NamedTuple

from gpulsh.errors import Advice, ParameterError
from gpulsh.params import shown

LEVELS: dict[str, tuple[int, ...]] = {
    "none": (),
    "snappy": (),
    "gzip": tuple(range(1, 10)),
    "brotli": tuple(range(1, 12)),
    "zstd": tuple(range(1, 20)),
    "lz4": (1, *range(3, 13)),
}
SLOW = {"zstd": 15, "brotli": 10}  # levels from which on a core packs some MB/s at most
SAMPLE_BYTES = 1 << 20  # of content; from 256 KiB on Zstandard has the same tables for all sizes
LEAST_SAMPLE = 1 << 12  # bytes of packed content, less of which shows nothing
SAMPLED_PART = 2  # of a small file, at most so small a part is a sample
FEED_BYTES = 512  # packed bytes that are unpacked at once: by so much, sizes may be wrong
MOST_WINDOW = 64 << 20

_log = logging.getLogger("gpulsh")


@dataclass(frozen=True)
class Packing:
    """A codec, and a level of it; None: its usual one."""

    codec: str
    level: int | None = None

    @classmethod
    def parse(cls, given: str) -> Packing:
        """From CODEC or CODEC:LEVEL; ParameterError where there is no such codec, or it has no such level.

        >>> Packing.parse("zstd:9")
        Packing(codec='zstd', level=9)
        """
        codec, colon, level = given.partition(":") if isinstance(given, str) else ("", "", "")
        levels = LEVELS.get(codec)
        if levels is None:
            raise ParameterError(
                f"compression is {shown(given)}; give one of {', '.join(LEVELS)}, or CODEC:LEVEL as zstd:9"
            )
        if not colon:
            return cls(codec)
        if not (level.isascii() and level.isdigit() and int(level) in levels):
            raise ParameterError(f"compression is {given!r}; of {codec}, {_allowed(levels)}")
        return cls(codec, int(level))

    def told(self) -> str:
        """As `parse` takes it."""
        return self.codec if self.level is None else f"{self.codec}:{self.level}"


def _allowed(levels: tuple[int, ...]) -> str:
    if not levels:
        return "there are no levels; leave it out"
    first = "1, 3" if 2 not in levels else "1"
    return f"levels are {first} to {levels[-1]}"


class Sample(NamedTuple):
    """Content, and how many bytes it takes in the input."""

    content: bytes
    packed: int


def cheapest_level(codec: str, samples: Sequence[Sample], pack: Callable[[bytes, int], int]) -> int | None:
    """The cheapest level at which the samples take no more bytes than in the input; where none does, the one at which
    they take the fewest. None without samples, or of a codec without levels.

    `pack` tells how many bytes content takes at a level.
    """
    allowed = sum(sample.packed for sample in samples)
    if not allowed:
        return None
    found: list[tuple[int, int]] = []
    for level in LEVELS[codec]:
        size: int = sum(pack(sample.content, level) for sample in samples)
        found.append((size, level))
        if size <= allowed:
            break
    if not found:
        return None
    level = min(found)[1]
    if level >= SLOW.get(codec, level + 1):
        _tell_slow(codec, level)
    return level


@cache
def _tell_slow(codec: str, level: int) -> None:
    """Once for all files of a process."""
    told = f"kept rows are packed by {codec} at level {level}, as the input is, which takes longer than all else"
    _log.warning(Advice(f"{told}; --compression {codec}:3 is quicker"))


def beginning(codec: str, packed: Iterable[bytes], most: int = SAMPLE_BYTES) -> Sample | None:
    """About the first `most` bytes of a stream of zstd or gzip; None where it cannot be read, or is very short."""
    import zstandard

    content = bytearray()
    taken = packed_size = 0
    try:
        unpack = _unpacker(codec)
        for piece in packed:
            more = unpack(piece)
            taken += len(piece)
            if more:  # otherwise it is of a block that has not ended
                content += more
                packed_size = taken
            if len(content) >= most:
                break
    except (zstandard.ZstdError, zlib.error, EOFError):
        return None
    return Sample(bytes(content), packed_size) if packed_size >= LEAST_SAMPLE else None


def _unpacker(codec: str) -> Callable[[bytes], bytes]:
    import zstandard

    if codec == "zstd":
        return zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW).decompressobj().decompress
    return zlib.decompressobj(47).decompress


def level_of_stream(codec: str, source: BinaryIO, size: int | None) -> int | None:
    """The level for a stream, of whose first member or frame the beginning is the sample; bzip2 tells its own."""
    if codec in ("bzip2", "xz"):
        told = source.read(4)[3:]
        return int(told) if codec == "bzip2" and told.isdigit() and told != b"0" else None
    most = SAMPLE_BYTES if size is None else min(SAMPLE_BYTES, max(size // SAMPLED_PART, 4 * LEAST_SAMPLE))
    taken = 0

    def pieces() -> Iterable[bytes]:
        nonlocal taken
        while taken < most and (piece := source.read(FEED_BYTES)):
            taken += len(piece)
            yield piece

    sample = beginning(codec, pieces())
    return None if sample is None else cheapest_level(codec, [sample], _STREAMS[codec])


def _gzip_size(content: bytes, level: int) -> int:
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    return len(packer.compress(content)) + len(packer.flush(zlib.Z_SYNC_FLUSH))


def _zstd_size(content: bytes, level: int) -> int:
    import zstandard

    packer = zstandard.ZstdCompressor(level=level).compressobj()
    return len(packer.compress(content)) + len(packer.flush())


_STREAMS = {"gzip": _gzip_size, "zstd": _zstd_size}
