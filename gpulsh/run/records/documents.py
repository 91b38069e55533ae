"""Facts about the documents of each partition: sizes and order, bad records, and documents of earlier runs.

The stage that reads a partition writes them; later stages look them up by position.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpulsh.arrays import Numbers
from gpulsh.decide.edges import DropRules
from gpulsh.io.arrow.ids import json_strings
from gpulsh.io.files.file_texts import Partition, PartitionFacts
from gpulsh.io.files.rejected import REJECTED, Rejected
from gpulsh.io.formats.endings import row_name
from gpulsh.ragged import distinct, merged_distinct
from gpulsh.run.job import FileJob, JobContext, Layout, TaskContext, TaskResult, step_file, step_of
from gpulsh.run.policy import Policy, kind_of
from gpulsh.run.records import tables
from gpulsh.run.records.tables import Row, Table
from gpulsh.store.columns import ColumnsFile, MappedBatches, columns_file
from gpulsh.store.durable import FileFact, durable_file


def write_facts(
    context: JobContext, partition: Partition, facts: PartitionFacts, rejected: RejectionsFile
) -> TaskResult:
    """SIZES, ORDER and rejected rows of a partition that was read."""

    def name_of(row: int) -> str:
        number, row = facts.place(partition, row)
        return row_name(context.job.files[number], row)

    sizes, number = np.concatenate([np.empty(0, np.int64), *facts.sizes]), partition.number
    if (order := context.job.policy.order(facts, context.job.files, name_of)) is None:
        made = tables.SIZES.write(context.folder, number, tables.Sizes(sizes))
    else:
        made = tables.SIZES_AND_ORDER.write(context.folder, number, tables.OrderedSizes(sizes, *order))
    bad, kinds = rejected.finish(), sorted(set(map(kind_of, facts.order)))
    stray = {"not_utf8": facts.stray.rows, "stray_bytes": facts.stray.bytes}
    return TaskResult({**made, **bad}, {**reading_facts(facts, bad), **stray, "kinds": kinds})


def reading_facts(facts: PartitionFacts, bad: Mapping[str, FileFact]) -> dict[str, Any]:
    """The facts that later stages and progress need of a partition that was read; `bad` is its file of bad records."""
    first, last = min(facts.rows, default=0), max(facts.rows, default=-1)
    rows = [facts.rows.get(number, 0) for number in range(first, last + 1)]
    counts = {"documents": sum(facts.rows.values()), "nulls": facts.nulls, "bytes": facts.bytes}
    return {"amount": facts.bytes, **counts, "first_file": first, "rows": rows, "rejected": bool(bad)}


def sizes_of(positions: Numbers, folder: Path, layout: Layout) -> Numbers:
    """int64 [m]: bytes of text of the documents at ascending `positions`."""
    return rows_at(tables.SIZES, positions, folder, layout).size


def ranks_of(positions: Numbers, context: JobContext, layout: Layout) -> Numbers:
    """int64 [m]: the place of each of ascending `positions` in the decision order of them all."""
    if context.job.policy.keep == "first":  # protected documents come first by that, too
        return np.arange(len(positions))
    return rows_at(tables.ORDER, positions, context.folder, layout).rank(positions < layout.protected)


def rules_of(positions: Numbers, policy: Policy, layout: Layout) -> DropRules:
    """The rules which of ascending `positions` may be dropped for which, by their places."""
    source = layout.source_of(positions) if policy.by_source() else None
    return DropRules(source, int(np.searchsorted(positions, layout.protected)), policy.across)


def rows_at(table: Table[Row], positions: Numbers, folder: Path, layout: Layout) -> Row:
    """The rows of the documents at ascending `positions` in a table with a row per document."""
    found = table.empty(len(positions))
    for number, part in layout.by_partition(positions):
        start = int(layout.partitions[number])
        for column, known in zip(found, table.read(folder, number), strict=True):
            column[part] = known[positions[part] - start]
    return found


def contaminated_rows(context: TaskContext[FileJob], partition: int) -> Numbers:
    """int64 [m]: the rows of a partition, ascending, that hold items of a benchmark."""
    if context.job.screening is None:
        return np.empty(0, np.int64)
    runs = tables.HELD.open(context.folder, partition).runs()
    return np.concatenate([np.empty(0, np.int64), *(distinct(run.row) for run in runs)])  # a document is in one run


def contamination_positions(context: TaskContext[FileJob], layout: Layout, partition: int) -> Numbers:
    """int64 [m]: the documents of a partition, ascending, that hold items of a benchmark or are held as items."""
    start, stop = layout.bounds(partition)
    parts = [contaminated_rows(context, partition) + start]
    if context.job.screening is not None and start < layout.protected:
        for number in range(len(layout.partitions) - 1):
            runs = tables.HELD.open(context.folder, number).runs()
            parts.append(merged_distinct(run.item[(start <= run.item) & (run.item < stop)] for run in runs))
    return merged_distinct(parts)


HELD_ROWS = 1 << 16


class RejectionsFile(ExitStack):
    """A context. Batches of `io.files.rejected.rejections` go to a file, HELD_ROWS at a time; no file without one."""

    def __init__(self, folder: Path, partition: int) -> None:
        super().__init__()
        self._path = _rejections_path(folder, partition)
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self._file: ColumnsFile | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rejections."""
        self._held.append(batch)
        self._rows += len(batch)
        if self._rows >= HELD_ROWS:
            self._write()

    def finish(self) -> dict[str, FileFact]:
        """The file's fact by its name, when all are there and the context is about to be left."""
        if self._held:
            self._write()
        return {} if self._file is None else {self._path.name: self._file.finish()}

    def _write(self) -> None:
        if self._file is None:
            self._file = self.enter_context(columns_file(self._path, self._held[0].schema))
        table = pa.Table.from_batches(self._held).combine_chunks()
        self._file.append([column.chunk(0) for column in table.columns])
        self._held, self._rows = [], 0


def _rejections_path(folder: Path, partition: int) -> Path:
    return step_file(folder, step_of("sign", partition), "rejected")


def read_rejected(folder: Path, layout: Layout, files: range | None = None) -> Rejected:
    """All rejected rows, or at least the rejected rows of these files, given by number."""
    found: list[pa.RecordBatch] = []
    for partition, first, last in layout.rejections:
        if files is None or (first < files.stop and files.start <= last):
            found += MappedBatches(_rejections_path(folder, partition)).batches
    return Rejected(found)


def write_rejected(folder: Path, bad: Rejected, job: FileJob) -> dict[str, FileFact]:
    """Write `rejected.parquet`, where bad records are skipped."""
    if job.on_error != "skip":
        return {}
    with durable_file(folder / REJECTED) as sink:
        bad.write(sink, [file.name for file in job.files])
        return {REJECTED: sink.fact()}


FILE_AND_ROW = r"(?s)^(?P<file>.*):(?P<row>[0-9]{1,18})$"


class EarlierKeys:
    """The places of the earlier documents of all partitions, by their keys."""

    def __init__(self, folder: Path, partitions: int, *, by_id: bool) -> None:
        self._files = [tables.EARLIER.read(folder, partition) for partition in range(partitions)]
        self._folder, self._by_id = folder, by_id

    def kinds(self) -> list[pa.DataType]:
        """The pyarrow.DataType that an id must have room for: of integers, for strings are alike."""
        kinds = {file.key.type for file in self._files} if self._by_id else set()
        return [kind for kind in kinds if pa.types.is_integer(kind)]

    def where(self, partition: int, numbers: Numbers, ids: pa.DataType) -> list[pa.Array]:
        """file, row and id, of type `ids`, of documents [m] that others are dropped for; a key FILE:ROW is split."""
        file = self._files[partition]
        rows = np.searchsorted(file.number, numbers)
        keys = file.key.take(pa.array(rows))
        if self._by_id:
            fits = pa.types.is_integer(ids) == pa.types.is_integer(keys.type)
            found = keys.cast(ids) if fits else json_strings(keys)
            return [pa.nulls(len(keys), pa.string()), pa.nulls(len(keys), pa.int64()), found]
        keys = keys.cast(pa.string())
        places = pc.extract_regex(keys, FILE_AND_ROW)
        split = places.is_valid()
        return [
            pc.if_else(split, pc.struct_field(places, "file"), keys),
            pc.if_else(split, pc.struct_field(places, "row"), None).cast(pa.int64()),
            pa.nulls(len(keys), ids),
        ]
