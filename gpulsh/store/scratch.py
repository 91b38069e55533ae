"""Numbers that are appended and then read as one array: in memory, or in a file that has no name and dies with us."""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from gpulsh.arrays import Values


class Column:
    """In memory where `folder` is None, else in a file there.

    In memory it is lengthened where it lies: it is not there twice, as arrays that are joined are.
    """

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
        """All that was appended; nothing more is."""
        if self._file is None:
            return np.frombuffer(self._held, self._dtype)
        with self._file:
            if self._file.tell() == 0:
                return np.empty(0, self._dtype)
            self._file.flush()
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._map, self._dtype)

    def let_go(self) -> None:
        """Let the system drop the pages that were read; it reads them again when they are looked at."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)
