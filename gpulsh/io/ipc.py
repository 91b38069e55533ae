"""Arrow IPC, as a file or as a stream: read and written batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.errors import DamagedInputError
from gpulsh.io.arrow import arrow_rows
from gpulsh.io.columns import check_columns
from gpulsh.io.format import STRICT, Block, Columns, File, Mask, Rules, check_sizes, reading, wrong_length
from gpulsh.io.selection import chosen, kept

MAGIC = b"ARROW1"  # begins a file, not a stream


class Ipc:
    """A `gpulsh.io.format.Format`."""

    def check(self, file: File, columns: Columns) -> int | None:
        """Columns and their types, from the schema."""
        with reading(file), _opened(file) as (schema, _, _):
            check_columns(file, schema, columns)
            return file.size()

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """A block a record batch."""
        with reading(file), _opened(file) as (schema, batches, _):
            check_columns(file, schema, columns)
            start = 0
            for batch in batches:
                if wanted is None or wanted[start : start + len(batch)].any():
                    key = None if columns.key is None else batch.column(columns.key)
                    texts = arrow_rows(batch.column(columns.text))
                    check_sizes(file, start, texts.lengths(), rules.limit)
                    yield Block(start, texts, key)
                start += len(batch)

    def kind(self, file: File, column: str) -> Any:
        """The type of the column, from the schema."""
        with reading(file), _opened(file) as (schema, _, _):
            return schema.field(column).type

    def values(self, file: File, column: str, rows: NDArray[np.int64]) -> Any:
        """The column at `rows`, batch by batch."""
        found: list[Any] = []
        with reading(file), _opened(file) as (schema, batches, _):
            kind = schema.field(column).type
            start = 0
            for batch in batches:
                first, last = np.searchsorted(rows, [start, start + len(batch)])
                if first < last:
                    found.append(chosen(batch.column(column), rows[first:last] - start))
                start += len(batch)
                if last == len(rows):
                    break
        return pa.concat_arrays(found) if found else pa.nulls(0, kind)

    def write_kept(self, file: File, keep: Mask, target: str) -> None:
        """A record batch a record batch; a stream stays a stream."""
        with open(target, "wb") as sink:
            writer: Any = None
            start = 0
            try:
                for schema, stream, batch in _checked(file):
                    if writer is None:
                        writer = pa.ipc.new_stream(sink, schema) if stream else pa.ipc.new_file(sink, schema)
                    if batch is not None:
                        part = keep[start : start + len(batch)]
                        start += len(batch)
                        if part.any():
                            writer.write_batch(kept(batch, part))
            except DamagedInputError:
                if writer is None or start != len(keep):  # otherwise behind the last row that is known
                    raise
            writer.close()
        if start != len(keep):
            raise wrong_length(file)


def _checked(file: File) -> Iterator[tuple[Any, bool, Any]]:
    with reading(file), _opened(file) as (schema, batches, stream):
        yield schema, stream, None
        for batch in batches:
            yield schema, stream, batch


@contextmanager
def _opened(file: File) -> Iterator[tuple[Any, Iterator[Any], bool]]:
    with file.open() as source:
        stream = source.read(len(MAGIC)) != MAGIC
        source.seek(0)
        reader = pa.ipc.open_stream(source) if stream else pa.ipc.open_file(source)
        yield reader.schema, iter(reader) if stream else map(reader.get_batch, range(reader.num_record_batches)), stream
