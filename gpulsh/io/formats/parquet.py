"""Parquet, by pyarrow: read and written by runs of row groups, which are large ones alone or small ones together.

A batch has about DECODED_BYTES. The footer gives the mean size of a row, but not what a dictionary repeats, so gpulsh
decodes the first rows of a long row group to see. Pages and dictionaries are as large as the file makes them; the
kernel enforces `--memory` (`gpulsh.memory_limit`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from threading import Lock
from typing import NamedTuple, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.errors import DamagedInputError
from gpulsh.io.arrow.buffers import chosen, kept, size_of, to_arrow
from gpulsh.io.arrow.identities import of_python
from gpulsh.io.arrow.rows import arrow_rows, bytes_of, is_text
from gpulsh.io.arrow.soundness import check_batch, check_values
from gpulsh.io.arrow.texts import Cutter, check_columns, column_named, type_named
from gpulsh.io.columns import Columns
from gpulsh.io.file import File, reading, reason, wrong_length
from gpulsh.io.format import (
    BLOCK_BYTES,
    STRICT,
    Block,
    Format,
    Known,
    Mask,
    Part,
    Rejection,
    Rules,
    Writing,
    spread,
    with_added,
)
from gpulsh.io.formats.keys import KeyColumn, batch_block
from gpulsh.io.limits import Limit, check_values_fit
from gpulsh.io.packing import Packing
from gpulsh.io.rows import piece_rows
from gpulsh.memory_limit import check_room

HELD_BYTES = 64 << 20  # of a row group that are held until all of it was decoded
MANY_GROUPS = 64  # of a file whose footer is kept
MOST_FOOTERS = 8
FOOTER_COST = 20  # bytes that Arrow allocates for a byte of footer; without them it ends the process
SAMPLED_GROUPS, SAMPLED_BYTES = 16, 512 << 20  # that are decoded for a few rows of each
# Runs of rows next to one another, and rows of one: few would miss what is in few parts of the file, short ones that
# documents repeat their neighbours.
SAMPLED_RUNS, LEAST_RUN = 32, 64
READ_AHEAD = 1 << 20  # bytes of a column chunk fetched at once, instead of the whole chunk
DECODED_BYTES = 3 << 19  # decoded at once, about: larger batches are slower, because each is memory from the system
MAX_BATCH_ROWS = 1 << 13
RUN_ROWS = 1 << 13  # of small row groups that are read and written as one, at most
GROUP_ROWS = 1 << 18
GROUP_BYTES = 64 << 20
CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd"}
CODECS |= {"LZ4": "lz4", "LZ4_RAW": "lz4"}
FIRST_ROWS, FEW_ROWS = 64, 1 << 10  # that are decoded to see how large rows are, in a row group of more than the latter


class Parquet(Format):
    """Files of row groups."""

    in_order = False

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """Batches of about BLOCK_BYTES; row groups without a wanted row are passed over."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema_arrow, columns)
            runs = _runs(source) if wanted is None else _each_alone(source, range(source.num_row_groups), 0)
            for run in runs:
                if wanted is None or wanted[run.start : run.stop].any():
                    yield from _part_blocks(file, source, _part(source, columns, run), columns, BLOCK_BYTES, rules)

    def parts(self, file: File, columns: Columns) -> list[Part]:
        """Row groups, small ones in runs, once the footer shows the columns and their types."""
        with reading(file), _opened_again(file) as source:
            check_columns(file, source.schema_arrow, columns)
            return [_part(source, columns, run) for run in _runs(source)]

    def read_part(
        self, file: File, columns: Columns, part: Part, block_bytes: int, rules: Rules = STRICT
    ) -> Iterator[Block]:
        """A run of row groups in batches of about `block_bytes`."""
        with reading(file), _opened_again(file) as source:
            yield from _part_blocks(file, source, part, columns, block_bytes, rules)

    def groups(self, file: File, columns: Columns) -> list[tuple[int, int]]:
        """Rows and about how many bytes of text each row group has, from the footer."""
        with reading(file), _opened(file) as source:
            check_columns(file, source.schema_arrow, columns)
            alone = (_part(source, columns, run) for run in _each_alone(source, range(source.num_row_groups), 0))
            return [(part.rows, part.size) for part in alone]

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
            for run in _runs(source):
                first, last = np.searchsorted(rows, [run.start, run.stop])
                if first < last:
                    wanted = np.zeros(run.stop - run.start, np.bool_)
                    wanted[rows[first:last] - run.start] = True
                    some, theirs = _only(source, run, wanted)
                    start, wanted = 0, wanted[theirs]
                    for batch in _batches(file, source, some, [column]):
                        at = np.flatnonzero(wanted[start : start + len(batch)])
                        start += len(batch)
                        if not len(at):
                            continue
                        part = check_values(file, column, chosen(column_named(batch, column), at))
                        found.append(part)
                        held, done = held + bytes_of(part), done + len(part)
                        check_values_fit(file, column, held, done, len(rows), limit)
        return pa.concat_arrays(found) if found else pa.nulls(0, kind)

    def takes(self, packing: Packing) -> bool:
        """True: a Parquet file takes every codec."""
        return True

    def write_kept(self, file: File, keep: Mask, target: str, **how: Unpack[Writing]) -> None:
        """The schema, its metadata and its codecs are the input's; small row groups next to one another become one."""
        with _opened(file) as source:
            schema, added = source.schema_arrow, how.get("added")
            texts = [place for place, field in enumerate(schema) if is_text(field.type)]
            options = writer_options(source, how.get("packing"), () if added is None else added.schema.names)
            if added is not None:
                schema = pa.schema([*schema, *added.schema], schema.metadata)
            cut = None if (cuts := how.get("cuts")) is None else Cutter(file, keep, cuts)
            with open(target, "wb") as sink, pq.ParquetWriter(sink, schema, version="2.6", **options) as out:
                for run, batches in _kept_runs(file, source, keep, how):
                    # The same rows give the same bytes, in batches of any size.
                    rows = max(min((run.stop - run.start) * GROUP_BYTES // max(run.size, 1), GROUP_ROWS), 1)
                    batches = batches if cut is None else map(cut, batches)
                    tables = map(pa.Table.from_batches, zip(with_added(batches, added)))
                    for table in in_groups(tables, texts, rows):
                        out.write_table(table, row_group_size=len(table))
                        del table  # before the next one is made

    def kept(self, file: File, keep: Mask, **how: Unpack[Writing]) -> Iterator[pa.RecordBatch]:
        """The kept rows of one row group after another."""
        with _opened(file) as source:
            for _, batches in _kept_runs(file, source, keep, how):
                yield from batches

    def write_sample(self, file: File, share: float, target: str) -> float:
        """Some runs of rows, evenly spread over some row groups, which are too."""
        with _opened(file) as source:
            runs_of_rows = _each_alone(source, range(source.num_row_groups), 0)
            bounds = [(run.start, run.stop) for run in runs_of_rows if run.start < run.stop]
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
        where = file.native()
        if metadata is None:
            check_room(file.name, FOOTER_COST * _footer_size(where))
        source = pq.ParquetFile(where, buffer_size=READ_AHEAD, pre_buffer=False, metadata=metadata)
    try:
        yield source
    finally:
        source.close(force=True)


def _footer_size(source: pa.NativeFile) -> int:
    """Bytes of the footer, which the file states in its last eight bytes; 0 if there is none."""
    size: int = source.size()
    if size < 12:
        return 0
    source.seek(size - 8)
    found = min(int.from_bytes(source.read(4), "little"), size)
    source.seek(0)
    return found


# Footers of local files of many row groups: reading one anew for each group would take as long as the square of them.
_footers: dict[object, pq.FileMetaData] = {}
_footers_lock = Lock()


@contextmanager
def _opened_again(file: File) -> Iterator[pq.ParquetFile]:
    """As `_opened`, for a file that is read part by part."""
    key = file.identity()
    footer = _footers.get(key)
    with _opened(file, metadata=footer) as source:
        if key is not None and footer is None and source.num_row_groups >= MANY_GROUPS:
            with _footers_lock:
                while len(_footers) >= MOST_FOOTERS:
                    del _footers[next(iter(_footers))]
                _footers[key] = source.metadata
        yield source


class Run(NamedTuple):
    """Row groups next to one another that are read and written as one: a large one alone, small ones together."""

    groups: Sequence[int]
    start: int  # row
    stop: int
    size: int  # bytes of content, by the footer


def _runs(source: pq.ParquetFile) -> Iterator[Run]:
    run: Run | None = None
    for alone in _each_alone(source, range(source.num_row_groups), 0):
        if run is not None and run.size + alone.size <= BLOCK_BYTES and alone.stop - run.start <= RUN_ROWS:
            run = Run([*run.groups, *alone.groups], run.start, alone.stop, run.size + alone.size)
            continue
        if run is not None:
            yield run
        run = alone
    if run is not None:
        yield run


def _each_alone(source: pq.ParquetFile, groups: Sequence[int], start: int) -> Iterator[Run]:
    """Each of some row groups. The first begins with row `start`."""
    for number in groups:
        group = source.metadata.row_group(number)
        yield Run([number], start, start + group.num_rows, group.total_byte_size)
        start += group.num_rows


def _only(source: pq.ParquetFile, run: Run, wanted: Mask) -> tuple[Run, Mask]:
    """The row groups of a run with `wanted` rows, and which rows of it are theirs: others may be damaged."""
    theirs = np.zeros(len(wanted), np.bool_)
    groups: list[int] = []
    size = 0
    for alone in _each_alone(source, run.groups, run.start):
        rows = slice(alone.start - run.start, alone.stop - run.start)
        if wanted[rows].any():
            theirs[rows] = True
            groups += alone.groups
            size += alone.size
    return Run(groups, run.start, run.start + int(theirs.sum()), size), theirs


def _part(source: pq.ParquetFile, columns: Columns, run: Run) -> Part:
    texts = list(map(".".join, columns.texts))
    groups = (source.metadata.row_group(number) for number in run.groups)
    size = sum(chunk.total_uncompressed_size for group in groups for chunk in _chunks(group, texts))
    return Part(run.groups[0], run.start, run.stop - run.start, size)


def _run_of(file: File, source: pq.ParquetFile, part: Part) -> Run:
    rows = size = 0
    for alone in _each_alone(source, range(part.number, source.num_row_groups), part.start):
        rows, size = rows + alone.stop - alone.start, size + alone.size
        if rows == part.rows:
            return Run(range(part.number, alone.groups[0] + 1), part.start, alone.stop, size)
    raise wrong_length(file)


def _chunks(group: pq.RowGroupMetaData, names: list[str] | None) -> Iterator[pq.ColumnChunkMetaData]:
    """The footer's entries for the columns or fields of these names; None: for all."""
    for chunk in map(group.column, range(group.num_columns)):
        path = chunk.path_in_schema
        if names is None or path in names or path.partition(".")[0] in names:
            yield chunk


def _batches(
    file: File, source: pq.ParquetFile, run: Run, names: list[str] | None = None, most_bytes: int = DECODED_BYTES
) -> Iterator[pa.RecordBatch]:
    """Row groups in batches of about `most_bytes`; a DamagedInputError if the footer gives other rows."""
    groups, rows = list(run.groups), run.stop - run.start
    chunks = [chunk for number in groups for chunk in _chunks(source.metadata.row_group(number), names)]
    size = sum(chunk.total_uncompressed_size for chunk in chunks) / max(rows, 1)
    if rows > FEW_ROWS and any(chunk.has_dictionary_page for chunk in chunks):
        first = next(source.iter_batches(FIRST_ROWS, row_groups=groups[:1], columns=names, use_threads=False), None)
        size = max(size, size_of(first) / max(len(first), 1) if first is not None else 0)
    at_once = int(max(min(most_bytes / max(size, 1), MAX_BATCH_ROWS * most_bytes // DECODED_BYTES), 1))
    found = 0
    for batch in source.iter_batches(at_once, row_groups=groups, columns=names, use_threads=False):
        check_batch(file, batch)
        found += len(batch)
        yield batch
        del batch  # before the next one is decoded
    if found != rows:
        detail = f"row group {groups[0]} has" if len(groups) == 1 else f"row groups {groups[0]} to {groups[-1]} have"
        raise DamagedInputError(f"{file.name}: cannot be read: {detail} {found} rows and the footer says {rows}")


def _blocks(
    file: File, source: pq.ParquetFile, part: Part, columns: Columns, block_bytes: int, limit: Limit | None
) -> Iterator[Block]:
    others = (name for name in (columns.key, columns.identity) if name is not None)
    texts_named = () if columns.unread else map(".".join, columns.texts)
    names = list(dict.fromkeys([*texts_named, *others]))
    at = part.start
    keys = None if columns.key is None else KeyColumn(file, columns.key, "row")
    # The many threads that read for a device decode as much as they hand on: each batch waits for Python's lock.
    most_bytes = block_bytes if block_bytes > BLOCK_BYTES else DECODED_BYTES
    for batch in _batches(file, source, _run_of(file, source, part), names, most_bytes):
        block = batch_block(file, batch, columns, keys, at, limit)
        at += len(batch)
        del batch  # before the next one is decoded
        yield block
        del block


def _part_blocks(
    file: File, source: pq.ParquetFile, part: Part, columns: Columns, block_bytes: int, rules: Rules
) -> Iterator[Block]:
    """A run as a whole. With `rules.skip` all rows of a row group are rejected where one page of it is damaged: those
    that can be read could not be written again. A large one is decoded twice, once to see that it is whole.
    """
    held: list[Block] = []
    size = 0
    if rules.skip:
        try:
            with reading(file):
                for block in _blocks(file, source, part, columns, block_bytes, rules.limit):
                    size += block.texts.size()
                    if size <= HELD_BYTES:
                        held.append(block)
                    else:
                        held.clear()
                    del block
        except DamagedInputError as error:
            run = _run_of(file, source, part)
            if len(run.groups) == 1:
                yield _all_rejected(file, part, columns, error)
            else:
                for alone in _each_alone(source, run.groups, run.start):
                    single = _part(source, columns, alone)
                    yield from _part_blocks(file, source, single, columns, block_bytes, rules)
            return
    if not rules.skip or size > HELD_BYTES:
        yield from _blocks(file, source, part, columns, block_bytes, rules.limit)
    held.reverse()
    while held:
        yield held.pop()


def _all_rejected(file: File, part: Part, columns: Columns, error: DamagedInputError) -> Block:
    key = None if columns.key is None else pa.nulls(part.rows)
    why = Rejection(part.start, part.rows, "row", part.start, f"row group {part.number} {reason(file, error)}")
    identity = None if columns.identity is None else of_python([None] * part.rows)
    return Block(part.start, piece_rows([None] * part.rows), key, (why,), identity=identity)


def _known_texts(source: pq.ParquetFile, run: Run, known: Known) -> pa.ChunkedArray | None:
    """The texts of a run, where they are known in the type of their column, and others can be read by name."""
    schema, column = source.schema_arrow, known.columns.whole
    if column not in schema.names or len(set(schema.names)) < len(schema) or any("." in name for name in schema.names):
        return None
    part = _part(source, known.columns, run)
    texts = known.texts(part)
    kind = schema.field(column).type
    if texts is None or sum(map(len, texts)) != part.rows or any(each.type != kind for each in texts):
        return None
    return pa.chunked_array(texts, kind)


def _kept_runs(
    file: File, source: pq.ParquetFile, keep: Mask, how: Writing
) -> Iterator[tuple[Run, Iterator[pa.RecordBatch]]]:
    """The kept rows of each run that has some."""
    if source.metadata.num_rows != len(keep):
        raise wrong_length(file)
    for run in _runs(source):
        part = keep[run.start : run.stop]
        if part.any():
            known = how.get("known")
            texts = None if known is None else _known_texts(source, run, known)
            some, theirs = _only(source, run, part)
            if not theirs.all():
                part, texts = part[theirs], None if texts is None else texts.filter(to_arrow(theirs))
            yield some, _kept_batches(file, source, some, part, known, texts)


def _kept_batches(
    file: File, source: pq.ParquetFile, run: Run, keep: Mask, known: Known | None, texts: pa.ChunkedArray | None
) -> Iterator[pa.RecordBatch]:
    """The kept rows of a run, batch by batch. Where its `texts` are known, only other columns are decoded."""
    schema = source.schema_arrow
    place, names = -1, None
    if known is not None and texts is not None:
        place = schema.get_field_index(known.columns.whole)
        names = schema.remove(place).names
        if not names:
            yield from pa.table([texts], schema=schema).filter(to_arrow(keep)).to_batches()
            return
    start = 0
    with reading(file):
        for batch in _batches(file, source, run, names):
            part = keep[start : start + len(batch)]
            if part.any():
                found = kept(batch, part)
                if texts is not None:
                    columns = found.columns
                    rows = kept(texts.slice(start, len(batch)), part)
                    columns.insert(place, rows.chunk(0) if rows.num_chunks == 1 else pa.concat_arrays(rows.chunks))
                    found = pa.RecordBatch.from_arrays(columns, schema=schema)
                    del columns, rows
                yield found
                del found
            start += len(batch)
            del batch  # before the next one is decoded


def in_groups(
    tables: Iterable[pa.Table], large: Sequence[str | int] = (), most_rows: int | None = None
) -> Iterator[pa.Table]:
    """The rows of `tables`, `most_rows` or GROUP_ROWS at a time, each column in one piece.

    Fewer where the values of the `large` columns reach GROUP_BYTES with the last of them.
    """
    most_rows = most_rows or GROUP_ROWS
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        ends = np.cumsum(sum((_sizes(table.column(name)) for name in large), np.zeros(len(table), np.int64)))
        before = 0
        while True:
            stop = before + int(
                np.searchsorted(ends[before:], GROUP_BYTES - size + (ends[before - 1] if before else 0))
            )
            stop = min(stop + 1, before + most_rows - rows)
            if stop > len(table):
                break
            held.append(table.slice(before, stop - before))
            yield _joined(held)
            rows, size, before = 0, 0, stop
        held.append(table.slice(before))
        rows += len(table) - before
        size += int(ends[-1] - (ends[before - 1] if before else 0)) if before < len(table) else 0
        del table  # before the next one is decoded
    if rows:
        yield _joined(held)


def _joined(held: list[pa.Table]) -> pa.Table:
    """The tables as one; leaves the list empty, so the memory of each is free once it is copied."""
    table = pa.concat_tables(held)
    held.clear()
    return table.combine_chunks()


def _sizes(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """int64 [rows]: bytes of each text of a chunked array, 0 of other types."""
    if not is_text(column.type) or column.null_count == len(column):
        return np.zeros(len(column), np.int64)
    return np.concatenate([np.empty(0, np.int64), *(arrow_rows(chunk).lengths() for chunk in column.chunks)])


def writer_options(source: pq.ParquetFile, asked: Packing | None, added: Sequence[str] = ()) -> dict[str, object]:
    """Options of pyarrow.parquet.ParquetWriter for the rows of a pyarrow.parquet.ParquetFile and `added` columns."""
    groups = [source.metadata.row_group(number) for number in range(source.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    if not chunks:
        return {"compression": asked.codec if asked else "zstd", "compression_level": asked.level if asked else None}
    codecs = {chunk.path_in_schema: CODECS.get(chunk.compression, "zstd") for chunk in chunks}
    first = next(iter(codecs.values()))
    codecs |= dict.fromkeys([*added, *(f"{name}.list.element" for name in added)], first)
    return {
        "compression": asked.codec if asked else codecs,
        "compression_level": asked.level if asked else None,
        "use_dictionary": sorted({chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page} | {*added}),
        "write_statistics": sorted({chunk.path_in_schema for chunk in chunks if chunk.is_stats_set} | {*added}),
    }
