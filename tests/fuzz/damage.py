"""Blind damage to bytes and to compressed streams: bits, ranges, integers, parts; and streams larger than memory."""

import gzip
import struct
import zlib
from collections.abc import Callable
from random import Random

# Both sides of each width, and numbers that are plausible as a count, a length or an offset.
INTEGERS = [
    *(0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 4095, 60_000, 65_535, 65_536, 1 << 20, 10_000_000, 1 << 28),
    *((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
]
HOW = ["bits", "bytes", "integer", "integer", "cut", "headless", "longer", "hole", "zeros", "repeat", "swap", "splice"]


def integer(source: Random, bits: int = 64) -> int:
    """An awkward signed integer of `bits` bits, or one next to it; sometimes any."""
    value = source.choice(INTEGERS) if source.random() < 0.8 else source.getrandbits(source.randint(1, bits))
    value += source.choice([0, 0, 0, -1, 1])
    if source.random() < 0.25:
        value = -value
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def damaged(source: Random, data: bytes, other: bytes = b"") -> tuple[bytes, str]:
    """The bytes with one kind of damage, and its name; a splice takes bytes from `other`."""
    if not data:
        return source.randbytes(source.randint(1, 64)), "random bytes in place of nothing"
    at, stop = sorted(source.randrange(len(data) + 1) for _ in range(2))
    length = min(stop - at, 1 << source.randint(0, 12))
    how = source.choice(HOW)
    if how in ("bits", "bytes"):
        changed = bytearray(data)
        for _ in range(source.choice([1, 1, 1, 2, 8])):
            place = source.randrange(len(data))
            flipped = changed[place] ^ 1 << source.randrange(8)
            changed[place] = flipped if how == "bits" else source.choice([0, 0x7F, 0x80, 0xFF, source.randrange(256)])
        return bytes(changed), how
    if how == "integer":
        place, width = source.randrange(len(data)), source.choice([1, 2, 4, 8])
        order = source.choice(["little", "little", "little", "big"])
        written = integer(source, 8 * width).to_bytes(width, order, signed=True)  # type: ignore[arg-type]
        return data[:place] + written[: len(data) - place] + data[place + width :], how
    before, part, after = data[:at], data[at : at + length], data[at + length :]
    if how == "cut":
        return data[: source.choice([at, len(data) - 1, max(len(data) - 8, 0), 0])], how
    if how == "headless":
        return data[source.choice([1, 4, length, at]) :], how
    if how == "longer":
        return data + source.choice([b"\0" * length, source.randbytes(length), part, data, b"\0"]), how
    if how == "hole":
        return before + after, how
    if how == "zeros":
        return before + b"\0" * length + after, how
    if how == "repeat":
        return before + part * source.choice([2, 2, 3, 50]) + after, how
    if how == "swap":
        middle = (at + stop) // 2
        return before + data[middle:stop] + data[at:middle] + data[stop:], how
    other = other or data
    place = source.randrange(len(other) + 1)
    return before + other[place : place + length] + source.choice([data[at:], after]), how


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


def odd_stream(source: Random, content: bytes, pack: Callable[[bytes], bytes]) -> tuple[bytes, str]:
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
