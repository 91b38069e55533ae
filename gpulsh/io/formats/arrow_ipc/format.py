"""Arrow IPC, as a file or as a stream: read and written batch by batch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Unpack

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.io.arrow.rows import arrow_rows, bytes_of
from gpulsh.io.arrow.selection import chosen, kept
from gpulsh.io.arrow.soundness import check_values
from gpulsh.io.arrow.texts import column_named, stray, text_column
from gpulsh.io.arrow.types import check_columns, type_named
from gpulsh.io.columns import Columns, place_named
from gpulsh.io.file import File, reading
from gpulsh.io.format import BLOCK_BYTES, STRICT, Block, Format, Mask, Rules, Writing, counting
from gpulsh.io.formats.arrow_ipc.source import Batches, UnreadBatch
from gpulsh.io.formats.keys import KeyColumn
from gpulsh.io.limits import Limit, check_sizes, check_values_fit
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
        with reading(file), _opened(file) as batches:
            check_columns(file, batches.schema, columns)
            return file.size()

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """Blocks of about BLOCK_BYTES of each record batch."""
        with reading(file), _opened(file, rules.limit) as batches:
            check_columns(file, batches.schema, columns)
            used = [column for column, *_ in columns.texts]
            if columns.key is not None:
                used.append(place_named(columns.key, batches.schema.names)[0])
            keys = None if columns.key is None else KeyColumn(file, columns.key, "row")
            start = 0
            for batch in batches:
                for first, last in _cuts(file, batch, start, columns, rules.limit) if len(batch) else [(0, 0)]:
                    if wanted is None or wanted[start + first : start + last].any():
                        part = batch.rows(first, last, used)
                        key = None if keys is None else keys.of(part, start + first)
                        found = text_column(part, columns)
                        texts = arrow_rows(found)
                        check_sizes(file, start + first, texts.lengths(), rules.limit)
                        yield Block(start + first, texts, key, stray=stray(found))
                        del part, key, texts, found
                start += len(batch)
                del batch

    def kind(self, file: File, column: str) -> pa.DataType:
        """The type of the column, from the schema."""
        with reading(file), _opened(file) as batches:
            return type_named(batches.schema, column)

    def values(self, file: File, column: str, rows: Numbers, limit: Limit | None = None) -> pa.Array:
        """The column at `rows`, batch by batch."""
        found: list[pa.Array] = []
        held = done = 0
        with reading(file), _opened(file) as batches:
            kind = type_named(batches.schema, column)
            whole = place_named(column, batches.schema.names)[0]
            start = 0
            for batch in batches:
                first, last = np.searchsorted(rows, [start, start + len(batch)])
                if first < last:
                    for part in _values(batch, whole, column, rows[first:last] - start):
                        found.append(check_values(file, column, part))
                        held, done = held + bytes_of(part), done + len(part)
                        check_values_fit(file, column, held, done, len(rows), limit)
                start += len(batch)
                if last == len(rows):
                    break
        return pa.concat_arrays(found) if found else pa.nulls(0, kind)

    def write_kept(self, file: File, keep: Mask, target: str, **how: Unpack[Writing]) -> None:
        """A record batch a record batch, several of one beyond BATCH_BYTES; a stream stays a stream."""
        with open(target, "wb") as sink, _opened(file, how.get("limit")) as batches:
            writer = (pa.ipc.new_stream if batches.stream else pa.ipc.new_file)(sink, batches.schema)
            for batch in _kept(file, batches, keep):
                writer.write_batch(batch)
                del batch  # before the next one is read
            writer.close()

    def kept(self, file: File, keep: Mask, **how: Unpack[Writing]) -> Iterator[pa.RecordBatch]:
        """The kept rows of each record batch."""
        with _opened(file, how.get("limit")) as batches:
            yield from _kept(file, batches, keep)

    def write_sample(self, file: File, share: float, target: str) -> float:
        """The first rows of each record batch."""
        rows = taken = 0
        with open(target, "wb") as sink, reading(file), _opened(file) as batches:
            writer = (pa.ipc.new_stream if batches.stream else pa.ipc.new_file)(sink, batches.schema)
            for batch in batches:
                rows += len(batch)
                if count := min(math.ceil(share * rows) - taken, len(batch)):
                    writer.write_batch(batch.rows(0, count))
                    taken += count
                del batch
            writer.close()
        return taken / rows if rows else 1.0


def _kept(file: File, batches: Batches, keep: Mask) -> Iterator[pa.RecordBatch]:
    with counting(file, keep) as read:
        for batch in _parts(file, batches):
            part = keep[read.rows : read.rows + len(batch)]
            read.rows += len(batch)
            if part.any():
                yield kept(batch, part)
            del batch


def _cuts(
    file: File, batch: UnreadBatch, start: int, columns: Columns, limit: Limit | None
) -> Iterator[tuple[int, int]]:
    """Rows of a batch that are read together; start is its first one. A LargeDocumentError where one has too much text,
    before it is read, but for text that lies within structs: of that only the average is known.
    """
    sizes = np.full(len(batch), batch.size // len(batch))
    if all(len(place) == 1 for place in columns.texts):
        sizes = np.sum([batch.lengths(column) for (column,) in columns.texts], axis=0)
        check_sizes(file, start, sizes, limit)
    return batch_cuts(offsets(sizes), BLOCK_BYTES)


def _values(batch: UnreadBatch, whole: str, column: str, rows: Numbers) -> Iterator[pa.Array]:
    """The column at `rows`, which is `whole` or a field of it, of each part of the batch that is read at once."""
    for start in range(0, len(batch), ROWS):
        first, last = np.searchsorted(rows, [start, start + ROWS])
        if first < last:
            part = batch.rows(start, min(start + ROWS, len(batch)), [whole])
            yield chosen(column_named(part, column), rows[first:last] - start)


def _parts(file: File, batches: Batches) -> Iterator[pa.RecordBatch]:
    """All rows; of a large batch only parts are held at once, and are batches of their own in the output."""
    with reading(file):
        for batch in batches:
            rows = max(1, len(batch) * BATCH_BYTES // max(batch.size, 1))
            for first in range(0, max(len(batch), 1), rows):
                yield batch.rows(first, min(first + rows, len(batch)))
            del batch


@contextmanager
def _opened(file: File, limit: Limit | None = None) -> Iterator[Batches]:
    with reading(file):
        source = file.open()
    with source:
        with reading(file):
            batches = Batches(file, source, source.read(len(MAGIC)) != MAGIC, limit)
        yield batches
