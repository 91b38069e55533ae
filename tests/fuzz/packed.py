"""Compressed streams by hand: gigabytes in kilobytes, in milliseconds, and whatever a compressor would never write."""

from __future__ import annotations

import gzip
import struct
import zlib
from random import Random

from tests.fuzz.damage import damaged, integer

POLYNOMIAL = 0xEDB88320


def gzip_member(content: bytes, level: int = 6) -> bytes:
    return gzip.compress(content, level, mtime=0)


def repeated_member(head: bytes, unit: bytes, count: int, tail: bytes) -> bytes:
    """A gzip member of head + unit * count + tail: after a full flush the same content has the same bytes."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    begin = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    middle = packer.compress(unit) + packer.flush(zlib.Z_FULL_FLUSH)
    end = packer.compress(tail) + packer.flush(zlib.Z_FINISH)
    checksum, of_unit, size = zlib.crc32(head), zlib.crc32(unit), len(unit)
    left = count
    while left:  # by doubling
        if left & 1:
            checksum = _joined(checksum, of_unit, size)
        of_unit, size, left = _joined(of_unit, of_unit, size), 2 * size, left >> 1
    checksum = _joined(checksum, zlib.crc32(tail), len(tail))
    total = len(head) + len(unit) * count + len(tail)
    header = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    return header + begin + middle * count + end + struct.pack("<II", checksum, total & 0xFFFFFFFF)


def _times(a: int, b: int) -> int:
    """The product of two polynomials modulo that of CRC-32, as zlib does it."""
    product, bit = 0, 1 << 31
    while True:
        if a & bit:
            product ^= b
            if not a & (bit - 1):
                return product
        bit >>= 1
        b = b >> 1 ^ POLYNOMIAL if b & 1 else b >> 1


def _joined(first: int, second: int, size: int) -> int:
    """The CRC-32 of two pieces end to end, the second of so many bytes."""
    power, factor, bits = 1 << 31, 1 << 30, 8 * size
    while bits:
        if bits & 1:
            power = _times(factor, power)
        factor, bits = _times(factor, factor), bits >> 1
    return _times(power, first) ^ second


def odd_gzip(source: Random, content: bytes) -> tuple[bytes, str]:
    """The content as gzip that is allowed and seldom seen, or that is not allowed by a little."""
    how = source.choice(
        ["flags", "members", "empty members", "padding", "garbage", "stored", "trailer", "checksum", "cut"]
    )
    cuts = sorted(source.randrange(len(content) + 1) for _ in range(source.randint(1, 4)))
    pieces = [content[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    if how == "flags":
        raw = gzip_member(content)
        extra = source.randbytes(source.choice([0, 5, 65_535]))
        parts = {4: struct.pack("<H", len(extra)) + extra, 8: b"a name\0", 16: b"a\ncomment\0"}
        flags = sum(flag for flag in parts if source.random() < 0.6)
        header = raw[:3] + bytes([flags | source.choice([0, 0, 2, 32])]) + source.randbytes(4) + b"\0\xff"
        return header + b"".join(part for flag, part in parts.items() if flags & flag) + raw[10:], how
    if how == "members":
        return b"".join(map(gzip_member, pieces)), how
    if how == "empty members":
        return gzip_member(b"") * source.choice([1, 1000, 30_000]) + gzip_member(content), how
    if how == "padding":
        return (b"\0" * source.choice([1, 512, 200_000])).join(map(gzip_member, pieces)) + b"\0" * 512, how
    if how == "garbage":
        return gzip_member(content) + source.choice(
            [b"garbage", b"\x1f", b"\x1f\x8b", b"\0\0x", b"\x1f\x8b\x08\0"]
        ), how
    if how == "stored":
        return gzip_member(content, 0), how
    raw = gzip_member(content)
    if how == "trailer":
        return raw[:-4] + struct.pack("<I", integer(source, 32) & 0xFFFFFFFF), how
    if how == "checksum":
        inner, told = damaged(source, raw[10:-8])
        return raw[:10] + inner + raw[-8:], f"{how}, {told}"
    return raw[: source.randrange(len(raw))], how


MOST_BLOCK = 128 << 10


def zstd_frame(
    blocks: list[bytes], *, window: int = 0x38, size: int | None = None, alone: bool = False, flags: int = 0
) -> bytes:
    """A frame of finished blocks; `window` is the descriptor's byte, `size` what it says of its content's."""
    of_size = 0 if size is None else 3
    head = bytes([of_size << 6 | (32 if alone else 0) | flags]) + (b"" if alone else bytes([window]))
    head += b"\0" if alone and size is None else b"" if size is None else struct.pack("<Q", size & (1 << 64) - 1)
    return b"\x28\xb5\x2f\xfd" + head + b"".join(blocks)


def zstd_raw(content: bytes, last: bool = False) -> list[bytes]:
    cut = [content[at : at + MOST_BLOCK] for at in range(0, len(content), MOST_BLOCK)] or [b""]
    ends = [*[False] * (len(cut) - 1), last]
    return [struct.pack("<I", len(each) << 3 | end)[:3] + each for each, end in zip(cut, ends, strict=True)]


def zstd_repeat(byte: bytes, count: int) -> list[bytes]:
    """Blocks of `count` times 128 KiB of one byte."""
    return [struct.pack("<I", MOST_BLOCK << 3 | 2)[:3] + byte] * count


def odd_zstd(source: Random, content: bytes) -> tuple[bytes, str]:
    """The content as Zstandard that is allowed and seldom seen, or that is not allowed by a little."""
    import zstandard

    how = source.choice(
        ["frames", "skipped", "window", "size", "reserved", "garbage", "checksum", "block", "cut", "empty"]
    )
    plain = zstandard.ZstdCompressor(level=3, write_checksum=True).compress(content)
    half = len(content) // 2
    if how == "frames":
        return zstandard.compress(content[:half]) + zstandard.compress(content[half:]), how
    if how == "skipped":
        told = source.choice([0, 8, 8, 1 << 20, (1 << 32) - 1])
        return b"\x5a\x2a\x4d\x18" + struct.pack("<I", told) + b"\0" * min(told, 1 << 20) + plain, f"{how} {told}"
    if how == "window":
        window = source.choice([0, 0x38, 0x88, 0xA0, 0xA8, 0xB0, 0xFF])
        return zstd_frame(zstd_raw(content, last=True), window=window), f"{how} {window:#x}"
    if how == "size":
        size = source.choice([len(content), len(content) + 1, 0, integer(source)])
        return zstd_frame(zstd_raw(content, last=True), size=size, alone=source.random() < 0.5), f"{how} {size}"
    if how == "reserved":
        return zstd_frame(zstd_raw(content, last=True), flags=source.choice([8, 16, 1, 2, 3, 4])), how
    if how == "garbage":
        return plain + source.choice([b"garbage", b"\0", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"]), how
    if how == "checksum":
        return plain[:-4] + source.randbytes(4), how
    if how == "block":
        kind, size = source.randrange(4), source.choice([0, 1, len(content), MOST_BLOCK + 1, (1 << 21) - 1])
        return zstd_frame([struct.pack("<I", size << 3 | kind << 1 | 1)[:3] + content]), f"{how} {kind} of {size}"
    if how == "empty":
        return zstandard.compress(b"") * source.choice([1, 20_000]) + plain, how
    return plain[: source.randrange(len(plain))], how
