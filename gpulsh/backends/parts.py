"""Work on 64-bit values in equal ranges: which range a part is, and how many parts device memory asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from gpulsh.arrays import Array
from gpulsh.errors import DeviceMemoryError

Result = TypeVar("Result")


def part_range(part: int, parts: int) -> tuple[int, int]:
    """The first and last x below 2^64 with (x * parts) >> 64 == part: no array library has 128-bit products.

    >>> [tuple(map(hex, part_range(part, 3))) for part in (0, 2)]
    [('0x0', '0x5555555555555555'), ('0xaaaaaaaaaaaaaaab', '0xffffffffffffffff')]
    """
    return -(-(part << 64) // parts), -(-((part + 1) << 64) // parts) - 1


def in_part(values: Array, part: int, parts: int) -> Array:
    """bool [n]: whether uint64 values [n], of any array library, lie in part `part` of `parts`."""
    first, last = map(np.uint64, part_range(part, parts))
    return (values >= first) & (values <= last)


def in_fitting_parts(work: Callable[[int], Result], parts: int, most: int) -> tuple[Result, int]:
    """`work(parts)`, in twice as many parts as often as device memory does not suffice, and in how many it was done.

    Raises DeviceMemoryError where `most` are not enough.
    """
    while True:
        try:
            return work(parts), parts
        except DeviceMemoryError:
            if parts >= most:
                raise
            parts *= 2
