"""Which fingerprints `shingle_part` takes, as a range of integers: no array library has 128-bit products."""

from __future__ import annotations


def part_range(part: int, parts: int) -> tuple[int, int]:
    """The first and last x below 2^64 with (x * parts) >> 64 == part.

    >>> [tuple(map(hex, part_range(part, 3))) for part in (0, 2)]
    [('0x0', '0x5555555555555555'), ('0xaaaaaaaaaaaaaaab', '0xffffffffffffffff')]
    """
    return -(-(part << 64) // parts), -(-((part + 1) << 64) // parts) - 1
