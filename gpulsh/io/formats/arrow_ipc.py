"""Arrow IPC by pyarrow, as a file or as a stream: read and written batch by batch.

Only the columns that are used are decoded. gpulsh validates each batch before it uses a value, because offsets in a
file may point anywhere. A whole batch is in memory, and the kernel enforces `--memory` (`gpulsh.memory_limit`).

Rejected: mapping the file. A file that is cut short while it is mapped ends the process by a signal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from struct import unpack_from
from typing import Unpack

import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.errors import DamagedInputError
from gpulsh.io.arrow.buffers import as_one_array, filter_rows, take_rows
from gpulsh.io.arrow.ids import refuse_unsupported
from gpulsh.io.arrow.texts import Cutter, check_columns, column_named, type_named
from gpulsh.io.arrow.validation import check_batch, check_values
from gpulsh.io.columns import Columns, field_named
from gpulsh.io.compression import MAX_POINTER, refuse_pointer
from gpulsh.io.file import File, reading
from gpulsh.io.format import (
    BLOCK_BYTES,
    STRICT,
    AddedColumns,
    Block,
    Format,
    Mask,
    Rules,
    WriteOptions,
    counting_rows,
    with_added,
)
from gpulsh.io.formats.blocks import OrderColumn, arrays_in_counted_runs, batch_block
from gpulsh.io.output_codec import NewFile
from gpulsh.io.rows import ROW_COST
from gpulsh.ragged import slice_between

BATCH_BYTES = 64 << 20  # of a record batch that are written together
MAGIC = b"ARROW1"  # begins a file, not a stream
END_BYTES = 10  # of a file: the size of its footer, and MAGIC
SIZE_END = b"\0", b"\xff", b""  # of the first four bytes of a stream: a small number, or -1


class Ipc(Format):
    """Files and streams of record batches."""

    def check(self, file: File, columns: Columns) -> None:
        """Check the columns and their types, which are in the schema, also for Parquet if the file is written so."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema, columns)
            if file.relative.endswith(".parquet"):
                refuse_unsupported(file, source.schema)

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """Blocks of about BLOCK_BYTES of each record batch."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema, columns)
            used = [] if columns.unread else [column for column, *_ in columns.texts]
            others = (name for name in (columns.order, columns.copy_key) if name is not None)
            used += [field_named(name, source.schema.names)[0] for name in others]
            order = None if columns.order is None else OrderColumn(file, columns.order, "row")
            start = 0
            for batch in source.batches(used):
                for part in _slices(batch, BLOCK_BYTES, ROW_COST):
                    if wanted is None or wanted[start : start + len(part)].any():
                        yield batch_block(file, part, columns, order, start, rules.limit)
                    start += len(part)
                    del part
                del batch  # before the next one is read

    def column_type(self, file: File, column: str) -> pa.DataType:
        """The type of the column, from the schema."""
        with reading(file), _opened(file) as source:
            return type_named(source.schema, column)

    def values(self, file: File, column: str, rows: Numbers) -> pa.Array:
        """The column at `rows`, batch by batch."""
        with reading(file), _opened(file) as source:
            kind = type_named(source.schema, column)
            return as_one_array(pa.chunked_array(list(source.values(column, rows)), kind))

    def value_runs(self, file: File, column: str, counts: Iterable[int]) -> Iterator[pa.Array]:
        """`values` in runs."""
        with reading(file), _opened(file) as source:
            yield from arrays_in_counted_runs(file, source.values(column), counts)

    def write_kept(self, file: File, keep: Mask, target: NewFile, **how: Unpack[WriteOptions]) -> None:
        """Write a batch for each batch, several for one beyond BATCH_BYTES, in the same codec. A stream stays one."""
        cuts = how.get("cuts")
        with _opened(file) as source:
            schema, batches = source.schema, _kept(file, source, keep)
            if cuts is not None:
                cut = Cutter(file, keep, cuts, one_dictionary=True)
                schema, batches = cut.schema(schema), map(cut, batches)
            _write(source, target, schema, batches, how.get("added"))

    def kept_batches(self, file: File, keep: Mask, **how: Unpack[WriteOptions]) -> Iterator[pa.RecordBatch]:
        """The kept rows of each record batch."""
        with _opened(file) as source:
            yield from _kept(file, source, keep)

    def write_sample(self, file: File, share: float, target: NewFile) -> float:
        """The first rows of each record batch."""
        rows = taken = 0

        def sample(source: _Source) -> Iterator[pa.RecordBatch]:
            nonlocal rows, taken
            with reading(file):
                for batch in source.batches():
                    rows += len(batch)
                    if count := min(math.ceil(share * rows) - taken, len(batch)):
                        taken += count
                        yield batch.slice(0, count)

        with _opened(file) as source:
            _write(source, target, source.schema, sample(source))
        return taken / rows if rows else 1.0


class _Source:
    """An open file or `stream`; `source` is a pyarrow.NativeFile."""

    def __init__(self, file: File, source: pa.NativeFile) -> None:
        self._file, self._source = file, source
        begin = source.read(len(MAGIC))
        self.stream = begin != MAGIC
        if begin[3:4] not in SIZE_END and self.stream:
            refuse_pointer(begin + source.read(MAX_POINTER))
            raise DamagedInputError(
                f"{file.name}: is no Arrow file or stream; give it the ending of its format, or write Feather version 2"
            )
        self.schema: pa.Schema = self._reader().schema
        for field in self.schema:
            _check_type(file, field)

    def codec(self) -> str | None:
        """The codec of the first record batch, which pyarrow does not hand out."""
        with reading(self._file):
            self._source.seek(0 if self.stream else self._first_batch())
            for message in pa.ipc.MessageReader.open_stream(self._source):
                if message.type == "record batch":
                    content = message.metadata.to_pybytes()
                    codec = _place(content, 2, 3, 0)  # Message.header, RecordBatch.compression, BodyCompression.codec
                    return "zstd" if codec and content[codec] else "lz4" if _place(content, 2, 3) else None
        return None

    def _first_batch(self) -> int:
        """The byte where the first record batch of a file begins; its size if it has none."""
        size: int = self._source.size()
        self._source.seek(size - END_BYTES)
        footer_size = int.from_bytes(self._source.read(4), "little")
        self._source.seek(size - END_BYTES - footer_size)
        footer = self._source.read(footer_size)
        if place := _place(footer, 3):  # Footer.recordBatches
            count, first = unpack_from("<Iq", footer, place + unpack_from("<I", footer, place)[0])
            return int(first) if count else size
        return size

    def batches(self, used: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All batches, validated, with the columns of these names or all columns."""
        names = self.schema.names
        fields = None if used is None else [place for place, name in enumerate(names) if name in used]
        reader = self._reader(fields)
        # A stream's reader hands out one batch after another itself.
        found = reader if self.stream else map(reader.get_batch, range(reader.num_record_batches))
        for batch in found:
            check_batch(self._file, batch)
            yield batch
            del batch  # before the next one is read
        if self.stream and self._source.read(len(MAGIC)).strip(b"\0"):
            raise DamagedInputError(f"{self._file.name}: more data follows the end of its stream; give a file for each")

    def values(self, column: str, rows: Numbers | None = None) -> Iterator[pa.Array]:
        """The column at `rows`, ascending, or all of it, batch by batch."""
        start = 0
        for batch in self.batches([field_named(column, self.schema.names)[0]]):
            here = slice(0, len(batch)) if rows is None else slice_between(rows, start, start + len(batch))
            if here.start < here.stop:
                found = column_named(batch, column)
                yield check_values(self._file, column, found if rows is None else take_rows(found, rows[here] - start))
            start += len(batch)
            if rows is not None and here.stop == len(rows):
                break

    def _reader(self, fields: list[int] | None = None) -> pa.RecordBatchReader | pa.RecordBatchFileReader:
        self._source.seek(0)
        options = pa.ipc.IpcReadOptions(use_threads=False)
        if fields is not None:
            options.included_fields = fields
        return (pa.ipc.open_stream if self.stream else pa.ipc.open_file)(self._source, options=options)


def _place(content: bytes, *fields: int) -> int:
    """The byte of a FlatBuffer with a field of its root table, or a field of the table there; 0 if it is left out."""
    place = 0
    for number in fields:
        table = place + unpack_from("<I", content, place)[0]
        offsets = table - unpack_from("<i", content, table)[0]
        size, at = unpack_from("<H", content, offsets)[0], 4 + 2 * number
        offset = unpack_from("<H", content, offsets + at)[0] if at < size else 0
        if not offset:
            return 0
        place = table + offset
    return place


@contextmanager
def _opened(file: File) -> Iterator[_Source]:
    with reading(file):
        opened = file.open_arrow()
    with opened:
        with reading(file):
            source = _Source(file, opened)
        yield source


def _check_type(file: File, field: pa.Field) -> None:
    """DamagedInputError if pyarrow has no array class for the type, such as an interval of months."""
    try:
        pa.nulls(0, field.type)
    except KeyError:
        raise DamagedInputError(
            f"{file.name}: column {field.name!r} is of type {field.type}, which pyarrow does not read;"
            " write the file without it"
        ) from None
    except pa.ArrowException:  # no empty array can be made; reading one may work
        return


def _slices(batch: pa.RecordBatch, most: int, row_cost: int = 0) -> Iterator[pa.RecordBatch]:
    """The batch in parts of about `most` bytes; an empty batch is one part."""
    size = max(batch.get_total_buffer_size(), row_cost * len(batch), 1)
    rows = max(1, len(batch) * most // size)
    for first in range(0, max(len(batch), 1), rows):
        yield batch.slice(first, rows)


def _kept(file: File, source: _Source, keep: Mask) -> Iterator[pa.RecordBatch]:
    with counting_rows(file, keep) as read, reading(file):
        for batch in source.batches():
            for part in _slices(batch, BATCH_BYTES):
                stays = read.next(len(part))
                if stays.any():
                    yield filter_rows(part, stays)
                del part
            del batch


def _write(
    source: _Source,
    target: NewFile,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    added: AddedColumns | None = None,
) -> None:
    if added is not None:
        schema = pa.schema([*schema, *added.schema], schema.metadata)
    options = pa.ipc.IpcWriteOptions(compression=source.codec())
    with target() as sink:
        writer = (pa.ipc.new_stream if source.stream else pa.ipc.new_file)(sink, schema, options=options)
        for batch in with_added(batches, added):
            writer.write_batch(batch)
            del batch  # before the next one is read
        writer.close()
