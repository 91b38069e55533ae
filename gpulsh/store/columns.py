"""Columns of numbers in an Arrow IPC file: written durably, read by mapping, a column at a time."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Array
from gpulsh.backends.protocol import Backend
from gpulsh.io.buffers import booleans, numbers, to_arrow
from gpulsh.store.durable import ChecksummedFile, FileFact, durable_file


@contextmanager
def columns_file(path: Path, schema: Any) -> Iterator[ColumnsFile]:
    """A durable file to write columns to, a run of rows at a time."""
    with durable_file(path) as file:
        yield ColumnsFile(file, pa.ipc.new_file(file, schema), schema)


class ColumnsFile:
    """Columns being written."""

    def __init__(self, file: ChecksummedFile, writer: Any, schema: Any) -> None:
        self._file, self._writer, self._schema = file, writer, schema

    def append(self, columns: Sequence[Any]) -> None:
        """Rows more: NumPy or pyarrow arrays of one length, in the order of the schema."""
        self._writer.write_batch(pa.record_batch(list(map(_arrow, columns)), schema=self._schema))

    def finish(self) -> FileFact:
        """The file's fact, when all rows are there."""
        self._writer.close()
        return self._file.fact()


def write_columns(path: Path, columns: Mapping[str, Any]) -> FileFact:
    """NumPy or pyarrow arrays of n rows as one file."""
    arrays = {name: _arrow(column) for name, column in columns.items()}
    with columns_file(path, pa.schema([(name, array.type) for name, array in arrays.items()])) as file:
        file.append(list(arrays.values()))
        return file.finish()


def _arrow(column: Any) -> Any:
    return to_arrow(column) if isinstance(column, np.ndarray) else column


class MappedColumns:
    """A file of columns; what was read of it can be let go again."""

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        reader = pa.ipc.open_file(pa.py_buffer(self._map))
        self._batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self._batches)

    def column(self, name: str) -> NDArray[Any]:
        """A column of numbers, in place, of a file that was written in one run."""
        (column,) = self.pieces(name)
        return column

    def pieces(self, name: str) -> Iterator[NDArray[Any]]:
        """A column of numbers, in place, in the runs it was written in."""
        for batch in self._batches:
            yield numbers(batch.column(name))

    def runs(self) -> Iterator[dict[str, NDArray[Any]]]:
        """All columns, of numbers, in place, run by run."""
        for batch in self._batches:
            yield {name: numbers(batch.column(name)) for name in batch.schema.names}

    def names(self) -> list[str]:
        """Of the columns."""
        return list(self._batches[0].schema.names)

    def kind(self, name: str) -> Any:
        """A column's pyarrow.DataType."""
        return self._batches[0].schema.field(name).type

    def flags(self, name: str) -> NDArray[np.bool_]:
        """A boolean column of a file that was written in one run."""
        (batch,) = self._batches
        return booleans(batch.column(name))

    def array(self, name: str) -> Any:
        """A column as one pyarrow.Array."""
        return pa.concat_arrays([batch.column(name) for batch in self._batches])

    def batches(self) -> list[Any]:
        """All columns, in place, as the pyarrow.RecordBatch of each run they were written in."""
        return self._batches

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
            yield from file.pieces(self._names[number])
            file.let_go()

    def whole(self, ops: Backend) -> Array:
        """All rows, [n] of one column or [n, columns] of several, in the backend's memory."""
        columns = [
            np.concatenate([np.empty(0, self._dtype), *self.column(number)]) for number in range(len(self._names))
        ]
        return ops.asarray(columns[0] if len(columns) == 1 else np.stack(columns, axis=1))
