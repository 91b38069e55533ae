"""Files of results, and their columns: ids of documents, and decisions about them and their counts, by position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, Values
from gpulsh.decide.counts.counts import Counts, dates
from gpulsh.decide.counts.weights import sizes_by
from gpulsh.io.arrow.buffers import null_mask, take_rows, to_arrow
from gpulsh.io.arrow.ids import cast_to, common_type, fits_parquet, is_parquet_type, json_strings, parquet_type
from gpulsh.io.arrow.rows import text_lengths
from gpulsh.io.file import map_files
from gpulsh.io.files.rejected import Rejected
from gpulsh.io.format import AddedColumns
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.parquet import GROUP_ROWS, group_tables
from gpulsh.ragged import find_sorted, offsets
from gpulsh.run.job import FileJob, Job, Layout
from gpulsh.run.records.sightings import source_and_date
from gpulsh.run.records.tables import DECISIONS, SEEN, SIGHTINGS, Decisions, Ids, SeenRows, SightingRows, ids_table
from gpulsh.stats.counts import CLUSTERS, ID_TYPE, INSTANT, MARKS, NAMES, WEIGHT, ColumnRow
from gpulsh.store.durable import FileFact, durable_file

MAX_OPEN = 4096  # files, each mapped


class IdColumn:
    """The ids that `collect` has brought together, by position; `files` are how many files each partition has.

    Files that were read `stay_open` for rows in small batches, whose witnesses are of any partition.
    """

    def __init__(
        self, folder: Path, layout: Layout, files: Sequence[int], type: pa.DataType, *, stay_open: bool = False
    ) -> None:
        def read(partition: int, number: int) -> Ids:
            return ids_table(number).read(folder, partition)

        self._layout, self._files = layout, files
        self._read = lru_cache(MAX_OPEN)(read) if stay_open else read
        self.type = type
        self.largest = 0  # bytes of an id, if they were all looked at

    @classmethod
    def of(
        cls,
        job: FileJob,
        folder: Path,
        layout: Layout,
        files: Sequence[int],
        bad: Rejected,
        more: Sequence[pa.DataType] = (),
    ) -> Self:
        """The ids of a run, of a type that has room for all of them and for `more` types.

        It is common to all ids and to the files' schemas; if there is none, each value is JSON text. So the type does
        not depend on which rows are dropped, where every file has a schema and Parquet every value.
        """
        found, kinds, fits = cls(folder, layout, files, pa.null()), [*more], True
        for _, ids in found._read_partitions(*range(len(files))):
            kinds.append(ids.type)
            fits &= fits_parquet(ids)
            found.largest = max(found.largest, int(text_lengths(ids).max(initial=0)))
        if (column := job.columns.id) is not None:
            known, new = np.diff(layout.files) > 0, range(job.earlier_files, len(job.files))
            read = [number for number in new if known[number] or not bad.has_rejected(number)]

            def declared(number: int) -> pa.DataType | None:
                return format_of(job.files[number]).column_type(job.files[number], column)

            with job.stamps.unchanged(new):
                kinds += [kind for kind in map_files(declared, read, job.files) if kind is not None]
        kind = common_type(kinds)
        found.type = parquet_type(kind) if kind is not None and is_parquet_type(kind) and fits else pa.string()
        return found

    def _read_partitions(self, *partitions: int) -> Iterator[Ids]:
        return (self._read(partition, number) for partition in partitions for number in range(self._files[partition]))

    def sizes(self, positions: Numbers) -> Numbers:
        """int64 [m]: bytes of the ids at `positions`, 0 if they are not text."""
        ascending, places = np.unique(positions, return_inverse=True)
        found = np.zeros(len(ascending), np.int64)
        for partition, part in self._layout.by_partition(ascending) if self.largest else ():
            for known, ids in self._read_partitions(partition):
                rows, at = find_sorted(known, ascending[part])
                found[part][rows] = text_lengths(ids)[at]
        return found[places]

    def at(self, positions: Numbers) -> pa.Array:
        """The ids at `positions` [m], as one pyarrow.Array."""
        if not any(self._files) or not len(positions):
            return pa.nulls(len(positions), self.type)
        ascending, places = np.unique(positions, return_inverse=True)
        found = []
        for partition, part in self._layout.by_partition(ascending):
            for known, ids in self._read_partitions(partition):
                values = take_rows(ids, find_sorted(known, ascending[part])[1])
                is_string = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
                as_json = self.type == pa.string() and not is_string
                found.append(json_strings(values) if as_json else cast_to(values, self.type))
        return take_rows(pa.concat_arrays(found), places)


TYPES = {NAMES: pa.list_(pa.string()), INSTANT: pa.timestamp("us", "UTC")}


def result_schema(rows: Sequence[ColumnRow], ids: pa.DataType) -> pa.Schema:
    """The schema of columns of a result; `ids` is the type of ids."""
    kinds = {ID_TYPE: ids, **TYPES}
    return pa.schema([(row.name, kinds.get(row.type) or pa.type_for_alias(row.type)) for row in rows])


class MarkedRows:
    """The columns of documents by position. Documents in no candidate pair have none in the files of `collect`."""

    def __init__(self, job: Job, folder: Path, layout: Layout, id_files: Sequence[int], ids: pa.DataType) -> None:
        self._job, self._layout = job, layout
        self.ids = IdColumn(folder, layout, id_files, ids, stay_open=True)
        self._decisions: Callable[[int], Decisions] = lru_cache(2)(partial(DECISIONS.read, folder))
        self._seen: Callable[[int], SeenRows] = lru_cache(2)(partial(SEEN.read, folder))
        self._sightings: Callable[[int], SightingRows] = lru_cache(2)(partial(SIGHTINGS.read, folder))

    def where(self, positions: Numbers) -> dict[str, pa.Array]:
        """file, row and id of the documents at `positions`, in any order."""
        file, row = self._job.file_and_row(self._layout, positions)
        return {"file": file, "row": row, "id": self.ids.at(positions)}

    def added_columns(self, positions: Numbers) -> AddedColumns:
        """The added columns of the written documents, at ascending `positions`."""
        names = self._job.added_columns()
        known = {row.name: row for row in (*MARKS, *CLUSTERS, WEIGHT)}
        schema = result_schema([known[name] for name in names], self.ids.type)

        def make(some: Numbers) -> pa.RecordBatch:
            return pa.record_batch(self.columns(some, names), schema=schema)

        return AddedColumns(schema, positions, make)

    def columns(self, positions: Numbers, names: Sequence[str]) -> list[pa.Array]:
        """Some columns of the documents at ascending `positions`."""
        count, stays = len(positions), self._job.policy.retention.min_sources == 1
        flags, ones, none = np.zeros(count, bool), np.ones(count, np.int64), np.zeros(count, np.int64)
        alone = positions.copy(), np.ones(count, np.float32), positions.copy(), flags, np.full(count, stays)
        found = Decisions(positions, *alone, none, none.copy(), ones)
        for number, part in self._layout.by_partition(positions):
            known = self._decisions(number)
            rows, at = find_sorted(known.document, positions[part])
            decided: Iterable[tuple[Values, Values]] = zip(found[1:], known[1:], strict=True)
            for column, values in decided:
                column[part][rows] = values[at]
        kept, is_own = found.kept, found.duplicate_of == positions
        columns: dict[str, pa.Array] = {
            "kept": to_arrow(kept),
            "cluster": to_arrow(found.cluster),
            "copies": to_arrow(found.copies, ~kept),
            "near": to_arrow(found.near, ~kept),
            "component": to_arrow(found.component),
        }
        if "similarity" in names:
            columns["similarity"] = to_arrow(found.similarity, is_own)
            other = self.where(found.duplicate_of[~is_own])
            places = np.cumsum(~is_own) - 1
            columns |= {f"duplicate_of_{name}": take_rows(column, places, is_own) for name, column in other.items()}
        if "sources" in names:
            columns |= self._seen_by(positions, kept)
        if "weight" in names:
            counting = self._job.counting
            assert counting.weights is not None
            sizes = sizes_by(counting.weight_by, Counts(found.copies, found.near, found.component))
            columns["weight"] = to_arrow(np.where(kept, counting.weights.weights(sizes), 0.0))
        return [columns[name] for name in names]

    def _seen_by(self, positions: Numbers, kept: NDArray[np.bool_]) -> dict[str, pa.Array]:
        """Where and when each was seen, by SIGHTINGS; with the documents dropped for it, by SEEN."""
        source, date = source_and_date(self._job, self._layout, positions, self._sightings)
        null = null_mask(source)
        known = np.ones(len(source), np.bool_) if null is None else ~null
        sources, first, last = known.astype(np.int64), date.copy(), date.copy()
        lists = [pa.ListArray.from_arrays(to_arrow(offsets(sources).astype(np.int32)), source.drop_null())]
        place, start = np.arange(len(positions)), len(positions)
        for number, part in self._layout.by_partition(positions):
            seen = self._seen(number)
            rows, at = find_sorted(seen.document, positions[part])
            for column, values in ((sources, seen.sources), (first, seen.first), (last, seen.last)):
                column[part][rows] = values[at]
            place[part][rows] = start + np.arange(len(at))
            lists.append(take_rows(seen.source_names, at))  # all names of a partition are as many as its documents
            start += len(at)
        all_rows = np.arange(len(positions))
        return {
            "sources": to_arrow(sources, ~kept),
            "source_names": pa.concat_arrays(lists).take(to_arrow(place, ~kept)),
            "first_seen": dates(first).take(to_arrow(all_rows, ~kept)),
            "last_seen": dates(last).take(to_arrow(all_rows, ~kept)),
        }


def write_result(
    folder: Path, name: str, schema: pa.Schema, tables: Iterable[pa.Table], large: Sequence[str] = ()
) -> dict[str, FileFact]:
    """Write a file of a work folder. The division of its rows into tables does not change its bytes.

    Row groups are smaller where the values of the `large` columns are.
    """
    with durable_file(folder / name) as sink:
        with pq.ParquetWriter(sink, schema, compression="zstd", version="2.6") as out:
            for table in group_tables(tables, large):
                out.write_table(table, row_group_size=GROUP_ROWS)
        return {name: sink.fact()}
