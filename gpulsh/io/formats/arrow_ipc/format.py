"""Arrow IPC, as a file or as a stream: read and written batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.errors import DamagedInputError
from gpulsh.io.arrow.rows import arrow_rows, bytes_of
from gpulsh.io.arrow.selection import chosen, kept
from gpulsh.io.arrow.soundness import check_values
from gpulsh.io.arrow.types import check_columns
from gpulsh.io.format import (
    BLOCK_BYTES,
    STRICT,
    Block,
    Columns,
    File,
    Format,
    Limit,
    Mask,
    Rules,
    Writing,
    check_sizes,
    check_values_fit,
    reading,
    unseen,
    wrong_length,
)
from gpulsh.io.formats.arrow_ipc.bodies import Bodies, CheckedFile
from gpulsh.io.formats.arrow_ipc.source import Batches, UnreadBatch
from gpulsh.io.rows import batch_cuts
from gpulsh.ragged import offsets

BATCH_BYTES = 64 << 20  # of a record batch that are written together
ROWS = 1 << 16  # of one column that are held at once
MAGIC = b"ARROW1"  # begins a file, not a stream


class Ipc(Format):
    """Files and streams of record batches."""

    in_order = False

    def check(self, file: File, columns: Columns) -> int | None:
        """Columns and their types, from the schema."""
        with reading(file), _opened(file) as (schema, _, _):
            check_columns(file, schema, columns)
            return file.size()

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """Blocks of about BLOCK_BYTES of each record batch."""
        with reading(file), _opened(file, rules.limit) as (schema, batches, _):
            check_columns(file, schema, columns)
            used = [columns.text, *([] if columns.key is None else [columns.key])]
            start = 0
            for batch in batches:
                sizes = batch.lengths(columns.text)
                check_sizes(file, start, sizes, rules.limit)
                for first, last in batch_cuts(offsets(sizes), BLOCK_BYTES) if len(batch) else [(0, 0)]:
                    if wanted is None or wanted[start + first : start + last].any():
                        part = batch.rows(first, last, used)
                        key = None if columns.key is None else part.column(columns.key)
                        yield Block(start + first, arrow_rows(part.column(columns.text)), key)
                        del part, key
                start += len(batch)
                del batch, sizes

    def kind(self, file: File, column: str) -> pa.DataType:
        """The type of the column, from the schema."""
        with reading(file), _opened(file) as (schema, _, _):
            return schema.field(column).type

    def values(self, file: File, column: str, rows: NDArray[np.int64], limit: Limit | None = None) -> pa.Array:
        """The column at `rows`, batch by batch."""
        found: list[pa.Array] = []
        held = done = 0
        with reading(file), _opened(file) as (schema, batches, _):
            kind = schema.field(column).type
            start = 0
            for batch in batches:
                first, last = np.searchsorted(rows, [start, start + len(batch)])
                if first < last:
                    for part in _values(batch, column, rows[first:last] - start):
                        found.append(check_values(file, column, part))
                        held, done = held + bytes_of(part), done + len(part)
                        check_values_fit(file, column, held, done, len(rows), limit)
                start += len(batch)
                if last == len(rows):
                    break
        return pa.concat_arrays(found) if found else pa.nulls(0, kind)

    def write_kept(self, file: File, keep: Mask, target: str, **how: Unpack[Writing]) -> None:
        """A record batch a record batch, several of one beyond BATCH_BYTES; a stream stays a stream."""
        seen = how.get("seen", unseen)
        with open(target, "wb") as sink:
            writer: pa.ipc.RecordBatchStreamWriter | None = None
            start = 0
            try:
                for schema, stream, batch in _checked(file, how.get("limit")):
                    if writer is None:
                        writer = pa.ipc.new_stream(sink, schema) if stream else pa.ipc.new_file(sink, schema)
                    if batch is not None:
                        seen(start, batch)
                        part = keep[start : start + len(batch)]
                        start += len(batch)
                        if part.any():
                            writer.write_batch(kept(batch, part))
                        del batch
            except DamagedInputError:
                if writer is None or start != len(keep):  # otherwise behind the last row that is known
                    raise
            assert writer is not None  # `_checked` begins with the schema
            writer.close()
        if start != len(keep):
            raise wrong_length(file)


def _values(batch: UnreadBatch, column: str, rows: NDArray[np.int64]) -> Iterator[pa.Array]:
    """The column at `rows`, of each part of the batch that is read at once."""
    for start in range(0, len(batch), ROWS):
        first, last = np.searchsorted(rows, [start, start + ROWS])
        if first < last:
            part = batch.rows(start, min(start + ROWS, len(batch)), [column])
            yield chosen(part.column(0), rows[first:last] - start)


def _checked(file: File, limit: Limit | None) -> Iterator[tuple[pa.Schema, bool, pa.RecordBatch | None]]:
    with reading(file), _opened(file, limit) as (schema, batches, stream):
        yield schema, stream, None
        for batch in batches:
            # Of a large batch only parts are held at once, and are batches of their own in the output.
            rows = max(1, len(batch) * BATCH_BYTES // max(batch.size, 1))
            for first in range(0, max(len(batch), 1), rows):
                yield schema, stream, batch.rows(first, min(first + rows, len(batch)))
            del batch


class _Opened(NamedTuple):
    schema: pa.Schema
    batches: Iterator[UnreadBatch]
    stream: bool


@contextmanager
def _opened(file: File, limit: Limit | None = None) -> Iterator[_Opened]:
    """A local file is read where it is looked at, one that is elsewhere batch by batch."""
    with file.open() as source:
        stream = source.read(len(MAGIC)) != MAGIC
        source.seek(0)
        if file.filesystem is None:
            opened = Batches(file, source.fileno(), stream, limit)
            yield _Opened(opened.schema, iter(opened), stream)
            return
        checked = CheckedFile(source)
        read = pa.PythonFile(checked, "r")
        reader = pa.ipc.open_stream(read) if stream else pa.ipc.open_file(read)
        checked.bodies = None if limit is None else Bodies(file, stream, limit)
        batches = iter(reader) if stream else map(reader.get_batch, range(reader.num_record_batches))
        yield _Opened(reader.schema, (UnreadBatch(file, None, batch, {}) for batch in batches), stream)
