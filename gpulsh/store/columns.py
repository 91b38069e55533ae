"""Columns of numbers in an Arrow IPC file: written durably, read by mapping, a column at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Values
from gpulsh.io.arrow.buffers import booleans, numbers, to_arrow
from gpulsh.store.durable import ChecksummedFile, FileFact, durable_file
from gpulsh.store.mapping import MappedBatches, damaged_file


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
        """Rows more: NumPy or pyarrow arrays of one length, in the order of the schema."""
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


class MappedColumns:
    """A file of columns; what was read of it can be let go again."""

    def __init__(self, path: Path) -> None:
        self._mapped = MappedBatches(path)

    def column(self, name: str) -> Values:
        """A column of numbers, in place, of a file that was written in one run."""
        return self._numbers(self._only(), name)

    def runs(self, schema: pa.Schema = None) -> Iterator[dict[str, Values]]:
        """All columns, of numbers, in place, run by run; damage where they are not those of `schema`, if given."""
        for batch in self._mapped.batches:
            if schema is not None and batch.schema != schema:
                told = ", ".join(f"{field.name} {field.type}" for field in batch.schema)
                raise damaged_file(self._mapped.path, f"it holds the columns {told[:200]}")
            yield {name: self._numbers(batch, name) for name in batch.schema.names}

    def names(self) -> list[str]:
        """Of the columns."""
        return list(self._schema().names)

    def kind(self, name: str) -> pa.DataType:
        """A column's pyarrow.DataType."""
        self._refuse_lack(self._schema(), name)
        return self._schema().field(name).type

    def flags(self, name: str) -> NDArray[np.bool_]:
        """A boolean column of a file that was written in one run."""
        batch = self._only()
        self._refuse_lack(batch.schema, name)
        if not pa.types.is_boolean(batch.column(name).type):
            raise damaged_file(self._mapped.path, f"column {name!r} is {batch.column(name).type}, not flags")
        return booleans(batch.column(name))

    def array(self, name: str) -> pa.Array:
        """A column as one pyarrow.Array."""
        self._refuse_lack(self._schema(), name)
        columns = [batch.column(name) for batch in self._mapped.batches]
        return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)

    def batches(self) -> list[pa.RecordBatch]:
        """All columns, in place, as the pyarrow.RecordBatch of each run they were written in."""
        return self._mapped.batches

    def _schema(self) -> pa.Schema:
        if not self._mapped.batches:
            raise damaged_file(self._mapped.path, "it holds no record batch")
        return self._mapped.batches[0].schema

    def _only(self) -> pa.RecordBatch:
        if len(self._mapped.batches) != 1:
            raise damaged_file(self._mapped.path, f"it holds {len(self._mapped.batches)} record batches, not one")
        return self._mapped.batches[0]

    def _refuse_lack(self, schema: pa.Schema, name: str) -> None:
        if len(schema.get_all_field_indices(name)) != 1:
            raise damaged_file(self._mapped.path, f"it lacks the column {name!r}")

    def _numbers(self, batch: pa.RecordBatch, name: str) -> Values:
        self._refuse_lack(batch.schema, name)
        kind = batch.schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise damaged_file(self._mapped.path, f"column {name!r} is {kind}, not numbers")
        return numbers(batch.column(name))

    def let_go(self) -> None:
        """As `MappedBatches`."""
        self._mapped.let_go()
