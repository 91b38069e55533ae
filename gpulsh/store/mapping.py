"""Record batches of an Arrow IPC file, mapped: a column is read from disk where it is looked at."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from gpulsh.errors import DamagedInputError
from gpulsh.io.arrow.soundness import check_array


class Mapped(Protocol):
    """Anything that is mapped."""

    def let_go(self) -> None:
        """Let the system drop the pages that were read; it reads them again when they are looked at."""


class MappedBatches:
    """`batches`: the file's pyarrow.RecordBatch, in place. They hold it, also when its name is gone, but no handle."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with pa.memory_map(os.fsencode(path)) as file:  # of a str it takes what is UTF-8
            self._whole = file.read_buffer()
        try:
            reader = pa.ipc.open_file(self._whole)
            self.batches: list[pa.RecordBatch] = [
                reader.get_batch(number) for number in range(reader.num_record_batches)
            ]
            for batch in self.batches:
                _check(batch)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise damaged_file(path, str(error).splitlines()[0]) from error

    def let_go(self) -> None:
        """Let the system drop the pages that were read; it reads them again when they are looked at."""
        _madvise()(self._whole.address, self._whole.size, mmap.MADV_DONTNEED)


def damaged_file(path: Path, told: str) -> DamagedInputError:
    """The error of a file that does not hold what gpulsh writes there."""
    return DamagedInputError(f"{path}: is damaged: {told}; restore it from a copy, or make it again")


def _check(batch: pa.RecordBatch) -> None:
    """Check that buffers hold what is read of them, whatever the checksum says; of numbers the length is enough."""
    batch.validate()
    for column in batch.columns:
        if not pa.types.is_primitive(column.type):
            check_array(column)


@cache
def _madvise() -> Callable[[int, int, int], int]:
    call = ctypes.CDLL(None).madvise
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return call
