"""An Arrow IPC file, of which only what is looked at is read, into memory of this process.

A record batch may be larger than memory, and of most only one column matters, so batches are not read whole. Mapping
the file would do as well, but a file that is cut short while it is mapped ends the process by SIGBUS, and one that is
written to changes between the check of an offset and its use. So Arrow is shown messages whose metadata is real and
whose body is memory that nobody has touched; it says where in the body the buffers of each column are, and the rows
that are wanted are read from there by `pread`.

Bodies that Arrow decodes itself, compressed ones and those of another byte order, are read whole, where they fit. So is
every body of a file that is not on this machine, where each part alone would be a request of its own.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import weakref
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import BinaryIO, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.errors import DamagedInputError
from gpulsh.io.arrow.rows import arrow_rows, has_views
from gpulsh.io.arrow.soundness import check_array, check_batch, damaged_column
from gpulsh.io.file import File
from gpulsh.io.formats.arrow_ipc.bodies import CONTINUES, Bodies
from gpulsh.io.limits import Limit

SMALL = 4096  # bytes that are read whatever they are
FOOTER_END = 10  # bytes behind the footer of a file: its length and the magic


Memory: TypeAlias = "pa.Buffer | mmap.mmap"
Words: TypeAlias = "dict[int, tuple[pa.Array, pa.Array]]"  # dictionaries, as Arrow gave them and read


class Given(NamedTuple):
    """Memory that Arrow was given."""

    address: int
    size: int
    place: int | None  # where in the file it is, unless it was read
    memory: weakref.ref[Memory]  # whether it lives: Arrow holds what it needs


_address = attrgetter("address")


class Source:
    """A file as Arrow reads it: bodies of messages stay unread where `lazy`."""

    closed = False

    def __init__(self, source: BinaryIO, local: bool, stream: bool, lazy: bool) -> None:
        self._source, self._local, self._stream, self._lazy = source, local, stream, lazy
        source.seek(0, os.SEEK_END)
        self._size, self._place = source.tell(), 0
        self.bodies: Bodies | None = None  # once what comes before messages is read
        self._told = -1  # the length that was read last, of a stream's metadata
        self._given: list[Given] = []  # for the batch that is read; what died is left out when one is looked for
        self._sorted = True

    def tell(self) -> int:
        """The byte that is read next."""
        return self._place

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        """As a file does."""
        self._place = place + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        return self._place

    def read(self, size: int = -1) -> Memory:
        """Bytes, or memory whose beginning alone is that of the file."""
        start = self._place
        size = max(0, min(size if size >= 0 else self._size, self._size - start))
        self._place += size
        if self._stream:
            is_metadata, self._told = size == self._told, -1
        else:
            is_metadata = self._place + FOOTER_END >= self._size
        if self._lazy and size > SMALL and not is_metadata:
            if self.bodies is not None:
                self.bodies.check(start, size, lambda *part: memoryview(self.content(*part)), decoded=False)
            return self._body(start, size)
        if self.bodies is not None:
            self.bodies.check_size(start, size)
        content = self.content(start, size)
        if self.bodies is not None:
            view = memoryview(content)
            self.bodies.check(start, size, lambda at, count: view[at - start :][:count], decoded=True)
        if size == 4:
            (self._told,) = struct.unpack("<i", content)
        return self._known(content, content.address, size, None)

    def close(self) -> None:
        """Nothing: who opened the file closes it."""

    def content(self, start: int, size: int) -> pa.Buffer:
        """A pyarrow.Buffer of what stands there; an EOFError where the file ends before.

        Of Arrow's memory, which is used again: from the system each page would be cleared first.
        """
        if not self._local:
            self._source.seek(start)
            content = pa.py_buffer(self._source.read(size))
            if content.size < size:
                raise EOFError("the file is cut short")
            return content
        content = pa.allocate_buffer(size)
        left = memoryview(content)
        while left:
            count = os.preadv(self._source.fileno(), [left], start)
            if not count:
                raise EOFError("the file is cut short")
            left, start = left[count:], start + count
        return content

    def _body(self, start: int, size: int) -> Memory:
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if not self._stream:  # of a file the metadata comes along, behind its length
            first, second = struct.unpack("<ii", self.content(start, 8))
            told = min(second + 8 if first == CONTINUES else first + 4, size)
            if told > 0:
                memory[:told] = self.content(start, told).to_pybytes()
        return self._known(memory, pa.py_buffer(memory).address, size, start)

    def _known(self, memory: Memory, address: int, size: int, place: int | None) -> Memory:
        self._given.append(Given(address, size, place, weakref.ref(memory)))
        self._sorted = False
        return memory

    def next_batch(self) -> None:
        """Forget what was read for batches before, which may live for long: dictionaries alone are used again."""
        self._given = [given for given in self._given if given.place is not None and given.memory() is not None]

    def _holder(self, buffer: pa.Buffer) -> Given | None:
        """In what memory that Arrow was given a buffer lies."""
        if not self._sorted:  # what lives lies apart
            self._given = sorted((given for given in self._given if given.memory() is not None), key=_address)
            self._sorted = True
        number = bisect_right(self._given, buffer.address, key=_address) - 1
        found = self._given[number] if number >= 0 else None
        return found if found is not None and buffer.address < found.address + found.size else None

    def gave(self, buffer: pa.Buffer) -> bool:
        """Whether a buffer of Arrow's is in what it was given, and was not decoded."""
        return self._holder(buffer) is not None

    def place(self, buffer: pa.Buffer) -> int | None:
        """Where in the file an unread buffer is; None of one that was read."""
        given = self._holder(buffer)
        return None if given is None or given.place is None else given.place + buffer.address - given.address


class UnreadBatch:
    """A record batch; its rows are read when they are asked for. `before` are dictionaries that were read for others,
    and `words` those that it has in common with them, or were read for it.
    """

    def __init__(self, file: File, source: Source | None, batch: pa.RecordBatch, before: Words) -> None:
        check_batch(file, batch, [])
        self._file, self._source, self._batch, self._before = file, source, batch, before
        self.words: Words = {}
        self._filled: set[int] = set()
        self._counted: set[int] = set()  # columns whose nulls were

    def __len__(self) -> int:
        return len(self._batch)

    @property
    def size(self) -> int:
        """Bytes of all columns."""
        return int(self._batch.get_total_buffer_size())

    def rows(self, first: int, last: int, names: Sequence[str] | None = None) -> pa.RecordBatch:
        """A pyarrow.RecordBatch of some rows, of all columns or those of these names."""
        schema = self._batch.schema
        places = [place for place, name in enumerate(schema.names) if names is None or name in names]
        if not places:
            return self._batch.slice(first, last - first).select([])
        columns = [self._column(place, first, last) for place in places]
        return pa.RecordBatch.from_arrays(
            columns, schema=pa.schema([schema.field(place) for place in places], schema.metadata)
        )

    def lengths(self, name: str) -> Numbers:
        """int64 [rows]: bytes of each text of a column, which is not read for it."""
        (place,) = self._batch.schema.get_all_field_indices(name)
        return arrow_rows(self._column(place, 0, len(self), texts=False)).lengths()

    def _column(self, place: int, first: int, last: int, texts: bool = True) -> pa.Array:
        """Rows of a column, sound; `texts` says whether strings are read, too."""
        try:
            column = self._batch.column(place)
            if len(column) != len(self):
                raise pa.ArrowInvalid(f"it has {len(column)} rows of {len(self)}")
            if place not in self._counted:
                self._check_nulls(column)
                self._counted.add(place)
            found = self._read(column.slice(first, last - first), texts)
            if texts or not has_views(column.type):  # of views the content is looked at
                check_array(found)
        except pa.ArrowException as error:
            raise damaged_column(self._file, self._batch.schema.names[place], error) from error
        return found

    def _check_nulls(self, array: pa.Array) -> None:
        """pyarrow.ArrowInvalid unless as many values are null as the file says: of cut rows nobody knows."""
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        types, nulls = pa.types, array.null_count
        if nulls and not types.is_null(array.type):
            bits = array.buffers()[0] if self._source is None else self._bits(array, 0)
            there = pa.Array.from_buffers(pa.bool_(), len(array), [None, bits]).true_count if bits else len(array)
            if len(array) - there != nulls:
                raise pa.ArrowInvalid(f"it says that {nulls} values are null, and {len(array) - there} are")
        for inner in _inner(array):
            self._check_nulls(inner)

    def _read(self, array: pa.Array, texts: bool = True) -> pa.Array:
        """The array in memory that holds what the file does."""
        if self._source is None:
            return array
        kind, count, types = array.type, len(array), pa.types
        if isinstance(array, pa.ExtensionArray):
            return pa.ExtensionArray.from_storage(kind, self._read(array.storage, texts))
        if types.is_dictionary(kind):
            codes = self._read(array.indices)
            return pa.DictionaryArray.from_arrays(codes, self._dictionary(array.dictionary), ordered=kind.ordered)
        if count == 0 or types.is_null(kind):
            return pa.nulls(count, kind)
        if types.is_struct(kind):
            children = [self._read(array.field(number)) for number in range(kind.num_fields)]
            return pa.Array.from_buffers(kind, count, [self._bits(array, 0)], children=children)
        if types.is_fixed_size_list(kind):
            child = self._read(_cut(array.values, array.offset * kind.list_size, count * kind.list_size))
            return pa.Array.from_buffers(kind, count, [self._bits(array, 0)], children=[child])
        if _width(kind):
            return self._with_offsets(array, texts)
        if has_views(kind):
            return self._views(array, texts)
        if kind.num_fields == 0 and kind.num_buffers == 2:
            content = self._bits(array, 1) if types.is_boolean(kind) else self._values(array, kind.bit_width // 8)
            return pa.Array.from_buffers(kind, count, [self._bits(array, 0), content])
        self._fill(array)
        return array

    def _with_offsets(self, array: pa.Array, texts: bool) -> pa.Array:
        """Strings, lists and maps."""
        kind, count = array.type, len(array)
        width, nested = _width(kind), kind.num_fields > 0
        offset = np.frombuffer(self._part(array.buffers()[1], array.offset * width, (count + 1) * width), f"<i{width}")
        first, last = int(offset[0]), int(offset[-1])
        bits, own = self._bits(array, 0), pa.py_buffer(offset - offset[:1])
        if nested:
            child = self._read(_cut(array.values, first, last - first))
            return pa.Array.from_buffers(kind, count, [bits, own], children=[child])
        if not texts:
            return pa.Array.from_buffers(kind, count, [bits, pa.py_buffer(offset), array.buffers()[2]])
        return pa.Array.from_buffers(kind, count, [bits, own, self._part(array.buffers()[2], first, last - first)])

    def _views(self, array: pa.Array, texts: bool) -> pa.Array:
        """Read each buffer of texts from the first byte that a row has in it to the last."""
        kind, count, data = array.type, len(array), array.buffers()[2:]
        views = np.frombuffer(self._values(array, 16), "<i4").reshape(-1, 4).copy()
        bits = self._bits(array, 0)
        if not texts:
            return pa.Array.from_buffers(kind, count, [bits, pa.py_buffer(views), *data])
        apart = views[:, 0] > 12
        if bits is not None:
            apart &= np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[:count] == 1
        parts = []
        for number, buffer in enumerate(data):
            rows = np.flatnonzero(apart & (views[:, 2] == number))
            start = int(views[rows, 3].min(initial=2**31 - 1)) if len(rows) else 0
            stop = int((views[rows, 3].astype(np.int64) + views[rows, 0]).max(initial=0))
            parts.append(self._part(buffer, start, stop - start))
            views[rows, 3] -= start
        return pa.Array.from_buffers(kind, count, [bits, pa.py_buffer(views), *parts])

    def _dictionary(self, words: pa.Array) -> pa.Array:
        held = next((buffer.address for buffer in words.buffers() if buffer is not None and buffer.size), 0)
        if held not in self.words:  # the first lives on, so that nothing else comes to lie there
            self.words[held] = self._before.get(held) or (words, self._read(words))
        return self.words[held][1]

    def _values(self, array: pa.Array, width: int) -> pa.Buffer:
        return self._part(array.buffers()[1], array.offset * width, len(array) * width)

    def _part(self, buffer: pa.Buffer, start: int, size: int) -> pa.Buffer:
        """Bytes of a buffer."""
        if not size:
            return pa.py_buffer(b"")
        if buffer is None or start < 0 or size < 0 or start + size > buffer.size:
            there = 0 if buffer is None else buffer.size
            raise pa.ArrowInvalid(f"bytes {start} to {start + size} of a buffer of {there} bytes are pointed at")
        assert self._source is not None
        place = self._source.place(buffer)
        return buffer.slice(start, size) if place is None else self._source.content(place + start, size)

    def _bits(self, array: pa.Array, number: int) -> pa.Buffer | None:
        """A buffer of one bit a row, from the array's first row on; None where there is none."""
        buffer = array.buffers()[number]
        if buffer is None:
            return None
        first, last = array.offset // 8, (array.offset + len(array) + 7) // 8
        content = self._part(buffer, first, last - first)
        if array.offset % 8 == 0:
            return content
        bits = np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little")
        return pa.py_buffer(np.packbits(bits[array.offset % 8 :][: len(array)], bitorder="little"))

    def _fill(self, array: pa.Array) -> None:
        """Read all buffers of an array of a seldom type to where Arrow thinks they are."""
        assert self._source is not None
        for buffer in array.buffers():
            place = None if buffer is None or not buffer.size else self._source.place(buffer)
            if place is not None and buffer.address not in self._filled:
                content = self._source.content(place, buffer.size)
                ctypes.memmove(buffer.address, content.address, buffer.size)
                self._filled.add(buffer.address)


def _width(kind: pa.DataType) -> int:
    """Bytes of an offset, 0 of a type without offsets."""
    types = pa.types
    if types.is_string(kind) or types.is_binary(kind) or types.is_list(kind) or types.is_map(kind):
        return 4
    return 8 if types.is_large_string(kind) or types.is_large_binary(kind) or types.is_large_list(kind) else 0


def _has_arrays(kind: pa.DataType) -> bool:
    """Whether pyarrow has a class for arrays of a type, as it has not for intervals of months."""
    if pa.types.is_dictionary(kind):
        return _has_arrays(kind.value_type)
    try:
        pa.nulls(0, kind)
    except KeyError:
        return False
    except pa.ArrowException:  # told where it is read
        return True
    return all(_has_arrays(kind.field(place).type) for place in range(kind.num_fields))


def _inner(array: pa.Array) -> list[pa.Array]:
    """The arrays whose values an array's are made of, whole."""
    types = pa.types
    if types.is_dictionary(array.type):
        return [array.dictionary]
    if types.is_struct(array.type):
        return [array.field(place) for place in range(array.type.num_fields)]
    is_list = types.is_fixed_size_list(array.type) or (_width(array.type) and array.type.num_fields)
    return [array.values] if is_list else []


def _cut(values: pa.Array, start: int, count: int) -> pa.Array:
    if start < 0 or count < 0 or start + count > len(values):
        raise pa.ArrowInvalid(f"values {start} to {start + count} of {len(values)} are pointed at")
    return values.slice(start, count)


class Batches:
    """The record batches of an open file or `stream`: its `schema`, and each batch, unread where that serves."""

    def __init__(self, file: File, source: BinaryIO, stream: bool, limit: Limit | None = None) -> None:
        self._file, self._opened, self.stream, self._limit = file, source, stream, limit
        self._open(lazy=file.filesystem is None)

    def _open(self, *, lazy: bool) -> None:
        self._words: Words = {}
        self._source, self._lazy = Source(self._opened, self._file.filesystem is None, self.stream, lazy), lazy
        reader = pa.ipc.open_stream if self.stream else pa.ipc.open_file
        self._reader = reader(pa.PythonFile(self._source, "r"))
        self.schema = self._reader.schema
        for field in self.schema:
            if not _has_arrays(field.type):
                raise DamagedInputError(
                    f"{self._file.name}: column {field.name!r} is of type {field.type}, of which pyarrow has no arrays;"
                    " write the file without it"
                )
        self._source.bodies = None if self._limit is None else Bodies(self._file, self.stream, self._limit)

    def __iter__(self) -> Iterator[UnreadBatch]:
        number = 0
        while (batch := self._batch(number)) is not None:
            number += 1
            unread = UnreadBatch(self._file, self._source if self._lazy else None, batch, self._words)
            del batch
            yield unread
            self._words = unread.words or self._words
            del unread

    def _batch(self, number: int) -> pa.RecordBatch | None:
        self._source.next_batch()
        try:
            batch = self._next(number)
        except (pa.ArrowException, OSError, EOFError):
            if not self._lazy:
                raise
        else:
            if batch is None or not self._lazy or self._is_unread(batch):
                return batch
        self._open(lazy=False)  # what Arrow decodes has to be there
        if self.stream:
            for passed in range(number):
                self._next(passed)
        return self._next(number)

    def _next(self, number: int) -> pa.RecordBatch | None:
        if not self.stream:
            return self._reader.get_batch(number) if number < self._reader.num_record_batches else None
        try:
            return self._reader.read_next_batch()
        except StopIteration:
            return None

    def _is_unread(self, batch: pa.RecordBatch) -> bool:
        """Whether Arrow decoded nothing."""
        buffers = [
            buffer for column in batch.columns for buffer in column.buffers() if buffer is not None and buffer.size
        ]
        return len(batch) == 0 or (bool(buffers) and all(map(self._source.gave, buffers)))
