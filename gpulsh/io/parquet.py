"""Parquet: read by row group and batch, written with one row group an input row group."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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
    Part,
    Rejection,
    Rules,
    check_sizes,
    reading,
    reason,
    wrong_length,
)
from gpulsh.io.rows import piece_rows
from gpulsh.io.selection import chosen, kept

MAX_BATCH_ROWS = 1 << 16
READ_AHEAD = 1 << 20  # bytes of a column chunk fetched at once, instead of the whole chunk


class Parquet:
    """A `gpulsh.io.format.Format`."""

    def check(self, file: File, columns: Columns) -> int | None:
        """Columns and their types, from the footer."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema_arrow, columns)
            groups = map(source.metadata.row_group, range(source.num_row_groups))
            return sum(_text_bytes(group, columns.text) for group in groups)

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """Batches of about BLOCK_BYTES; row groups without a wanted row are passed over."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema_arrow, columns)
            for part in _parts(source, columns.text):
                if wanted is None or wanted[part.start : part.start + part.rows].any():
                    blocks = _blocks(file, source, part, columns, BLOCK_BYTES, rules.limit)
                    yield from _unless_damaged(file, source, part, columns, blocks) if rules.skip else blocks

    def parts(self, file: File, columns: Columns) -> list[Part]:
        """The row groups."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema_arrow, columns)
            return list(_parts(source, columns.text))

    def read_part(
        self, file: File, columns: Columns, part: Part, block_bytes: int, rules: Rules = STRICT
    ) -> Iterator[Block]:
        """A row group in batches of about `block_bytes`."""
        with reading(file), _opened(file) as source:
            if part.number >= source.num_row_groups or source.metadata.row_group(part.number).num_rows != part.rows:
                raise wrong_length(file)
            blocks = _blocks(file, source, part, columns, block_bytes, rules.limit)
            yield from _unless_damaged(file, source, part, columns, blocks) if rules.skip else blocks

    def groups(self, file: File, columns: Columns) -> list[tuple[int, int]]:
        """Rows and about how many bytes of text each row group has, from the footer."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema_arrow, columns)
            groups = map(source.metadata.row_group, range(source.num_row_groups))
            return [(group.num_rows, _text_bytes(group, columns.text)) for group in groups]

    def column(self, file: File, column: str) -> list[Any]:
        """A whole column, as the pyarrow.Array of each batch."""
        with reading(file), _opened(file) as source:
            return [batch.column(column) for batch in source.iter_batches(MAX_BATCH_ROWS, columns=[column])]

    def kind(self, file: File, column: str) -> Any:
        """The type of the column, from the footer."""
        with reading(file), _opened(file) as source:
            return source.schema_arrow.field(column).type

    def values(self, file: File, column: str, rows: NDArray[np.int64]) -> Any:
        """The column at `rows`, read from the row groups that hold them."""
        found: list[Any] = []
        with reading(file), _opened(file) as source:
            kind = source.schema_arrow.field(column).type
            start = 0
            for group in range(source.num_row_groups):
                count = source.metadata.row_group(group).num_rows
                first, last = np.searchsorted(rows, [start, start + count])
                if first < last:
                    part = source.read_row_group(group, columns=[column]).column(column)
                    found.append(chosen(part, rows[first:last] - start))
                start += count
        return pa.concat_arrays(found) if found else pa.nulls(0, kind)

    def write_kept(self, file: File, keep: Mask, target: str) -> None:
        """The schema, its metadata and the codec are the input's; a row group of which nothing is kept vanishes."""
        with reading(file):
            source = _open(file)
        try:
            groups = source.num_row_groups
            codec = source.metadata.row_group(0).column(0).compression if groups and len(source.schema) else "ZSTD"
            # Fixed options and combined chunks: the same rows give the same bytes, however they were read.
            with (
                open(target, "wb") as sink,
                pq.ParquetWriter(
                    sink, source.schema_arrow, compression="NONE" if codec == "UNCOMPRESSED" else codec, version="2.6"
                ) as out,
            ):
                start = 0
                for group in range(groups):
                    count = source.metadata.row_group(group).num_rows
                    part = keep[start : start + count]
                    start += count
                    if part.any():
                        with reading(file):
                            table = _kept_rows(source, group, part)
                        out.write_table(table, row_group_size=len(table))
            if start != len(keep):
                raise wrong_length(file)
        finally:
            source.close(force=True)


def _open(file: File) -> Any:
    # Absolute, for Arrow would take "s3:..." for a URL. It knows only paths that are UTF-8, as a printable one is.
    local = file.filesystem is None and file.path.isprintable()
    where = os.path.abspath(file.path) if local else file.open()
    return pq.ParquetFile(where, buffer_size=READ_AHEAD, pre_buffer=False)


@contextmanager
def _opened(file: File) -> Iterator[Any]:
    source = _open(file)
    try:
        yield source
    finally:
        source.close(force=True)


def _parts(source: Any, column: str) -> Iterator[Part]:
    start = 0
    for number in range(source.num_row_groups):
        group = source.metadata.row_group(number)
        yield Part(number, start, group.num_rows, _text_bytes(group, column))
        start += group.num_rows


def _blocks(
    file: File, source: Any, part: Part, columns: Columns, block_bytes: int, limit: Limit | None
) -> Iterator[Block]:
    names = [columns.text] if columns.key in (None, columns.text) else [columns.text, columns.key]
    group = source.metadata.row_group(part.number)
    rows = _fitting_rows(group, _text_bytes(group, columns.text), block_bytes)
    at = part.start
    for batch in source.iter_batches(rows, row_groups=[part.number], columns=names):
        key = None if columns.key is None else batch.column(columns.key)
        texts = arrow_rows(batch.column(columns.text))
        check_sizes(file, at, texts.lengths(), limit)
        at += len(batch)
        del batch  # before the next one is decoded
        yield Block(at - len(texts), texts, key)
        del texts, key


def _unless_damaged(file: File, source: Any, part: Part, columns: Columns, blocks: Iterator[Block]) -> list[Block]:
    """A row group as a whole, or all its rows rejected: pages of it that can be read could not be written again."""
    try:
        with reading(file):
            return list(blocks)
    except DamagedInputError as error:
        key = None if columns.key is None else pa.nulls(part.rows, source.schema_arrow.field(columns.key).type)
        why = Rejection(part.start, part.rows, "row", part.start, f"row group {part.number} {reason(file, error)}")
        return [Block(part.start, piece_rows([None] * part.rows), key, (why,))]


def _kept_rows(source: Any, group: int, keep: Mask) -> Any:
    """The kept rows of a row group, chosen batch by batch, so that what is dropped is never held."""
    parts = []
    start = 0
    rows = _fitting_rows(source.metadata.row_group(group), source.metadata.row_group(group).total_byte_size)
    for batch in source.iter_batches(rows, row_groups=[group]):
        part = keep[start : start + len(batch)]
        start += len(batch)
        if part.any():
            parts.append(kept(batch, part))
    return pa.Table.from_batches(parts, source.schema_arrow).combine_chunks()


def _text_bytes(group: Any, column: str) -> int:
    chunks = map(group.column, range(group.num_columns))
    return sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == column)


def _fitting_rows(group: Any, size: int, block_bytes: int = BLOCK_BYTES) -> int:
    fitting: int = group.num_rows * block_bytes // max(size, 1)
    return max(1, min(MAX_BATCH_ROWS, fitting))
