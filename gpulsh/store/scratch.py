"""Scratch memory: numbers that are appended and then read as one array, and the memory that a stage has freed."""

from __future__ import annotations

import ctypes
import mmap
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from gpulsh.arrays import Values


class Column:
    """Appended numbers, in a file without a name in `folder`, or in memory that grows in place where that is None."""

    def __init__(self, dtype: DTypeLike, folder: Path | None = None) -> None:
        self._dtype = np.dtype(dtype)
        self._held = bytearray()
        self._file = None if folder is None else tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - `whole` closes it
        self._map: mmap.mmap | None = None

    def append(self, values: Values) -> None:
        """Append numbers."""
        data = np.ascontiguousarray(values, self._dtype).view(np.uint8).data
        if self._file is None:
            self._held += data
        else:
            self._file.write(data)

    def whole(self) -> Values:
        """All numbers as one array; no more can be appended."""
        if self._file is None:
            return np.frombuffer(self._held, self._dtype)
        with self._file:
            if self._file.tell() == 0:
                return np.empty(0, self._dtype)
            self._file.flush()
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._map, self._dtype)

    def release(self) -> None:
        """Return the pages that were read to the system; a later access reads them again."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)


def release_memory() -> None:
    """Return the unused memory of this process to the system: the next stage needs other sizes."""
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # other C libraries have no such function
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed(size: int) -> None:
    """Make the allocator keep freed blocks of up to `size` bytes: the next calls need the same sizes.

    Fresh pages would cost more than the work done in them. glibc keeps blocks as large as the largest that was ever
    freed (mallopt(3), M_MMAP_THRESHOLD). The block here is never touched.
    """
    np.empty(size, np.uint8)
