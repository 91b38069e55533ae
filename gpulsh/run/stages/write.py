"""Bring decisions back to the files, and write the kept rows and the evidence, one row per document in input order.

collect      a partition: the decisions of its groups -> DECISIONS; and ids for the evidence, in a file for each run of
             files with one type of ids
write        a run of files: the kept rows of each, every column, in its own format or the chosen one, below `data/`
evidence     all: `duplicates.parquet`, a row for each dropped document with its place, its kept duplicate and their
             similarity; and with `on_error="skip"` `rejected.parquet`
clusters     all: `clusters.parquet`, a row for each kept document in a cluster of two or more, with the number of
             documents that it represents. Any other kept document is alone: copies 0, near 0, component 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, Values
from gpulsh.io.arrow.buffers import plain_values, string_array, take_rows, to_arrow
from gpulsh.io.arrow.rows import array_of
from gpulsh.io.conversion import write_kept
from gpulsh.io.files.file_texts import Piece
from gpulsh.io.files.no_documents import COUNTED, DATA, EVIDENCE
from gpulsh.io.files.places import Targets
from gpulsh.io.format import BLOCK_BYTES, LARGE_TEXT, KnownTexts, Part, WriteOptions
from gpulsh.io.formats.endings import format_of
from gpulsh.io.rows import batch_cuts
from gpulsh.ragged import find_sorted, merged_distinct, offsets, row_of, row_ranges, slice_between, sorted_distinct
from gpulsh.run.job import FileJob, Job, JobContext, Layout, TaskContext, TaskResult, step_of
from gpulsh.run.records import tables
from gpulsh.run.records.documents import (
    EarlierKeys,
    contaminated_rows,
    contamination_positions,
    read_rejected,
    write_rejected,
)
from gpulsh.run.records.results import IdColumn, MarkedRows, result_schema, write_result
from gpulsh.run.records.tables import Decisions, Ids, Ranges, Row, Table, ids_table
from gpulsh.stats.counts import CLUSTERS, DUPLICATES, REASON, WEIGHT
from gpulsh.store.durable import DurableFiles, FileFact


def collect_decisions(context: JobContext, layout: Layout, partition: int, groups: int) -> TaskResult:
    """Bring together the decisions about a partition."""
    bounds = layout.bounds(partition)
    made = write_decisions(context, layout, partition, _rows_of_groups(tables.DECIDED, context.folder, groups, bounds))
    seen = tables.SEEN.write(
        context.folder, partition, _rows_of_groups(tables.SEEN_IN_GROUP, context.folder, groups, bounds)
    )
    return replace(made, files={**made.files, **seen})


def _rows_of_groups(table: Table[Row], folder: Path, groups: int, bounds: tuple[int, int]) -> Row:
    """The rows that all groups have of the documents from one position to before another, ascending."""
    files = (table.read(folder, group) for group in range(groups))
    whole = table.joined(table.rows(columns, slice_between(columns[0], *bounds)) for columns in files)
    return table.rows(whole, np.argsort(whole[0]))


def write_decisions(context: JobContext, layout: Layout, partition: int, columns: Decisions) -> TaskResult:
    """DECISIONS of a partition, and the ids that go with them."""
    shown = (columns.duplicate_of != columns.document) | columns.is_witness | (columns.component > 1)
    ids = write_ids(context, layout, partition, columns.document[shown])
    return TaskResult(tables.DECISIONS.write(context.folder, partition, columns) | ids, {"ids": len(ids)})


def write_ids(context: TaskContext[FileJob], layout: Layout, partition: int, documents: Numbers) -> dict[str, FileFact]:
    """Write the ids of some documents of a partition, and of those that `contamination.parquet` names, if documents
    have ids: a file for each run of one type.
    """
    job, column, parts = context.job, context.job.columns.id, []
    if column is None:
        return {}
    documents = merged_distinct([documents, contamination_positions(context, layout, partition)])
    for number in sorted_distinct(layout.file_of(documents)).tolist():
        file, (start, stop) = job.files[number], layout.file_bounds(number)
        here = documents[slice_between(documents, start, stop)]
        with job.stamps.unchanged([number]):
            values = format_of(file).values(file, column, here - start)
        parts.append((here, plain_values(values)))
    made: dict[str, FileFact] = {}
    for number, (_, run) in enumerate(groupby(parts, lambda part: part[1].type)):
        known, ids = zip(*run, strict=True)
        made |= ids_table(number).write(context.folder, partition, Ids(np.concatenate(known), pa.concat_arrays(ids)))
    return made


STAGE = "write"
RUN_FILES, RUN_BYTES = 512, 8 << 20  # of one task: each step costs as much as some small files
MANY_FILES = 256  # only one run of so many at a time: threads would spend their time waiting for Python's lock
BRIEF_BYTES = 1 << 20  # of text; smaller results are soon written again

_turn = Lock()


def written_files(job: Job) -> list[int]:
    """The numbers of the files whose kept rows are results."""
    return [] if job.write == "duplicates" else job.own_files()


def file_runs(job: FileJob, numbers: Sequence[int]) -> Iterator[range]:
    """The files of ascending numbers, in runs of neighbours that one task writes; a large file is alone."""
    most = min(RUN_BYTES, job.cut.partition)
    sizes = [size if isinstance(size := job.stamps.known[number][0], int) else most for number in numbers]
    bounds = np.flatnonzero(np.diff(numbers, prepend=-2, append=-2) != 1).tolist()
    for first, last in pairwise(bounds):
        for start, stop in row_ranges(offsets(sizes[first:last]), most, RUN_FILES):
            yield range(numbers[first + start], numbers[first + stop - 1] + 1)


def step_of_run(numbers: range, stage: str = STAGE) -> str:
    """The name of the step that writes a run of files."""
    step = step_of(stage, numbers[0])
    return step if len(numbers) == 1 else f"{step}-{len(numbers)}"


def write_files(
    context: JobContext, layout: Layout, numbers: range, ids: tuple[Sequence[int], pa.DataType] | None
) -> TaskResult:
    """Write the kept rows of the files of these numbers; of a file of one document that is dropped nothing is written.

    With `ids`, the number of files of ids of each partition and the type of ids, columns are added to the rows.

    Their names in `data/` are made durable with all others, before results are published: that takes long, and small
    files may be many.
    """
    bounds = layout.files[numbers.start : numbers.stop + 1]
    start, job, limit = int(bounds[0]), context.job, context.job.limit(context.parallel)
    several_sources = job.policy.retention.min_sources > 1
    keep, size, has_large = _kept_between(context, layout, bounds)
    bad = read_rejected(context.folder, layout, numbers)
    parts = [slice(*part) for part in pairwise(bounds - start)]

    def by_file(rows: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
        return [bad.without_rejected(rows[part], number) for number, part in zip(numbers, parts, strict=True)]

    kept = valid = shown = by_file(keep)
    if job.write == "marked" or job.format is not None:
        valid = by_file(np.ones(len(keep), bool))
    if job.write == "marked":
        shown = valid
    added = None
    if ids is not None:
        marked = MarkedRows(job, context.folder, layout, *ids)
        added = marked.added_columns(start + np.flatnonzero(np.concatenate(shown)))
    targets, names, kept_rows = Targets(context.folder / DATA), dict[str, str](), dict[str, int]()
    with _turn if len(numbers) >= MANY_FILES else nullcontext(), DurableFiles(context.folder) as made:
        with context.unchanged(numbers):
            for number, large, stays, typed, rows in zip(numbers, has_large, kept, valid, shown, strict=True):
                file = job.files[number]
                if several_sources:
                    kept_rows[str(number)] = int(stays.sum())
                if not len(rows) and bad.has_rejected(number):  # so damaged that no row is known
                    continue
                target = targets.of(file)
                names[target] = f"{DATA}/{file.relative}"
                # Not in `data/`: a killed attempt leaves no result.
                part = made.part(f"{context.folder}/{step_of(STAGE, number)}", target)
                known = KnownTexts(job.columns, partial(_held_texts, context, number))
                how: WriteOptions = {"limit": limit, "codec": job.codec, "known": known, "typed": typed, "added": added}
                how |= {"large_texts": large}
                write_kept(job.format, job.columns, file, rows, part, **how)
        facts = made.complete()
    dropped = len(keep) - int(keep.sum())
    context.progress.advance(len(keep))
    context.progress.count(size=size, dropped=dropped)
    of_all = {"amount": len(keep), "bytes": size, "dropped": dropped, "kept": kept_rows}
    return TaskResult({names[path]: fact for path, fact in facts.items()}, of_all, brief=size < BRIEF_BYTES)


def _kept_between(
    context: JobContext, layout: Layout, bounds: Numbers
) -> tuple[NDArray[np.bool_], int, Sequence[bool]]:
    """bool [n]: which of the n documents are kept, of the files with these `bounds`.

    Also the bytes of all their texts; and for each file, whether it has a text of LARGE_TEXT or more.
    """
    start, stop = int(bounds[0]), int(bounds[-1])
    keep, size = np.full(stop - start, context.job.policy.retention.min_sources == 1), 0
    has_large = np.zeros(len(bounds) - 1, np.bool_)
    first = max(int(np.searchsorted(layout.partitions, start, side="right")) - 1, 0)
    for partition in range(first, int(np.searchsorted(layout.partitions, stop, side="left"))):
        documents, stays = read_kept(context.folder, partition, start, stop)
        keep[documents - start] = stays
        begin, end = layout.bounds(partition)
        contaminated = contaminated_rows(context, partition) + begin
        keep[contaminated[slice_between(contaminated, start, stop)] - start] = False
        first_here = max(start, begin)
        sizes = tables.SIZES.read(context.folder, partition).size[first_here - begin : min(stop, end) - begin]
        size += int(sizes.sum())
        has_large[row_of(bounds, first_here + np.flatnonzero(sizes >= LARGE_TEXT))] = True
    return keep, size, has_large.tolist()


def read_kept(folder: Path, partition: int, start: int, stop: int) -> tuple[Numbers, NDArray[np.bool_]]:
    """The documents of a partition in [start, stop) with a decision, ascending, and whether each is kept."""
    decided = tables.DECISIONS.read(folder, partition)
    some = slice_between(decided.document, start, stop)
    return decided.document[some], decided.kept[some]


def _held_texts(context: JobContext, number: int, part: Part) -> list[pa.Array] | None:
    """The texts of a part as `sign` decoded them, if all are arrays."""
    held = None if context.held is None else context.held.find(Piece(number, part))
    arrays = [array_of(texts) for _, texts in held or ()]
    known = [array for array in arrays if array is not None]
    return known if held is not None and len(known) == len(arrays) else None


ROWS_AT_ONCE, CLUSTERS_AT_ONCE = 1 << 16, 1 << 14
REASONS = ("key", "exact", "near")
KEY, EXACT, NEAR = range(3)
SMALL_BYTES = 64 << 20  # of ids: fewer are held at once without looking at each


def write_evidence(context: JobContext, layout: Layout, id_files: Sequence[int], ranges: Ranges) -> TaskResult:
    """Write the evidence; `id_files` is the number of files of ids of each partition."""
    job, folder, partitions = context.job, context.folder, len(layout.partitions) - 1
    bad = read_rejected(folder, layout)
    earlier = EarlierKeys(folder, partitions, by_id=job.earlier.key is not None) if job.earlier else None
    ids = IdColumn.of(job, folder, layout, id_files, bad, earlier.kinds() if earlier else ())
    schema = result_schema(DUPLICATES if job.key is None else (*DUPLICATES, REASON), ids.type)
    reasons = None if job.key is None else _reasons(folder, ranges, job.policy.by_source())

    def locate(positions: Numbers) -> list[pa.Array]:
        return [*job.file_and_row(layout, positions), ids.at(positions)]

    def row_tables() -> Iterator[pa.Table]:
        for partition, (document, target, *rest) in _dropped_rows(folder, partitions, ids):
            own = target >= 0
            of_kept = locate(target[own])
            if earlier is not None and not own.all():
                of_earlier = earlier.where(partition, ~target[~own], ids.type)
                back = np.argsort(np.concatenate([np.flatnonzero(own), np.flatnonzero(~own)]))
                parts = zip(of_kept, of_earlier, strict=True)
                of_kept = [take_rows(pa.concat_arrays(columns), back) for columns in parts]
            reason = [] if reasons is None else [reasons(document, target)]
            yield pa.table([*locate(document), *of_kept, *map(to_arrow, rest), *reason], schema)

    made = write_result(folder, EVIDENCE, schema, row_tables(), ("id", "duplicate_of_id"))
    made |= write_rejected(folder, bad, job)
    bad_rows = {"rejected_rows": bad.rows, "rejected_protected": bad.rows_before(job.protected_files)}
    return TaskResult(made, {"amount": 0, "records": bad.records, **bad_rows})


def _reasons(folder: Path, ranges: Ranges, by_source: bool) -> Callable[[Numbers, Numbers], pa.Array]:
    """A function that gives REASON, a pyarrow.StringArray, of documents and those that they are dropped for."""
    keyed = [file.whole() for file in tables.KEY_COPIES.open_all(folder, ranges.keys)]
    copies = [file.whole() for file in tables.COPIES.open_all(folder, ranges.copies)]
    twins = [file.whole() for file in tables.TWINS.open_all(folder, ranges.copies if by_source else 0)]

    def first_of_words(documents: Numbers) -> Numbers:
        """The first document with the words of each, of all sources."""
        for files in (copies, twins):
            known_first, documents = documents, documents.copy()
            for known, of in files:
                rows, at = find_sorted(known, known_first)
                documents[rows] = of[at]
        return documents

    def reasons(documents: Numbers, targets: Numbers) -> pa.Array:
        found = np.where(first_of_words(documents) == first_of_words(targets), EXACT, NEAR)
        for known, _ in keyed:
            found[find_sorted(known, documents)[0]] = KEY
        return string_array(REASONS).take(to_arrow(found))

    return reasons


def _dropped_rows(folder: Path, partitions: int, ids: IdColumn) -> Iterator[tuple[int, list[Values]]]:
    """Dropped documents in order, some of a partition at a time: document, duplicate_of, similarity, cluster.

    Their ids take about BLOCK_BYTES at most.
    """
    for partition in range(partitions):
        decided = tables.DECISIONS.read(folder, partition)
        dropped = np.flatnonzero(decided.document != decided.duplicate_of)
        for start in range(0, len(dropped), ROWS_AT_ONCE):
            rows = dropped[start : start + ROWS_AT_ONCE]
            columns = [column[rows] for column in decided[:4]]
            pieces: Iterable[tuple[int, int]] = [(0, len(columns[0]))]
            if 2 * ids.largest * len(columns[0]) > SMALL_BYTES:
                document, target = decided.document[rows], decided.duplicate_of[rows]
                sizes = ids.sizes(document)
                sizes[target >= 0] += ids.sizes(target[target >= 0])
                pieces = batch_cuts(offsets(sizes), BLOCK_BYTES)
            for first, last in pieces:
                yield partition, [column[first:last] for column in columns]


def write_clusters(context: JobContext, layout: Layout, id_files: Sequence[int]) -> TaskResult:
    """Write the counts; `id_files` as in `evidence`."""
    job, partitions = context.job, len(layout.partitions) - 1
    ids = IdColumn.of(job, context.folder, layout, id_files, read_rejected(context.folder, layout))
    marked = MarkedRows(job, context.folder, layout, id_files, ids.type)
    rows = (*CLUSTERS, *([WEIGHT] if job.counting.weights is not None else []))
    schema = result_schema(rows, ids.type)
    names = [name for name in schema.names if name not in ("file", "row", "id")]

    def row_tables() -> Iterator[pa.Table]:
        for partition in range(partitions):
            decided = tables.DECISIONS.read(context.folder, partition)
            counted = decided.kept & (decided.component > 1) & (decided.document >= layout.protected)
            found = decided.document[np.flatnonzero(counted)]
            for start in range(0, len(found), CLUSTERS_AT_ONCE):
                some = found[start : start + CLUSTERS_AT_ONCE]
                yield pa.table([*marked.where(some).values(), *marked.columns(some, names)], schema=schema)

    return TaskResult(write_result(context.folder, COUNTED, schema, row_tables(), ("id",)), {"amount": 0})
