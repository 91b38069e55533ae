"""Record batches of an Arrow IPC file, mapped: a column is read from disk where it is looked at."""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa


class Mapped(Protocol):
    """Anything that is mapped."""

    def let_go(self) -> None:
        """What was read need not stay in this process's memory; it is read again where it is looked at again."""
        ...


class MappedBatches:
    """`batches`: the file's pyarrow.RecordBatch, in place. They hold it, also when its name is gone, but no handle."""

    def __init__(self, path: Path) -> None:
        with pa.memory_map(os.fsencode(path)) as file:  # of a str it takes what is UTF-8
            self._whole = file.read_buffer()
        reader = pa.ipc.open_file(self._whole)
        self.batches: list[Any] = [reader.get_batch(number) for number in range(reader.num_record_batches)]

    def let_go(self) -> None:
        """What was read need not stay in this process's memory; it is read again where it is looked at again."""
        _madvise()(self._whole.address, self._whole.size, mmap.MADV_DONTNEED)


@cache
def _madvise() -> Any:
    call = ctypes.CDLL(None).madvise
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return call
