"""Blind damage to bytes: bits, ranges and integers changed without regard to what they mean."""

from __future__ import annotations

import struct
from random import Random

# On both sides of each width, and what is plausible for a count, a length or an offset and is wrong.
INTEGERS = [
    *(0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 4095, 60_000, 65_535, 65_536, 1 << 20, 10_000_000, 1 << 28),
    *((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
]


def integer(source: Random, bits: int = 64) -> int:
    """An awkward integer, as the signed one of so many bits; sometimes a step beside it, sometimes any."""
    value = source.choice(INTEGERS) if source.random() < 0.8 else source.getrandbits(source.randint(1, bits))
    value += source.choice([0, 0, 0, -1, 1])
    if source.random() < 0.25:
        value = -value
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def overwritten(source: Random, data: bytes, at: int, width: int | None = None) -> bytes:
    """An awkward integer at byte `at`, in either byte order."""
    width = width or source.choice([1, 2, 4, 8])
    order = source.choice("<<<>")
    packed = struct.pack(order + {1: "b", 2: "h", 4: "i", 8: "q"}[width], integer(source, 8 * width))
    return data[:at] + packed[: max(len(data) - at, 0)] + data[at + width :]


def damaged(source: Random, data: bytes, other: bytes = b"") -> tuple[bytes, str]:
    """The bytes with one kind of damage, and its name; `other` is what may be spliced in."""
    if not data:
        return source.randbytes(source.randint(1, 64)), "random bytes in place of nothing"
    at, stop = sorted(source.randrange(len(data) + 1) for _ in range(2))
    length = min(stop - at, 1 << source.randint(0, 12))
    how = source.choice(HOW)
    if how == "bits":
        changed = bytearray(data)
        for _ in range(source.choice([1, 1, 1, 2, 8])):
            changed[source.randrange(len(data))] ^= 1 << source.randrange(8)
        data = bytes(changed)
    elif how == "bytes":
        changed = bytearray(data)
        for _ in range(source.choice([1, 1, 4, 16])):
            changed[source.randrange(len(data))] = source.choice([0, 0x7F, 0x80, 0xFF, source.randrange(256)])
        data = bytes(changed)
    elif how == "integer":
        data = overwritten(source, data, source.randrange(len(data)))
    elif how == "cut":
        data = data[: source.choice([at, len(data) - 1, len(data) - min(8, len(data)), 0])]
    elif how == "headless":
        data = data[source.choice([1, 4, length, at]) :]
    elif how == "longer":
        more = [b"\0" * length, source.randbytes(length), data[at : at + length], data, b"\0"]
        data += source.choice(more)
    elif how == "hole":
        data = data[:at] + data[at + length :]
    elif how == "zeros":
        data = data[:at] + b"\0" * length + data[at + length :]
    elif how == "repeat":
        data = data[:at] + data[at : at + length] * source.choice([2, 2, 3, 50]) + data[at + length :]
    elif how == "swap":
        middle = (at + stop) // 2
        data = data[:at] + data[middle:stop] + data[at:middle] + data[stop:]
    else:
        other = other or data
        place = source.randrange(len(other) + 1)
        data = data[:at] + other[place : place + length] + data[source.choice([at, at + length]) :]
    return data, how


HOW = ["bits", "bytes", "integer", "integer", "cut", "headless", "longer", "hole", "zeros", "repeat", "swap", "splice"]
