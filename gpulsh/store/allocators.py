"""What becomes of freed memory: allocators keep it, or return it to the operating system."""

from __future__ import annotations

import ctypes
from contextlib import suppress

import numpy as np
import pyarrow as pa


def give_back() -> None:
    """Return the unused memory of this process: what comes next asks for other sizes."""
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # other C libraries have no such function
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed(size: int) -> None:
    """Have memory of up to `size` bytes kept when it is freed: what comes next asks for the same sizes.

    Fresh pages would cost more than the work done in them. glibc keeps blocks as large as the largest that it has ever
    returned, and as much again (mallopt(3), M_MMAP_THRESHOLD). This one is never touched.
    """
    np.empty(size, np.uint8)
