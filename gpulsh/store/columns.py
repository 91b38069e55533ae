"""Columns of numbers in an Arrow IPC file: written durably, read by mapping, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar, get_args, get_type_hints

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Values
from gpulsh.io.arrow.buffers import booleans, numbers, to_arrow
from gpulsh.store.durable import ChecksummedFile, FileFact, durable_file
from gpulsh.store.mapping import MappedBatches, damaged_file

Row = TypeVar("Row")
Other = TypeVar("Other")


@contextmanager
def columns_file(path: Path, schema: pa.Schema) -> Iterator[ColumnsFile]:
    """A durable file to write columns to, a run of rows at a time; its owner's alone, for it may hold keyed hashes."""
    with durable_file(path, private=True) as file:
        yield ColumnsFile(file, pa.ipc.new_file(file, schema), schema)


class ColumnsFile:
    """Columns being written."""

    def __init__(self, file: ChecksummedFile, writer: pa.RecordBatchFileWriter, schema: pa.Schema) -> None:
        self._file, self._writer, self._schema = file, writer, schema

    def append(self, columns: Sequence[Values | pa.Array]) -> None:
        """Append rows: NumPy or pyarrow arrays of one length, in the order of the schema."""
        self._writer.write_batch(pa.record_batch(list(map(_arrow, columns)), schema=self._schema))

    def finish(self) -> FileFact:
        """The file's fact, when all rows are there."""
        self._writer.close()
        return self._file.fact()


def write_columns(path: Path, columns: Mapping[str, Values | pa.Array]) -> FileFact:
    """NumPy or pyarrow arrays of n rows as one file."""
    arrays = {name: _arrow(column) for name, column in columns.items()}
    with columns_file(path, pa.schema([(name, array.type) for name, array in arrays.items()])) as file:
        file.append(list(arrays.values()))
        return file.finish()


def _arrow(column: Values | pa.Array) -> pa.Array:
    return to_arrow(column) if isinstance(column, np.ndarray) else column


class Flags:
    """A boolean column of a file; a range of rows is unpacked when it is asked for."""

    def __init__(self, column: pa.BooleanArray) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, rows: slice) -> NDArray[np.bool_]:
        return booleans(self._column[rows])


FlagColumn = NDArray[np.bool_] | Flags  # as it is written, and as it is read


class MappedColumns(Generic[Row]):
    """A file whose columns are the fields of a named tuple, which says their types; its other columns are ignored.

    A field is an array of numbers or a `FlagColumn`; one of any other type is a pyarrow.Array as it was written.
    """

    def __init__(self, path: Path, row: Callable[..., Row]) -> None:
        self._mapped, self._row = MappedBatches(path), row

    def whole(self) -> Row:
        """All rows, in place, of a file that was written in one run."""
        batches = self._mapped.batches
        if len(batches) != 1:
            raise damaged_file(self._mapped.path, f"it holds {len(batches)} record batches, not one")
        return self._read(batches[0], self._row)

    def runs(self) -> Iterator[Row]:
        """The rows, in place, of each run they were written in."""
        return self.beside(self._row)

    def beside(self, row: Callable[..., Other]) -> Iterator[Other]:
        """Yield the runs of other columns of the file, those of another named tuple."""
        return (self._read(batch, row) for batch in self._mapped.batches)

    def let_go(self) -> None:
        """As `MappedBatches`."""
        self._mapped.let_go()

    def _read(self, batch: pa.RecordBatch, row: Callable[..., Other]) -> Other:
        return row(*(self._column(batch, name, kind) for name, kind in kinds_of(row).items()))

    def _column(self, batch: pa.RecordBatch, name: str, kind: type[np.generic] | None) -> Values | Flags | pa.Array:
        if len(batch.schema.get_all_field_indices(name)) != 1:
            raise damaged_file(self._mapped.path, f"it lacks the column {name!r}")
        column = batch.column(name)
        if kind is None:
            return column
        if not len(column):
            return np.empty(0, np.int64 if kind is np.signedinteger else kind)
        if kind is np.bool_ and pa.types.is_boolean(column.type):
            return Flags(column)
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            found = numbers(column)
            if np.issubdtype(found.dtype, kind):
                return found
        raise damaged_file(self._mapped.path, f"column {name!r} is {column.type}, not {kind.__name__}")


@cache
def kinds_of(row: Callable[..., object]) -> Mapping[str, type[np.generic] | None]:
    """NumPy's type of each field of a named tuple; None where it is not one of numbers or flags."""
    return {name: _kind_of(hint) for name, hint in get_type_hints(row).items()}


def _kind_of(hint: object) -> type[np.generic] | None:
    """The scalar type in a hint, however deep: what `NDArray` stands for depends on NumPy's version."""
    if isinstance(hint, type) and issubclass(hint, np.generic):
        return hint
    return next(filter(None, map(_kind_of, get_args(hint))), None)
