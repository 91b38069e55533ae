"""Parquet: read by row group and batch, written with one row group an input row group."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.backends.recent import Recent
from gpulsh.errors import DamagedInputError
from gpulsh.io.arrow.buffers import to_arrow
from gpulsh.io.arrow.rows import arrow_rows, bytes_of
from gpulsh.io.arrow.selection import chosen, kept
from gpulsh.io.arrow.soundness import check_batch, check_values
from gpulsh.io.arrow.texts import column_named, stray, text_column
from gpulsh.io.arrow.types import check_columns, type_named
from gpulsh.io.columns import Columns
from gpulsh.io.compression.packing import Packing
from gpulsh.io.file import File, reading, reason, wrong_length
from gpulsh.io.format import (
    BLOCK_BYTES,
    STRICT,
    Block,
    Format,
    Keys,
    Known,
    Mask,
    Part,
    Rejection,
    Rules,
    Seen,
    Writing,
    spread,
    unseen,
)
from gpulsh.io.formats.keys import KeyColumn
from gpulsh.io.formats.parquet import costs
from gpulsh.io.formats.parquet.costs import check_pages, column_chunks, fitting_rows, in_turn
from gpulsh.io.formats.parquet.footer import check_footer
from gpulsh.io.formats.parquet.packing import writer_options
from gpulsh.io.formats.parquet.pages import reader as page_reader
from gpulsh.io.formats.parquet.pages import stored_bytes
from gpulsh.io.formats.parquet.spilled_rows import SpilledRows
from gpulsh.io.limits import Limit, check_sizes, check_values_fit, too_costly
from gpulsh.io.rows import piece_rows

HELD_BYTES = 64 << 20  # of a row group that are held until all of it was decoded
MOST_DECODED = 64  # times the largest document that the rows of a row group may take, which wait in a file
MANY_GROUPS = 64  # of a file whose footer is kept
MOST_FOOTERS = 8
SAMPLED_GROUPS, SAMPLED_BYTES = 16, 512 << 20  # that are decoded for a few rows of each
# Runs of rows next to one another, and rows of one: few would miss what is in few parts of the file, short ones that
# documents repeat their neighbours.
SAMPLED_RUNS, LEAST_RUN = 32, 64
READ_AHEAD = 1 << 20  # bytes of a column chunk fetched at once, instead of the whole chunk


class Parquet(Format):
    """Files of row groups."""

    in_order = False

    def check(self, file: File, columns: Columns) -> int | None:
        """Columns and their types, from the footer."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema_arrow, columns)
            return sum(part.size for part in _parts(source, columns))

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """Batches of about BLOCK_BYTES; row groups without a wanted row are passed over."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema_arrow, columns)
            for part in _parts(source, columns):
                if wanted is None or wanted[part.start : part.start + part.rows].any():
                    yield from _part_blocks(file, source, part, columns, BLOCK_BYTES, rules)

    def parts(self, file: File, columns: Columns) -> list[Part]:
        """The row groups."""
        with reading(file), _opened_again(file) as source:
            check_columns(file, source.schema_arrow, columns)
            return list(_parts(source, columns))

    def read_part(
        self,
        file: File,
        columns: Columns,
        part: Part,
        block_bytes: int,
        rules: Rules = STRICT,
        packed: Callable[[bytes], None] | None = None,
    ) -> Iterator[Block]:
        """A row group in batches of about `block_bytes`."""
        with reading(file), _opened_again(file) as source:
            if part.number >= source.num_row_groups or source.metadata.row_group(part.number).num_rows != part.rows:
                raise wrong_length(file)
            if packed is not None:
                for content in _packed(file, source, part.number, columns):
                    packed(content)
            yield from _part_blocks(file, source, part, columns, block_bytes, rules)

    def groups(self, file: File, columns: Columns) -> list[tuple[int, int]]:
        """Rows and about how many bytes of text each row group has, from the footer."""
        return [(part.rows, part.size) for part in self.parts(file, columns)]

    def keys(self, file: File, column: str) -> list[Keys]:
        """What `--keep` orders by, of each batch."""
        found: list[Keys] = []
        keys, start = KeyColumn(file, column, "row"), 0
        with reading(file), _opened(file) as source:
            for batch in source.iter_batches(costs.MAX_BATCH_ROWS, columns=[column]):
                found.append(keys.read(check_values(file, column, column_named(batch, column)), start))
                start += len(batch)
        return found

    def kind(self, file: File, column: str) -> pa.DataType:
        """The type of the column, from the footer."""
        with reading(file), _opened(file) as source:
            return type_named(source.schema_arrow, column)

    def values(self, file: File, column: str, rows: NDArray[np.int64], limit: Limit | None = None) -> pa.Array:
        """The column at `rows`, read from the row groups that hold them."""
        found: list[pa.Array] = []
        held = done = 0
        with reading(file), _opened(file) as source:
            kind = type_named(source.schema_arrow, column)
            for group, bounds in enumerate(_bounds(source)):
                first, last = np.searchsorted(rows, bounds)
                if first < last:
                    for part in _chosen_of(file, source, group, column, rows[first:last] - bounds[0], limit):
                        found.append(part)
                        held, done = held + bytes_of(part), done + len(part)
                        check_values_fit(file, column, held, done, len(rows), limit)
        return pa.concat_arrays(found) if found else pa.nulls(0, kind)

    def takes(self, packing: Packing) -> bool:
        """Always."""
        return True

    def write_kept(self, file: File, keep: Mask, target: str, **how: Unpack[Writing]) -> None:
        """The schema, its metadata and its codecs are the input's; a row group with no kept row vanishes."""
        seen, limit, known = how.get("seen", unseen), how.get("limit"), how.get("known")
        with _opened(file) as source:
            large: set[str] = set()
            with reading(file):
                for group in range(source.num_row_groups):
                    pages = check_pages(file, source, group, limit)
                    large |= {name for name, of in pages.items() if of.large > costs.LARGE_PAGE}
                options = writer_options(source, large, how.get("packing"))
            # Fixed options, and chunks that follow from the footer: the same rows give the same bytes.
            with (
                # Through Python each page would be copied once more.
                pa.OSFile(target, "wb") if large else open(target, "wb") as sink,
                pq.ParquetWriter(sink, source.schema_arrow, version="2.6", **options) as out,
            ):
                for group, (start, stop) in enumerate(_bounds(source)):
                    part = keep[start:stop]
                    if part.any():
                        with SpilledRows(source.schema_arrow, target + ".rows") as rows:
                            for batch in _kept_batches(file, source, group, start, part, seen, known):
                                rows.add(batch)
                                del batch  # before the next one is read
                                if limit is not None and rows.size > MOST_DECODED * limit.document:
                                    place = f"row group {group}: only {rows.rows} of its rows"
                                    raise too_costly(file, place, rows.size, MOST_DECODED * limit.document, limit)
                            rows.write(out)
            if source.metadata.num_rows != len(keep):
                raise wrong_length(file)

    def kept(self, file: File, keep: Mask, **how: Unpack[Writing]) -> Iterator[pa.RecordBatch]:
        """The kept rows of one row group after another."""
        seen, limit, known = how.get("seen", unseen), how.get("limit"), how.get("known")
        with _opened(file) as source:
            for group, (start, stop) in enumerate(_bounds(source)):
                part = keep[start:stop]
                if part.any():
                    with reading(file):
                        check_pages(file, source, group, limit)
                    yield from filter(len, _kept_batches(file, source, group, start, part, seen, known))
            if source.metadata.num_rows != len(keep):
                raise wrong_length(file)

    def write_sample(self, file: File, share: float, target: str) -> float:
        """Some runs of rows, evenly spread over some row groups, which are too."""
        with _opened(file) as source:
            bounds = [pair for pair in _bounds(source) if pair[0] < pair[1]]
            total = source.metadata.num_rows
            sizes = [source.metadata.row_group(number).total_byte_size for number in range(source.num_row_groups)]
        keep = np.zeros(total, np.bool_)
        several = min(SAMPLED_GROUPS, SAMPLED_BYTES * len(sizes) // max(sum(sizes), 1))
        chosen = spread(bounds, max(math.ceil(share * len(bounds)), several))
        for start, stop in chosen:
            rows = share * total / len(chosen)
            runs = max(min(math.ceil(SAMPLED_RUNS / len(chosen)), int(rows / LEAST_RUN)), 1)
            for first, last in pairwise(np.linspace(start, stop, runs + 1).astype(np.int64).tolist()):
                keep[first : min(last, first + math.ceil(rows / runs))] = True
        self.write_kept(file, keep, target)
        return float(keep.mean()) if total else 1.0


@contextmanager
def _opened(file: File, metadata: pq.FileMetaData | None = None) -> Iterator[pq.ParquetFile]:
    with reading(file):
        # Absolute, for Arrow would take "s3:..." for a URL. It knows only paths that are UTF-8, as a printable one is.
        path = os.path.abspath(file.path)
        where = path if file.filesystem is None and path.isprintable() else file.open()
        source = pq.ParquetFile(where, buffer_size=READ_AHEAD, pre_buffer=False, metadata=metadata)
    try:
        with reading(file):
            check_footer(file, source)
        yield source
    finally:
        source.close(force=True)


# Footers of local files of many row groups: reading one anew for each group would take as long as the square of them.
_footers: Recent[tuple[object, ...], pq.FileMetaData] = Recent(MOST_FOOTERS)


@contextmanager
def _opened_again(file: File) -> Iterator[pq.ParquetFile]:
    """As `_opened`, of a file of which one part after another is read."""
    key = file.identity()
    footer = _footers.get(key) if key is not None else None
    with _opened(file, metadata=footer) as source:
        if key is not None and footer is None and source.num_row_groups >= MANY_GROUPS:
            _footers.put(key, source.metadata)
        yield source


def _parts(source: pq.ParquetFile, columns: Columns) -> Iterator[Part]:
    return (_part(source, columns, number, start) for number, (start, _) in enumerate(_bounds(source)))


def _part(source: pq.ParquetFile, columns: Columns, number: int, start: int) -> Part:
    """The row group of that number, whose first row is `start`."""
    group, texts = source.metadata.row_group(number), list(map(".".join, columns.texts))
    size = sum(chunk.total_uncompressed_size for chunk in column_chunks(group) if chunk.path_in_schema in texts)
    return Part(number, start, group.num_rows, size)


def _bounds(source: pq.ParquetFile) -> Iterator[tuple[int, int]]:
    """The first row of each row group, and the first behind it."""
    counts = (source.metadata.row_group(number).num_rows for number in range(source.num_row_groups))
    return pairwise(accumulate(counts, initial=0))


def _blocks(
    file: File, source: pq.ParquetFile, part: Part, columns: Columns, block_bytes: int, limit: Limit | None
) -> Iterator[Block]:
    names = list(dict.fromkeys([*map(".".join, columns.texts), *([] if columns.key is None else [columns.key])]))
    gives_back = in_turn(check_pages(file, source, part.number, limit, names))
    rows, _ = fitting_rows(file, source, part.number, names)
    at = part.start
    keys = None if columns.key is None else KeyColumn(file, columns.key, "row")
    batches = source.iter_batches(rows, row_groups=[part.number], columns=names, use_threads=False)
    for batch in _joined(file, batches, block_bytes):
        key = None if keys is None else keys.of(batch, at)
        found = text_column(batch, columns)
        texts, bad_bytes = arrow_rows(found), stray(found)
        check_sizes(file, at, texts.lengths(), limit)
        at += len(batch)
        batch_bytes = batch.nbytes
        del batch, found  # before the next one is decoded
        large = batch_bytes >= costs.LARGE_PAGE
        yield Block(at - len(texts), texts, key, stray=bad_bytes)
        del texts, key
        if large:  # beside the next one, what is kept for later might not fit
            pa.default_memory_pool().release_unused()
    del batches
    if gives_back:
        pa.default_memory_pool().release_unused()
    _check_rows(file, source, part.number, at - part.start)


def _check_rows(file: File, source: pq.ParquetFile, number: int, found: int) -> None:
    """A DamagedInputError where a row group's pages hold another number of rows than its footer says."""
    told = source.metadata.row_group(number).num_rows
    if found != told:
        raise DamagedInputError(
            f"{file.name}: cannot be read: row group {number} has {found} rows and its footer says {told}"
        )


def _joined(file: File, batches: Iterator[pa.RecordBatch], block_bytes: int) -> Iterator[pa.RecordBatch]:
    """Runs of batches copied together to about `block_bytes`, by the thread that decodes them."""
    run: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        check_batch(file, batch)
        if run and size + batch.nbytes > block_bytes:
            yield _one(run)
            run, size = [], 0
        run.append(batch)
        size += batch.nbytes
        del batch
        if size >= block_bytes:  # or it would wait while the next one is decoded
            yield _one(run)
            run, size = [], 0
    if run:
        yield _one(run)


def _one(run: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(run) == 1:
        return run[0]
    columns = [pa.concat_arrays([batch.column(place) for batch in run]) for place in range(run[0].num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=run[0].schema)


def _part_blocks(
    file: File, source: pq.ParquetFile, part: Part, columns: Columns, block_bytes: int, rules: Rules
) -> Iterator[Block]:
    """A row group as a whole, or with `rules.skip` all its rows rejected where one page of it is damaged: those that
    can be read could not be written again. A large one is decoded twice, once to see that it is whole.
    """
    held: list[Block] = []
    size = 0
    if rules.skip:
        try:
            with reading(file):
                for block in _blocks(file, source, part, columns, block_bytes, rules.limit):
                    size += int(block.texts.lengths().sum())
                    if size <= HELD_BYTES:
                        held.append(block)
                    else:
                        held.clear()
                    del block
        except DamagedInputError as error:
            yield _all_rejected(file, source, part, columns, error)
            return
    if not rules.skip or size > HELD_BYTES:
        yield from _blocks(file, source, part, columns, block_bytes, rules.limit)
    held.reverse()
    while held:
        yield held.pop()


def _all_rejected(file: File, source: pq.ParquetFile, part: Part, columns: Columns, error: DamagedInputError) -> Block:
    key = None if columns.key is None else pa.nulls(part.rows)
    why = Rejection(part.start, part.rows, "row", part.start, f"row group {part.number} {reason(file, error)}")
    return Block(part.start, piece_rows([None] * part.rows), key, (why,))


def _packed(file: File, source: pq.ParquetFile, number: int, columns: Columns) -> Iterator[bytes]:
    """What the column of the texts of a row group is decoded from."""
    with page_reader(file) as read:
        for chunk in column_chunks(source.metadata.row_group(number)):
            if chunk.path_in_schema == columns.whole:
                yield from stored_bytes(read, chunk)


def _known_texts(file: File, source: pq.ParquetFile, number: int, first: int, known: Known) -> list[pa.Array] | None:
    """The texts of a row group, where they are known in the type of their column, and others can be read by name."""
    schema, column = source.schema_arrow, known.columns.whole
    if column not in schema.names or len(set(schema.names)) < len(schema) or any("." in name for name in schema.names):
        return None
    part = _part(source, known.columns, number, first)
    texts = known.texts(part, _packed(file, source, number, known.columns))
    kind = schema.field(column).type
    fits = texts is not None and sum(map(len, texts)) == part.rows and all(each.type == kind for each in texts)
    return texts if fits else None


def _kept_batches(
    file: File, source: pq.ParquetFile, number: int, first: int, keep: Mask, seen: Seen, known: Known | None
) -> Iterator[pa.RecordBatch]:
    """The kept rows of a row group in batches of equal length. Where a column is known, only others are decoded."""
    schema = source.schema_arrow
    with reading(file):
        fitting = fitting_rows(file, source, number)
        texts = None if known is None else _known_texts(file, source, number, first, known)
    if known is None or texts is None:
        yield from _kept_rows(file, source, number, first, keep, seen, schema, fitting)
        return
    place = schema.get_field_index(known.columns.whole)
    kept_texts = _kept_texts(pa.chunked_array(texts), keep, fitting[1])
    del texts
    if len(schema) == 1:
        yield from (pa.RecordBatch.from_arrays([each], schema=schema) for each in kept_texts)
        return
    others = _kept_rows(file, source, number, first, keep, unseen, schema.remove(place), fitting)
    for batch, each in zip(others, kept_texts, strict=True):
        columns = batch.columns
        yield pa.RecordBatch.from_arrays([*columns[:place], each, *columns[place:]], schema=schema)


def _kept_texts(column: pa.ChunkedArray, keep: Mask, length: int) -> Iterator[pa.Array]:
    """The kept texts, cut as `_cut` does it."""
    rows = np.flatnonzero(keep)
    for start in range(0, len(rows) + 1, length):
        some = rows[start : start + length]
        first, last = (some[0], some[-1] + 1) if len(some) else (0, 0)
        chunks = column.slice(first, last - first).filter(to_arrow(keep[first:last])).chunks
        yield pa.concat_arrays(chunks) if chunks else pa.nulls(0, column.type)


def _kept_rows(
    file: File,
    source: pq.ParquetFile,
    number: int,
    first: int,
    keep: Mask,
    seen: Seen,
    schema: pa.Schema,
    fitting: tuple[int, int],
) -> Iterator[pa.RecordBatch]:
    """The columns of `schema`, chosen batch by batch: what is dropped is not held."""
    parts: list[pa.RecordBatch] = []
    start = held = 0
    rows, length = fitting
    with reading(file):
        names = schema.names if len(schema) < len(source.schema_arrow) else None
        for batch in source.iter_batches(rows, row_groups=[number], columns=names, use_threads=False):
            check_batch(file, batch)
            seen(first + start, batch)
            part = keep[start : start + len(batch)]
            start += len(batch)
            large = batch.nbytes >= costs.LARGE_PAGE
            if part.any():
                parts.append(kept(batch, part))
                held += len(parts[-1])
            del batch
            if held >= length:
                *full, rest = _cut(parts, length, schema)
                parts, held = [rest], len(rest)
                full.reverse()
                while full:
                    yield full.pop()
            if large:
                pa.default_memory_pool().release_unused()
    _check_rows(file, source, number, start)
    yield from _cut(parts, length, schema)


def _cut(parts: list[pa.RecordBatch], length: int, schema: pa.Schema) -> list[pa.RecordBatch]:
    """All rows as batches of `length`, and one, which may be empty, of the rest."""
    table = pa.Table.from_batches(parts, schema)
    cuts = [table.slice(start, length).combine_chunks() for start in range(0, len(table) + 1, length)]
    return [batch for one in cuts for batch in (one.to_batches() or [pa.RecordBatch.from_pylist([], schema)])]


def _chosen_of(
    file: File, source: pq.ParquetFile, group: int, column: str, rows: NDArray[np.int64], limit: Limit | None
) -> Iterator[pa.Array]:
    """The column at `rows` of a row group, of each batch that holds some."""
    found = check_pages(file, source, group, limit, [column])
    gives_back = in_turn(found)
    decoded, _ = fitting_rows(file, source, group, [column])
    start = 0
    for batch in source.iter_batches(decoded, row_groups=[group], columns=[column], use_threads=False):
        first, last = np.searchsorted(rows, [start, start + len(batch)])
        if first < last:
            check_batch(file, batch)
            yield check_values(file, column, chosen(column_named(batch, column), rows[first:last] - start))
        start += len(batch)
        del batch
        if gives_back:
            pa.default_memory_pool().release_unused()
    _check_rows(file, source, group, start)
