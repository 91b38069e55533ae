"""Compressed streams: of many parts, with something around them, cut short, or much larger than memory."""

import gzip
import struct
import zlib
from collections.abc import Callable
from random import Random

MIB = 1 << 20


def gzip_member(content: bytes) -> bytes:
    return gzip.compress(content, 6, mtime=0)


def repeated_member(head: bytes, unit: bytes, count: int, tail: bytes) -> bytes:
    """A gzip member of head + unit * count + tail, without compressing all of it.

    After a full flush, equal content has equal bytes.
    """
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    begin = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    middle = packer.compress(unit) + packer.flush(zlib.Z_FULL_FLUSH)
    end = packer.compress(tail) + packer.flush(zlib.Z_FINISH)
    checksum = zlib.crc32(head)
    for _ in range(count):
        checksum = zlib.crc32(unit, checksum)
    total = len(head) + len(unit) * count + len(tail)
    header = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    return header + begin + middle * count + end + struct.pack("<II", zlib.crc32(tail, checksum), total & 0xFFFFFFFF)


def odd(source: Random, content: bytes, pack: Callable[[bytes], bytes]) -> tuple[bytes, str]:
    """The content as a stream that is allowed and seldom seen, or that is almost allowed; and its name."""
    cuts = sorted(source.randrange(len(content) + 1) for _ in range(source.randint(1, 4)))
    pieces = [content[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    whole = pack(content)
    return source.choice(
        [
            (b"".join(map(pack, pieces)), "parts"),
            (pack(b"") * source.choice([1, 1000, 20_000]) + whole, "empty parts"),
            ((b"\0" * source.choice([1, 512, 200_000])).join(map(pack, pieces)) + b"\0" * 512, "padding"),
            (whole + source.choice([b"garbage", b"\0\0x", whole[:1], whole[:4]]), "garbage"),
            (whole[: source.randrange(len(whole))], "cut"),
        ]
    )
