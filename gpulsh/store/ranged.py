"""Rows ordered by the upper bits of a hash, so that all rows of a range of hashes are one slice of a column.

A file holds runs of rows; within a run they ascend by the upper 16 bits, which a radix sort does in two passes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.parts import part_range

SHIFT = np.uint64(48)


def range_order(hashes: NDArray[np.uint64]) -> Numbers:
    """int64 [n]: the rows in order of the upper bits of their hashes."""
    return np.argsort((hashes >> SHIFT).astype(np.uint16), kind="stable")


def range_rows(hashes: NDArray[np.uint64], part: int, parts: int) -> slice:
    """Where in a run all hashes of part `part` of `parts` equal ranges lie, with others of the same upper bits."""
    first, last = part_range(part, parts)
    low = bisect_left(hashes, first >> 48, key=_upper)
    return slice(low, bisect_right(hashes, last >> 48, lo=low, key=_upper))


def _upper(value: np.uint64) -> int:
    return int(value) >> 48
