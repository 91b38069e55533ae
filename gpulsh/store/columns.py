"""Columns of numbers in an Arrow IPC file: written durably, read by mapping, a column at a time.

A file holds runs of rows. Within a run, rows may be ordered by the upper 16 bits of a hash, which takes a radix sort
two passes. Then all rows of a range of hashes are one slice. A `Column` is scratch memory, for numbers one by one.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar, get_args, get_type_hints

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from gpulsh.arrays import Values
from gpulsh.backends.parts import part_range
from gpulsh.errors import DamagedInputError
from gpulsh.io.arrow.buffers import number_values, to_arrow
from gpulsh.store.durable import ChecksummedFile, FileFact, durable_file, open_file

Row = TypeVar("Row")
OtherRow = TypeVar("OtherRow")
LIBC = ctypes.CDLL(None)


@contextmanager
def columns_file(path: Path, schema: pa.Schema) -> Iterator[ColumnsFile]:
    """A durable file to write columns to, run by run, for its owner alone, because it may contain keyed hashes."""
    with durable_file(path, private=True) as file:
        yield ColumnsFile(path, file, pa.ipc.new_file(file, schema), schema)


class ColumnsFile:
    """Columns being written."""

    def __init__(self, path: Path, file: ChecksummedFile, writer: pa.RecordBatchFileWriter, schema: pa.Schema) -> None:
        self._path, self._file, self._writer, self._schema = path, file, writer, schema

    def append(self, columns: Sequence[Values | pa.Array]) -> None:
        """Append rows: NumPy or pyarrow arrays of one length, in the order of the schema."""
        self._writer.write_batch(pa.record_batch(list(map(_as_arrow, columns)), schema=self._schema))

    def finish(self) -> FileFact:
        """The file's fact, when all rows are there."""
        self._writer.close()
        return self._file.fact()

    def finish_by_name(self) -> dict[str, FileFact]:
        """`finish`, with the fact by the file's name."""
        return {self._path.name: self.finish()}


def write_columns(path: Path, columns: Mapping[str, Values | pa.Array]) -> FileFact:
    """NumPy or pyarrow arrays of n rows as one file."""
    arrays = {name: _as_arrow(column) for name, column in columns.items()}
    with columns_file(path, pa.schema([(name, array.type) for name, array in arrays.items()])) as file:
        file.append(list(arrays.values()))
        return file.finish()


def _as_arrow(column: Values | pa.Array) -> pa.Array:
    if not isinstance(column, np.ndarray):
        return column
    return to_arrow(column.view(np.uint8) if column.dtype == np.bool_ else column)


def _map(path: Path) -> pa.Buffer:
    """The content of a file, in place."""
    try:
        with pa.memory_map(os.fsencode(path)) as file:  # a str would have to be UTF-8
            return file.read_buffer()
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
        with open_file(path) as file:
            return pa.py_buffer(_private_map(file.fileno()))


def _private_map(handle: int) -> mmap.mmap:
    """The content of an open file, in place, where FUSE without a page cache shares no mapping. It keeps a handle."""
    return mmap.mmap(handle, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)


class MappedBatches:
    """`batches`: the file's pyarrow.RecordBatch, in place. They keep the content, but neither its name nor a handle.

    The offsets of strings are checked, unless this run made the file: many tasks open it for a few of its rows.
    """

    def __init__(self, path: Path, *, of_this_run: bool = False) -> None:
        self.path = path
        self._whole = _map(path)
        try:
            reader = pa.ipc.open_file(self._whole)
            self.batches: list[pa.RecordBatch] = [
                reader.get_batch(number) for number in range(reader.num_record_batches)
            ]
            for batch in self.batches:
                batch.validate()  # buffers must be as long as the rows need
                for column in () if of_this_run else batch.columns:
                    if not pa.types.is_primitive(column.type):
                        column.validate(full=True)  # offsets must point into them
        except (OSError, ValueError, pa.ArrowException) as error:
            raise damaged_file(path, str(error).splitlines()[0]) from error

    def release(self) -> None:
        """Return the pages that were read to the system; a later access reads them again."""
        address, size = ctypes.c_void_p(self._whole.address), ctypes.c_size_t(self._whole.size)
        LIBC.madvise(address, size, mmap.MADV_DONTNEED)


def damaged_file(path: Path, reason: str) -> DamagedInputError:
    """The error of a file that does not hold what gpulsh writes there."""
    return DamagedInputError(f"{path}: is damaged: {reason}; restore it from a copy, or make it again")


class MappedColumns(MappedBatches, Generic[Row]):
    """A file whose columns are the fields of a named tuple, which gives their types. Other columns are ignored.

    A field is an array of numbers or of flags, which take a byte each; a field of any other type is a pyarrow.Array.
    A field of int64 has the file's numbers of 64 bits, or of 32 without a sign.
    """

    def __init__(self, path: Path, row: Callable[..., Row], *, of_this_run: bool = False) -> None:
        super().__init__(path, of_this_run=of_this_run)
        self._row = row

    def whole(self) -> Row:
        """All rows, in place, of a file that was written in one run."""
        if len(self.batches) != 1:
            raise damaged_file(self.path, f"it holds {len(self.batches)} record batches, not one")
        return next(self.runs())

    def runs(self) -> Iterator[Row]:
        """The rows, in place, run by run."""
        return self.runs_of(self._row)

    def runs_of(self, row: Callable[..., OtherRow]) -> Iterator[OtherRow]:
        """The runs with the columns of another named tuple."""
        kinds = column_types(row).items()
        return (row(*(self._column(batch, name, kind) for name, kind in kinds)) for batch in self.batches)

    def _column(self, batch: pa.RecordBatch, name: str, kind: type[np.generic] | None) -> Values | pa.Array:
        if len(batch.schema.get_all_field_indices(name)) != 1:
            raise damaged_file(self.path, f"it lacks the column {name!r}")
        column = batch.column(name)
        if kind is None:
            return column
        if not len(column):
            return np.empty(0, np.int64 if kind in (np.signedinteger, np.integer) else kind)
        if kind is np.bool_ and pa.types.is_uint8(column.type):
            return number_values(column).view(np.bool_)
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            found = number_values(column)
            if np.issubdtype(found.dtype, kind) or (kind is np.int64 and found.dtype == np.uint32):
                return found
        raise damaged_file(self.path, f"column {name!r} is {column.type}, not {kind.__name__}")


@cache
def column_types(row: Callable[..., object]) -> Mapping[str, type[np.generic] | None]:
    """NumPy's type of each field of a named tuple; None if it is not one of numbers or flags."""

    def kind_of(hint: object) -> type[np.generic] | None:
        # It may be deep: `NDArray` is another type in each version of NumPy.
        if isinstance(hint, type) and issubclass(hint, np.generic):
            return hint
        return next(filter(None, map(kind_of, get_args(hint))), None)

    return {name: kind_of(hint) for name, hint in get_type_hints(row).items()}


def range_rows(hashes: NDArray[np.uint64], part: int, parts: int) -> slice:
    """The slice of a run with all hashes of range `part` of `parts` equal ones, and others of the same upper bits."""
    first, last = part_range(part, parts)

    def upper(value: np.uint64) -> int:
        return int(value) >> 48

    low = bisect_left(hashes, first >> 48, key=upper)
    return slice(low, bisect_right(hashes, last >> 48, lo=low, key=upper))


class Column:
    """Appended numbers, in a file without a name in `folder`; without a folder, in memory that grows in place."""

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
            self._map = _private_map(self._file.fileno())
        return np.frombuffer(self._map, self._dtype)

    def release(self) -> None:
        """Return the pages that were read to the system; a later access reads them again."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)


def release_memory() -> None:
    """Return the unused memory of this process to the system: the next stage needs other sizes."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError):  # other C libraries have no such function
        LIBC.malloc_trim(0)


def keep_freed_blocks(size: int) -> None:
    """Make the allocator keep freed blocks of up to `size` bytes: the next calls need the same sizes.

    Fresh pages would cost more than the work done in them. glibc keeps blocks as large as the largest that was ever
    freed (mallopt(3), M_MMAP_THRESHOLD). The block here is never touched.
    """
    np.empty(size, np.uint8)
