"""Columns of numbers in an Arrow IPC file: written durably, read by mapping, a column at a time."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Array
from gpulsh.backends.protocol import Backend
from gpulsh.store.durable import FileFact, durable_file


def write_columns(path: Path, columns: Mapping[str, Any]) -> FileFact:
    """NumPy arrays [n] or pyarrow arrays of n rows, as one record batch."""
    arrays = [pa.array(column) for column in columns.values()]
    batch = pa.record_batch(arrays, names=list(columns))
    with durable_file(path) as file:
        with pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        return file.fact()


class MappedColumns:
    """A file of `write_columns`; what was read of it can be let go again."""

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._batch = pa.ipc.open_file(pa.py_buffer(self._map)).get_batch(0)

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def names(self) -> list[str]:
        """Of all columns."""
        return list(self._batch.schema.names)

    def column(self, name: str) -> NDArray[Any]:
        """A column of numbers, [n], in place."""
        values: NDArray[Any] = self._batch.column(name).to_numpy(zero_copy_only=True)
        return values

    def arrow(self, name: str) -> Any:
        """A column as a pyarrow.Array."""
        return self._batch.column(name)

    def batch(self) -> Any:
        """All columns as a pyarrow.RecordBatch, in place."""
        return self._batch

    def let_go(self) -> None:
        """What was read need not stay in memory; it is read again where it is asked for again."""
        self._map.madvise(mmap.MADV_DONTNEED)


class StoredRows:
    """Rows that are the columns `names` of files, one after another."""

    def __init__(self, files: Sequence[MappedColumns], names: Sequence[str], dtype: type[np.generic]) -> None:
        self._files, self._names, self._dtype = files, names, dtype

    def column(self, number: int) -> Iterator[NDArray[Any]]:
        """A column, file by file; what was read of a file is let go when the next one is asked for."""
        for file in self._files:
            yield file.column(self._names[number])
            file.let_go()

    def whole(self, ops: Backend) -> Array:
        """All rows, [n] of one column or [n, columns] of several, in the backend's memory."""
        columns = [
            np.concatenate([np.empty(0, self._dtype), *self.column(number)]) for number in range(len(self._names))
        ]
        return ops.asarray(columns[0] if len(columns) == 1 else np.stack(columns, axis=1))
