"""Texts that lie apart in Arrow memory, copied end to end by Arrow's kernel: one pass, and other threads run meanwhile.

Python would make an object of each text to join them, under its lock. But the kernels are a library of their own, and
to load it takes as long as to join some hundred thousand texts: who asks for few is spared that.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.io.arrow.buffers import to_arrow
from gpulsh.io.rows import byte_values

if TYPE_CHECKING:
    import pyarrow as pa

PAYS = 1 << 18  # texts that were asked for, from which on the kernels are loaded
NARROW = (1 << 31) - 1  # bytes that 32-bit offsets count

_asked = 0
_asking = Lock()


def take_pays(count: int) -> bool:
    """Whether this process has asked for so many texts, with these `count`, that Arrow's kernels pay."""
    global _asked
    with _asking:
        _asked += count
        return _asked >= PAYS


def taken(array: pa.Array, rows: Numbers, size: int) -> NDArray[np.uint8]:
    """The texts at `rows` [m] of a pyarrow.Array with offsets, `size` bytes end to end; a null one has none."""
    import pyarrow as pa

    if size > NARROW and (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        array = array.cast(pa.large_string() if pa.types.is_string(array.type) else pa.large_binary())
    return byte_values(array.take(to_arrow(rows)).buffers()[2])[:size]


def end_to_end(views: NDArray[np.int32], buffers: Sequence[pa.Buffer | None]) -> TextBatch | None:
    """The texts of views [m, 4], as Arrow lays them out, into data buffers; None where pyarrow has no such kernel."""
    import pyarrow as pa

    try:
        given = [None, pa.py_buffer(np.ascontiguousarray(views)), *buffers]
        found = pa.Array.from_buffers(pa.binary_view(), len(views), given).cast(pa.large_binary())
    except (pa.ArrowNotImplementedError, ValueError):  # of releases that know views, but little of them
        return None
    _, offsets, content = found.buffers()
    return TextBatch(byte_values(content), np.frombuffer(offsets, np.int64)[: len(views) + 1])
