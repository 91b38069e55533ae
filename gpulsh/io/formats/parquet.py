"""Parquet, by pyarrow: read and written by runs of row groups, which are large ones alone or small ones together.

A batch has about DECODED_BYTES. The footer gives the mean size of a row, but not what a dictionary repeats, so gpulsh
decodes the first rows of a long row group to see. Pages and dictionaries are as large as the file makes them; the
kernel enforces `--memory` (`gpulsh.memory_limit`).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, chain, compress, pairwise
from typing import NamedTuple, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.errors import DamagedInputError
from gpulsh.io.arrow.buffers import as_one_array, byte_size, filter_rows, take_rows, to_arrow
from gpulsh.io.arrow.copy_keys import python_copy_keys
from gpulsh.io.arrow.ids import parquet_type
from gpulsh.io.arrow.rows import is_text, text_lengths
from gpulsh.io.arrow.texts import Cutter, check_columns, column_named, type_named
from gpulsh.io.arrow.validation import check_batch, check_values
from gpulsh.io.columns import Columns
from gpulsh.io.compression import MAX_POINTER, refuse_pointer
from gpulsh.io.file import File, reading, reason, wrong_row_count
from gpulsh.io.format import (
    BLOCK_BYTES,
    STRICT,
    Block,
    Format,
    KnownTexts,
    Mask,
    Part,
    Rejection,
    Rules,
    WriteOptions,
    evenly_spaced,
)
from gpulsh.io.formats.blocks import OrderColumn, batch_block
from gpulsh.io.output_codec import NewFile, OutputCodec
from gpulsh.io.rows import piece_rows
from gpulsh.memory_limit import check_room
from gpulsh.ragged import mask_of

HELD_BYTES = 64 << 20  # of a row group, held until all of it is decoded
MANY_GROUPS = 64  # a file of more row groups has its footer cached
MAX_FOOTERS = 8
FOOTER_COST = 20  # bytes that Arrow allocates for a byte of footer; without them it ends the process
SIGNATURE = 28  # bytes behind a plain footer of a file with encrypted columns; Arrow ends the process at their entries
SAMPLED_GROUPS, SAMPLED_BYTES = 16, 512 << 20  # decoded to sample a few rows of each
# Runs of rows next to one another, and rows of one: few would miss what is in few parts of the file, short ones that
# documents repeat their neighbours.
SAMPLED_RUNS, MIN_RUN = 32, 64
READ_AHEAD = 1 << 20  # bytes of a column chunk fetched at once, instead of the whole chunk
DECODED_BYTES = 3 << 19  # decoded at once, about: larger batches are slower, because each is memory from the system
MAX_BATCH_ROWS = 1 << 13
RUN_ROWS = 1 << 13  # of small row groups that are read and written as one, at most
GROUP_ROWS = 1 << 18
GROUP_BYTES = 64 << 20
CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd"}
CODECS |= {"LZ4": "lz4", "LZ4_RAW": "lz4"}
FIRST_ROWS, FEW_ROWS = 64, 1 << 10  # if a row group has more than FEW_ROWS, FIRST_ROWS of them show how large rows are


class Parquet(Format):
    """Files of row groups."""

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """Batches of about `rules.block_bytes`; row groups without a wanted row are passed over."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema, columns)
            if rules.part is not None:
                yield from _blocks_of_run(source, source.groups_of(rules.part), columns, rules)
                return
            for groups in source.runs() if wanted is None else source.alone():
                if wanted is None or wanted[source.rows(groups)].any():
                    yield from _blocks_of_run(source, groups, columns, rules)

    def parts(self, file: File, columns: Columns) -> list[Part]:
        """Row groups, small ones in runs, once the footer shows the columns and their types."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema, columns)
            return [source.part(groups, columns) for groups in source.runs()]

    def groups(self, file: File, columns: Columns) -> list[tuple[int, int]]:
        """Rows and about how many bytes of text each row group has, from the footer."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema, columns)
            return [(part.rows, part.size) for part in (source.part(groups, columns) for groups in source.alone())]

    def column_type(self, file: File, column: str) -> pa.DataType:
        """The type of the column, from the footer."""
        with reading(file), _opened(file) as source:
            return type_named(source.schema, column)

    def values(self, file: File, column: str, rows: NDArray[np.int64]) -> pa.Array:
        """The column at `rows`, read from the row groups that hold them."""
        found: list[pa.Array] = []
        with reading(file), _opened(file) as source:
            kind = type_named(source.schema, column)
            for groups in source.runs():
                there = source.rows(groups)
                first, last = np.searchsorted(rows, [there.start, there.stop])
                wanted = mask_of(rows[first:last] - there.start, there.stop - there.start)
                for _, batch, some in source.wanted(groups, wanted, [column]):
                    part = take_rows(column_named(batch, column), np.flatnonzero(some))
                    found.append(check_values(file, column, part))
        return as_one_array(pa.chunked_array(found, kind))

    def takes_codec(self, codec: OutputCodec) -> bool:
        """True: a Parquet file takes every codec."""
        return True

    def write_kept(self, file: File, keep: Mask, target: NewFile, **how: Unpack[WriteOptions]) -> None:
        """The schema, its metadata and its codecs are the input's; small row groups next to one another become one."""
        with _opened(file) as source:
            schema, added = source.schema, how.get("added")
            texts = [place for place, field in enumerate(schema) if is_text(field.type)]
            names = () if added is None else added.schema.names
            options = writer_options(source, how.get("codec"), names, not how.get("large_texts"))
            cut = None if (cuts := how.get("cuts")) is None else Cutter(file, keep, cuts)
            if cut is not None:
                schema = cut.schema(schema)
            if added is not None:
                schema = pa.schema([*schema, *added.schema], schema.metadata)
            with target() as sink, pq.ParquetWriter(sink, schema, version="2.6", **options) as out:
                for groups, tables in _kept_runs(source, keep, how):
                    # The same rows give the same bytes, in tables of any size.
                    count, size = (sum(of[number] for number in groups) for of in (source.counts, source.sizes))
                    rows = max(min(count * GROUP_BYTES // max(size, 1), GROUP_ROWS), 1)
                    if cut is not None:
                        tables = map(pa.Table.from_batches, zip(map(cut, _as_batches(tables))))
                    for table in group_tables(tables, texts, rows):
                        if added is not None:
                            table = pa.table([*table.columns, *added.take(len(table)).columns], schema=schema)
                        out.write_table(table, row_group_size=len(table))
                        del table  # before the next one is made

    def kept_batches(self, file: File, keep: Mask, **how: Unpack[WriteOptions]) -> Iterator[pa.RecordBatch]:
        """The kept rows of one row group after another."""
        with _opened(file) as source:
            for _, tables in _kept_runs(source, keep, how):
                yield from _as_batches(tables)

    def write_sample(self, file: File, share: float, target: NewFile) -> float:
        """Some runs of rows, evenly spread over some row groups, which are too."""
        with _opened(file) as source:
            bounds = [(start, stop) for start, stop in pairwise(source.starts) if start < stop]
            total, size, count = source.starts[-1], sum(source.sizes), len(source.sizes)
        keep = np.zeros(total, np.bool_)
        several = min(SAMPLED_GROUPS, SAMPLED_BYTES * count // max(size, 1))
        some = evenly_spaced(bounds, max(math.ceil(share * len(bounds)), several))
        for start, stop in some:
            rows = share * total / len(some)
            runs = max(min(math.ceil(SAMPLED_RUNS / len(some)), int(rows / MIN_RUN)), 1)
            for first, last in pairwise(np.linspace(start, stop, runs + 1).astype(np.int64).tolist()):
                keep[first : min(last, first + math.ceil(rows / runs))] = True
        self.write_kept(file, keep, target)
        return float(keep.mean()) if total else 1.0


class _Footer(NamedTuple):
    """A footer, and of each row group the rows, the bytes, and the rows before it, then all rows."""

    metadata: pq.FileMetaData
    counts: Sequence[int]
    sizes: Sequence[int]
    starts: Sequence[int]

    @classmethod
    def of(cls, metadata: pq.FileMetaData) -> _Footer:
        """The footer that Arrow has read."""
        groups = _groups(metadata)
        counts = [group.num_rows for group in groups]
        return cls(metadata, counts, [group.total_byte_size for group in groups], [0, *accumulate(counts)])


def _groups(metadata: pq.FileMetaData) -> list[pq.RowGroupMetaData]:
    """The footer's entries for all row groups."""
    return [metadata.row_group(number) for number in range(metadata.num_row_groups)]


class _Source:
    """An open file whose row groups are read by number."""

    def __init__(self, file: File, opened: pq.ParquetFile, footer: _Footer) -> None:
        self.file, self._opened, self.schema = file, opened, opened.schema_arrow
        self.metadata, self.counts, self.sizes, self.starts = footer

    def paths(self) -> list[str]:
        """The paths of all columns by the schema; a damaged footer may give chunks of a column other ones.

        They do not come from `metadata.schema`: once that is read, it and the footer refer to each other, and only
        Python's collector frees them. A run reads many footers, of megabytes, and makes too few objects for it to run.
        """
        return [".".join(path) for path in self._opened.reader.column_paths]

    def rows(self, groups: range) -> slice:
        """The rows of row groups next to one another."""
        return slice(self.starts[groups.start], self.starts[groups.stop])

    def alone(self) -> Iterator[range]:
        """Each row group."""
        return (range(number, number + 1) for number in range(len(self.sizes)))

    def runs(self) -> Iterator[range]:
        """Row groups that are read and written as one: a large one alone, small ones next to one another together.

        All are alone in a file with dictionaries whose codes may be too few for the values of several.
        """
        first = size = 0
        few_codes = re.search("indices=u?int(8|16),", str(self.schema.types))
        for number, more in enumerate(self.sizes):
            rows = self.starts[number + 1] - self.starts[first]
            if number > first and (few_codes or size + more > BLOCK_BYTES or rows > RUN_ROWS):
                yield range(first, number)
                first, size = number, 0
            size += more
        if self.sizes:
            yield range(first, len(self.sizes))

    def part(self, groups: range, columns: Columns) -> Part:
        """The rows of a run, and the bytes of its text by the footer."""
        chunks = self._chunks(groups, list(map(".".join, columns.texts)))
        rows = self.rows(groups)
        size = sum(chunk.total_uncompressed_size for chunk in chunks)
        return Part(groups.start, rows.start, rows.stop - rows.start, size)

    def groups_of(self, part: Part) -> range:
        """The row groups of a part."""
        end = part.start + part.rows
        last = bisect_left(self.starts, end, part.number + 1)
        if self.starts[part.number : part.number + 1] != [part.start] or self.starts[last : last + 1] != [end]:
            raise wrong_row_count(self.file)
        return range(part.number, last)

    def _chunks(self, groups: Sequence[int], names: list[str] | None) -> list[pq.ColumnChunkMetaData]:
        """The footer's entries for the columns or fields of these names; None: for all."""
        places = [
            place
            for place, path in enumerate(self.paths())
            if names is None or path in names or path.partition(".")[0] in names
        ]
        found = [self.metadata.row_group(number) for number in groups]
        return [group.column(place) for group in found for place in places]

    def batches(
        self, groups: Sequence[int], names: list[str] | None = None, max_bytes: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Row groups in batches of about `max_bytes`; a DamagedInputError if the footer gives other rows."""
        max_bytes = max_bytes or DECODED_BYTES
        read = partial(self._opened.iter_batches, columns=names, use_threads=False)
        rows = sum(self.counts[number] for number in groups)
        chunks = self._chunks(groups, names)
        size = sum(chunk.total_uncompressed_size for chunk in chunks) / max(rows, 1)
        if rows > FEW_ROWS and any(chunk.has_dictionary_page for chunk in chunks):
            first = next(read(FIRST_ROWS, row_groups=groups[:1]), None)
            size = max(size, byte_size(first) / max(len(first), 1) if first is not None else 0)
        at_once = int(max(min(max_bytes / max(size, 1), MAX_BATCH_ROWS * max_bytes // DECODED_BYTES), 1))
        found = 0
        # Arrow cannot read several row groups with a nested dictionary of text.
        coded = any(parquet_type(field.type) != parquet_type(field.type, coded=True) for field in self.schema)
        runs = [[number] for number in groups] if coded else [groups]
        for batch in chain.from_iterable(read(at_once, row_groups=run) for run in runs):
            check_batch(self.file, batch)
            found += len(batch)
            yield batch
            del batch  # before the next one is decoded
        if found != rows:
            detail = (
                f"row group {groups[0]} has" if len(groups) == 1 else f"row groups {groups[0]} to {groups[-1]} have"
            )
            raise DamagedInputError(
                f"{self.file.name}: cannot be read: {detail} {found} rows and the footer says {rows}"
            )

    def with_wanted(self, groups: range, wanted: Mask) -> tuple[list[int], Mask]:
        """The row groups of a run that have `wanted` rows, and which rows of it are theirs: others may be damaged."""
        counts = self.counts[groups.start : groups.stop]
        parts = np.split(wanted, np.cumsum(counts)[:-1])
        has = [bool(part.any()) for part in parts]
        return list(compress(groups, has)), np.repeat(has, counts)

    def wanted(
        self, groups: range, wanted: Mask, names: list[str] | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch, Mask]]:
        """The batches that have `wanted` rows of a run, each with its part of the mask.

        The number says how many rows of the row groups `with_wanted` were before the batch.
        """
        some, theirs = self.with_wanted(groups, wanted)
        wanted, start = wanted[theirs], 0
        for batch in self.batches(some, names) if some else ():
            part = wanted[start : start + len(batch)]
            if part.any():
                yield start, batch, part
            start += len(batch)
            del batch  # before the next one is decoded


# Footers of local files of many row groups: reading one anew for each group would take as long as the square of them.
_footers: dict[object, _Footer] = {}


@contextmanager
def _opened(file: File) -> Iterator[_Source]:
    with reading(file):
        where, key = file.open_arrow(), file.identity()
        footer = _footers.get(key)
        if footer is None:
            size = _footer_size(where)
            check_room(file.name, FOOTER_COST * size)
        # Nanoseconds, the default for INT96, cannot hold the years that Spark writes, such as 9999.
        how = {"coerce_int96_timestamp_unit": "us", "page_checksum_verification": True}
        known = footer and footer.metadata
        opened = pq.ParquetFile(where, buffer_size=READ_AHEAD, pre_buffer=False, metadata=known, **how)
        if footer is None:
            if size - opened.metadata.serialized_size == SIGNATURE:
                raise DamagedInputError(f"{file.name}: has encrypted columns; write it without encryption")
            footer = _Footer.of(opened.metadata)
        if key is not None and opened.num_row_groups >= MANY_GROUPS:
            if len(_footers) >= MAX_FOOTERS:
                _footers.clear()
            _footers[key] = footer
        source = _Source(file, opened, footer)
    try:
        yield source
    finally:
        opened.close(force=True)


def _footer_size(source: pa.NativeFile) -> int:
    """Bytes of the footer, which the file states in its last eight bytes; 0 if there is none."""
    size: int = source.size()
    if size < 12:
        return 0
    source.seek(size - 8)
    end = source.read(8)
    source.seek(0)
    if not end.endswith(b"PAR1"):
        refuse_pointer(source.read(MAX_POINTER))
    return min(int.from_bytes(end[:4], "little"), size)


def _blocks(source: _Source, groups: range, columns: Columns, rules: Rules) -> Iterator[Block]:
    others = (name for name in (columns.order, columns.copy_key) if name is not None)
    texts = () if columns.unread else map(".".join, columns.texts)
    order = None if columns.order is None else OrderColumn(source.file, columns.order, "row")
    # The many threads that read for a device decode as much as they pass on: each batch waits for Python's lock.
    max_bytes = rules.block_bytes if rules.block_bytes > BLOCK_BYTES else None
    at = source.rows(groups).start
    for batch in source.batches(groups, list(dict.fromkeys([*texts, *others])), max_bytes):
        block = batch_block(source.file, batch, columns, order, at, rules.limit)
        at += len(batch)
        del batch  # before the next one is decoded
        yield block
        del block


def _blocks_of_run(source: _Source, groups: range, columns: Columns, rules: Rules) -> Iterator[Block]:
    """A run as a whole. With `rules.skip` all rows of a row group are rejected where one page of it is damaged: those
    that can be read could not be written again. A large one is decoded twice, once to see that it is whole.
    """
    if not rules.skip:
        yield from _blocks(source, groups, columns, rules)
        return
    held: list[Block] = []
    size = 0
    try:
        with reading(source.file):
            for block in _blocks(source, groups, columns, rules):
                size += block.texts.size()
                if size <= HELD_BYTES:
                    held.append(block)
                else:
                    held.clear()
                del block
    except DamagedInputError as error:
        if len(groups) > 1:
            for number in groups:
                yield from _blocks_of_run(source, range(number, number + 1), columns, rules)
            return
        part = source.part(groups, columns)
        why = Rejection(
            part.start, part.rows, "row", part.start, f"row group {part.number} {reason(source.file, error)}"
        )
        order = None if columns.order is None else pa.nulls(part.rows)
        copy_key = None if columns.copy_key is None else python_copy_keys([None] * part.rows)
        yield Block(part.start, piece_rows([None] * part.rows), order, (why,), copy_key=copy_key)
        return
    if size > HELD_BYTES:
        yield from _blocks(source, groups, columns, rules)
    held.reverse()
    while held:
        yield held.pop()


def _kept_runs(source: _Source, keep: Mask, how: WriteOptions) -> Iterator[tuple[Sequence[int], Iterator[pa.Table]]]:
    """The kept rows of each run that has some, and the row groups that hold them."""
    if source.starts[-1] != len(keep):
        raise wrong_row_count(source.file)
    for groups in source.runs():
        part = keep[source.rows(groups)]
        if part.any():
            some, theirs = source.with_wanted(groups, part)
            known = how.get("known")
            texts = None if known is None else _known_texts(source, groups, known)
            if known is None or texts is None:
                yield some, _kept_tables(source, groups, part)
            else:
                place = source.schema.get_field_index(known.columns.text_column)
                texts = texts if theirs.all() else texts.filter(to_arrow(theirs))
                yield some, _kept_tables(source, groups, part, place, texts)


def _known_texts(source: _Source, groups: range, known: KnownTexts) -> pa.ChunkedArray | None:
    """The texts of a run, where they are known in the type of their column, and others can be read by name."""
    schema, column = source.schema, known.columns.text_column
    if column not in schema.names or len(set(schema.names)) < len(schema) or any("." in name for name in schema.names):
        return None
    part, kind = source.part(groups, known.columns), schema.field(column).type
    texts = known.texts(part)
    if texts is None or sum(map(len, texts)) != part.rows or any(each.type != kind for each in texts):
        return None
    return pa.chunked_array(texts, kind)


def _kept_tables(
    source: _Source, groups: range, keep: Mask, place: int = -1, texts: pa.ChunkedArray | None = None
) -> Iterator[pa.Table]:
    """The kept rows of a run, batch by batch. Where the `texts` of column `place` are known, others are decoded."""
    schema, names = source.schema, None
    if texts is not None:
        names = schema.remove(place).names
        if not names:
            _, theirs = source.with_wanted(groups, keep)
            batches = pa.table([texts], schema=schema).filter(to_arrow(keep[theirs])).to_batches()
            yield from map(pa.Table.from_batches, zip(batches))
            return
    with reading(source.file):
        for start, batch, part in source.wanted(groups, keep, names):
            found = pa.Table.from_batches([filter_rows(batch, part)])
            if texts is not None:
                columns = found.columns
                columns.insert(place, filter_rows(texts.slice(start, len(batch)), part))
                found = pa.Table.from_arrays(columns, schema=schema)
                del columns
            yield found
            del batch, found  # before the next one is decoded


def _as_batches(tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Each table with its columns in one piece."""
    for table in tables:
        yield from table.combine_chunks().to_batches()
        del table  # before the next one is decoded


def group_tables(
    tables: Iterable[pa.Table], large: Sequence[str | int] = (), max_rows: int | None = None
) -> Iterator[pa.Table]:
    """The rows of `tables`, `max_rows` or GROUP_ROWS at a time, each column in one piece.

    Fewer where the values of the `large` columns reach GROUP_BYTES with the last of them.
    """
    max_rows = max_rows or GROUP_ROWS
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        sizes = np.zeros(len(table), np.int64)
        for name in large:
            sizes += np.concatenate([np.empty(0, np.int64), *map(text_lengths, table.column(name).chunks)])
        ends = np.cumsum(sizes)
        while len(table):
            stop = min(int(np.searchsorted(ends, GROUP_BYTES - size)) + 1, max_rows - rows)
            held.append(table.slice(0, stop))
            if stop > len(table):
                rows, size = rows + len(table), size + int(ends[-1])
                break
            table, ends = table.slice(stop), ends[stop:] - ends[stop - 1]
            rows = size = 0
            yield _join_tables(held)
        del table  # before the next one is decoded
    if held:
        yield _join_tables(held)


def _join_tables(held: list[pa.Table]) -> pa.Table:
    """The tables as one; leaves the list empty, so the memory of each is free once it is copied."""
    table = pa.concat_tables(held)
    held.clear()
    return table.combine_chunks()


def writer_options(
    source: _Source, codec: OutputCodec | None, added: Sequence[str], text_statistics: bool
) -> dict[str, object]:
    """Options of pyarrow.parquet.ParquetWriter for the rows of a file and `added` columns."""
    groups, paths = _groups(source.metadata), source.paths()
    chunks = [(path, group.column(place)) for group in groups for place, path in enumerate(paths)]
    with_dictionary = {path for path, chunk in chunks if chunk.has_dictionary_page}
    with_statistics = {
        path
        for path, chunk in chunks
        if chunk.is_stats_set and (text_statistics or chunk.physical_type != "BYTE_ARRAY")
    }
    codecs = {path: CODECS.get(chunk.compression, "zstd") for path, chunk in chunks}
    first = next(iter(codecs.values()), "zstd")
    codecs |= dict.fromkeys([*added, *(f"{name}.list.element" for name in added)], first)
    return {
        "compression": codec.name if codec else codecs,
        "compression_level": codec.level if codec else None,
        "use_dictionary": sorted(with_dictionary | {*added}),
        "write_statistics": sorted(with_statistics | {*added}),
    }
