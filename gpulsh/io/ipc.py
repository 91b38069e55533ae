"""Arrow IPC, as a file or as a stream: read and written batch by batch."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.errors import DamagedInputError
from gpulsh.io.arrow import arrow_rows
from gpulsh.io.columns import check_columns
from gpulsh.io.format import (
    BLOCK_BYTES,
    STRICT,
    Block,
    Columns,
    File,
    Limit,
    Mask,
    Rules,
    Seen,
    check_sizes,
    reading,
    unseen,
    wrong_length,
)
from gpulsh.io.rows import cuts
from gpulsh.io.selection import chosen, kept
from gpulsh.io.soundness import check_batch, check_values

BATCH_BYTES = 64 << 20  # of a record batch that are written together
MAGIC = b"ARROW1"  # begins a file, not a stream


class Ipc:
    """A `gpulsh.io.format.Format`."""

    in_order = False

    def check(self, file: File, columns: Columns) -> int | None:
        """Columns and their types, from the schema."""
        with reading(file), _opened(file) as (schema, _, _, _):
            check_columns(file, schema, columns)
            return file.size()

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """Blocks of about BLOCK_BYTES of each record batch."""
        with reading(file), _opened(file) as (schema, batches, _, let_go):
            check_columns(file, schema, columns)
            start = 0
            used = [columns.text, *([] if columns.key is None else [columns.key])]
            for batch in batches:
                check_batch(file, batch, used)
                sizes = arrow_rows(batch.column(columns.text)).lengths()
                check_sizes(file, start, sizes, rules.limit)
                for first, last in (
                    cuts(np.concatenate(([0], np.cumsum(sizes))), BLOCK_BYTES) if len(batch) else [(0, 0)]
                ):
                    if wanted is None or wanted[start + first : start + last].any():
                        part = batch.slice(first, last - first)
                        key = None if columns.key is None else part.column(columns.key)
                        yield Block(start + first, arrow_rows(part.column(columns.text)), key)
                        del part, key
                        let_go()
                start += len(batch)
                del batch, sizes

    def kind(self, file: File, column: str) -> Any:
        """The type of the column, from the schema."""
        with reading(file), _opened(file) as (schema, _, _, _):
            return schema.field(column).type

    def values(self, file: File, column: str, rows: NDArray[np.int64]) -> Any:
        """The column at `rows`, batch by batch."""
        found: list[Any] = []
        with reading(file), _opened(file) as (schema, batches, _, let_go):
            kind = schema.field(column).type
            start = 0
            for batch in batches:
                first, last = np.searchsorted(rows, [start, start + len(batch)])
                if first < last:
                    check_batch(file, batch, [column])
                    values = chosen(batch.column(column), rows[first:last] - start)
                    found.append(check_values(file, column, values))
                start += len(batch)
                let_go()
                if last == len(rows):
                    break
        return pa.concat_arrays(found) if found else pa.nulls(0, kind)

    def write_kept(self, file: File, keep: Mask, target: str, seen: Seen = unseen, limit: Limit | None = None) -> None:
        """A record batch a record batch, several of one beyond BATCH_BYTES; a stream stays a stream."""
        with open(target, "wb") as sink:
            writer: Any = None
            start = 0
            try:
                for schema, stream, batch in _checked(file):
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
            writer.close()
        if start != len(keep):
            raise wrong_length(file)


def _checked(file: File) -> Iterator[tuple[Any, bool, Any]]:
    with reading(file), _opened(file) as (schema, batches, stream, let_go):
        yield schema, stream, None
        for batch in batches:
            check_batch(file, batch)
            # Of a large batch only parts are copied at once, and are batches of their own in the output.
            rows = max(1, len(batch) * BATCH_BYTES // max(batch.nbytes, 1))
            for first in range(0, max(len(batch), 1), rows):
                yield schema, stream, batch.slice(first, rows)
                let_go()
            del batch


class _Opened(NamedTuple):
    schema: Any
    batches: Iterator[Any]
    stream: bool
    let_go: Callable[[], object]  # what was read of a mapped file need not stay in memory


@contextmanager
def _opened(file: File) -> Iterator[_Opened]:
    """A local file mapped into memory, so that a column is read where it is looked at."""
    with file.open() as source:
        stream = source.read(len(MAGIC)) != MAGIC
        source.seek(0)
        content: Any = source
        let_go: Callable[[], object] = int
        if file.filesystem is None and os.fstat(source.fileno()).st_size:  # nothing cannot be mapped
            mapped = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
            content, let_go = pa.py_buffer(mapped), partial(mapped.madvise, mmap.MADV_DONTNEED)
        reader = pa.ipc.open_stream(content) if stream else pa.ipc.open_file(content)
        batches = iter(reader) if stream else map(reader.get_batch, range(reader.num_record_batches))
        yield _Opened(reader.schema, batches, stream, let_go)
