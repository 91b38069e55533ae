"""Write texts without passages.

cut          a run of files: their rows, without the passages that occur often enough; documents left with few tokens
             are dropped
list         all: `short.parquet`, a row for each dropped document in input order
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.checks import plural
from gpulsh.errors import GpulshError, InputError, ParameterError, first_line
from gpulsh.io.arrow.buffers import number_values, string_array, to_arrow
from gpulsh.io.columns import Columns
from gpulsh.io.conversion import FormatName, write_kept
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import FileTexts, PartitionFacts, Piece
from gpulsh.io.files.no_documents import DATA, SHORT
from gpulsh.io.files.places import Targets
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.io.files.rejected import Rejected
from gpulsh.io.format import LARGE_TEXT, Cuts
from gpulsh.io.formats.arrow_ipc import Ipc
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.jsonl import JsonLines
from gpulsh.io.formats.parquet import Parquet
from gpulsh.io.formats.warc import Warc
from gpulsh.io.rows import normalized
from gpulsh.params import Folding, Shingling
from gpulsh.ragged import distinct, mask_of, select_rows, slice_between
from gpulsh.repeats.cut import remove_spans
from gpulsh.run.driver import Stages
from gpulsh.run.job import OnError, Task, TaskContext, TaskResult, step_of
from gpulsh.run.output.paths import with_mark
from gpulsh.run.passages.evidence import FILE, PARAMETERS
from gpulsh.run.passages.job import CutJob, PassagesJob
from gpulsh.run.records.results import write_result
from gpulsh.run.records.tables import Table
from gpulsh.run.stages.write import BRIEF_BYTES, file_runs, step_of_run
from gpulsh.store.columns import Column
from gpulsh.store.durable import DurableFiles

STAGE, SHORT_LIST = "cut", "short"  # the step that lists is of the stage `list`
NEEDED_COLUMNS = ("file", "row", "start", "stop", "occurrences")
ORDERED_AT_ONCE = 1 << 20  # passages


class ShortRows(NamedTuple):
    """Rows of files, by number, that are dropped, ascending, and the tokens left of each."""

    file: Numbers
    row: Numbers
    tokens: Numbers


SHORTS = Table(STAGE, "short", ShortRows)

CutContext = TaskContext[PassagesJob | CutJob]


def refuse_uncuttable(files: Sequence[File], columns: Columns, format: FormatName | None) -> None:
    """ParameterError if texts cannot be written without passages."""
    if len(columns.texts) > 1:
        raise ParameterError(
            f"--text-column names {len(columns.texts)} columns, and a cut changes only one; find passages in one"
        )
    for file in files:
        kind = format_of(file)
        in_columns = isinstance(kind, (Parquet, Ipc)) or (isinstance(kind, JsonLines) and format == "parquet")
        if columns.text_column is None and in_columns:
            raise ParameterError(
                f"{file.name}: its text is the field {columns.text!r}, which a cut changes only in JSON lines; give"
                " JSON lines, without --format parquet"
            )
        if format is None and isinstance(kind, Warc):
            raise ParameterError(
                f"{file.name}: is WARC, whose records are never changed; give --format jsonl or parquet"
            )


def passages_by_file(path: Path, files: Mapping[int, File]) -> Mapping[int, tuple[int, int]]:
    """By the number of each file, its rows [start, stop) in `passages.parquet`; InputError if that lists others."""
    shown = string_array([file.name for file in files.values()])  # distinct (`io.files.places`)
    numbered = dict(zip(shown.to_pylist(), files, strict=True))
    with _open_passages(path) as source:
        names = (name for batch in source.iter_batches(columns=["file"]) for name in batch.column(0).to_pylist())
        runs = [(name, sum(1 for _ in rows)) for name, rows in groupby(names)]  # a file may have millions
    strange = [name for name, _ in runs if name not in numbered]
    if strange:
        raise InputError(f"{path}: lists passages of {strange[0]}, which is not an INPUT; give the INPUT of that run")
    order, counts = [numbered[name] for name, _ in runs], dict(runs)
    if order != sorted(set(order)):
        raise _other_order(path)
    found, row = {}, 0
    for name, number in numbered.items():
        before, row = row, row + counts.get(name, 0)
        found[number] = (before, row)
    return found


def _other_order(path: Path) -> InputError:
    return InputError(f"{path}: its rows are in another order than INPUT; give the {FILE} and the INPUT of one run")


def reading_of(path: Path) -> tuple[ReadOptions, OnError, Columns, Shingling, Folding]:
    """How the run that wrote `passages.parquet` read its files; InputError if no run did."""
    with _open_passages(path) as source:
        schema = source.schema_arrow
        written = (schema.metadata or {}).get(PARAMETERS)
        if written is None or any(name not in schema.names for name in NEEDED_COLUMNS):
            raise InputError(f"{path}: was not written by `gpulsh passages`; give OUT/{FILE} of such a run")
    try:
        found = json.loads(written)
        options, on_error = ReadOptions.taken_from(found), found.get("on_error", "fail")
        unit = Shingling(unit=found["unit"], symbols=found["symbols"])
        return options, on_error, Columns(text=found["text_column"]), unit, Folding(**found["folding"])
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise InputError(f"{path}: its metadata is damaged; give OUT/{FILE} of a run of `gpulsh passages`") from error


@contextmanager
def _open_passages(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        with File(str(path), path.name, str(path)).open_arrow() as file, pq.ParquetFile(file) as source:
            yield source
    except GpulshError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: a lone surrogate in the path
        if isinstance(error, FileNotFoundError):
            reason = "no such file"
        else:
            reason = "is a folder" if path.is_dir() else f"cannot be read: {first_line(error)}"
        raise InputError(f"{path}: {reason}; give OUT/{FILE} of a run of `gpulsh passages`") from error


def _read_passages(path: Path, first: int, last: int, least: int, folder: Path) -> list[Numbers]:
    """Number, row, start and stop of the passages in rows [first, last) that occur at least so often.

    They are mapped from files without a name in `folder`; memory holds one row group.
    """
    columns = [Column(np.int64, folder) for _ in range(4)]
    start = 0
    with _open_passages(path) as source:
        for group in range(source.num_row_groups):
            count = source.metadata.row_group(group).num_rows
            low, high = max(first - start, 0), min(last - start, count)
            if low < high:
                table = source.read_row_group(
                    group, columns=list(NEEDED_COLUMNS[1:]), use_threads=False
                ).combine_chunks()
                for column, name in zip(table.columns, NEEDED_COLUMNS[1:], strict=True):
                    if column.type != pa.int64() or column.null_count:
                        raise InputError(f"{path}: column {name} is not int64 without nulls; give the {FILE} of a run")
                *spans, occurrences = (number_values(column.chunk(0)) for column in table.columns)
                often = low + np.flatnonzero(occurrences[low:high] >= least)
                for out, values in zip(columns, (start + often, *(span[often] for span in spans)), strict=True):
                    out.append(values)
            start += count
    return [column.whole() for column in columns]


def _is_ordered(row: Numbers, begin: Numbers) -> bool:
    """Whether spans ascend by row, then begin. Memory holds some of them."""
    for first in range(0, len(row), ORDERED_AT_ONCE):
        here = slice(first, first + ORDERED_AT_ONCE + 1)  # with the next one
        of, at = row[here], begin[here]
        if np.any((of[1:] < of[:-1]) | ((of[1:] == of[:-1]) & (at[1:] < at[:-1]))):
            return False
    return True


def cut_files(
    context: CutContext, path: Path, rows: Sequence[tuple[int, int]], numbers: range, pieces: Sequence[Sequence[Piece]]
) -> TaskResult:
    """Write the files of these numbers, each without the passages in its `rows` of `passages.parquet`."""
    job, targets = context.job, Targets(context.folder / DATA)
    assert job.cutting is not None
    listed, *spans = _read_passages(path, rows[0][0], rows[-1][1], job.cutting.min_occurrences, context.folder)
    shorts, counts, names, texts = list[ShortRows](), Counter[str](), dict[str, str](), context.texts()
    with DurableFiles(context.folder) as made:
        with context.unchanged(numbers):
            for number, (start, stop), found in zip(numbers, rows, pieces, strict=True):
                here = slice_between(listed, start, stop)
                row, begin, end = (column[here] for column in spans)
                if not _is_ordered(row, begin):
                    raise _other_order(path)
                cuts, target = Cuts(row, begin, end, job.columns), targets.of(job.files[number])
                names[target] = f"{DATA}/{job.files[number].relative}"
                short, facts = _cut_file(context, path, texts, number, found, cuts, made, target)
                shorts.append(short)
                counts.update(facts)
        files = {names[target]: fact for target, fact in made.complete().items()}
    files |= SHORTS.write(context.folder, step_of_run(numbers, STAGE), SHORTS.joined(shorts))
    return TaskResult(files, {"amount": counts["rows"], **counts}, brief=counts["bytes"] < BRIEF_BYTES)


def _cut_file(
    context: CutContext,
    path: Path,
    texts: FileTexts,
    number: int,
    pieces: Sequence[Piece],
    cuts: Cuts,
    made: DurableFiles,
    target: str,
) -> tuple[ShortRows, Mapping[str, int]]:
    """Write a file without the `cuts`, which `path` lists; its dropped rows, and counts."""
    job, file = context.job, context.job.files[number]
    assert job.cutting is not None
    rejected: list[pa.RecordBatch] = []
    found, facts, count = list[ShortRows](), PartitionFacts(rejected=rejected), 0
    for batch in texts.read(pieces, context.ops.sizes().batch, facts):
        here = slice_between(cuts.row, count, count + len(batch))
        if here.start < here.stop:
            found.append(_short_rows(context, number, batch, cuts, here, count))
        count += len(batch)
        context.progress.advance(len(batch))
        del batch  # before the file is read again
    if len(cuts.row) and cuts.row[-1] >= count:
        raise InputError(f"{file.name}: has {plural(count, 'row')}, and {path} lists passages of row {cuts.row[-1]}")
    short, bad = SHORTS.joined(found), Rejected(rejected)
    keep = ~mask_of(short.row, count)
    if count or not bad.has_rejected(number):  # of a file so damaged that no row is known is nothing
        part = made.part(f"{context.folder}/{step_of(STAGE, number)}", target)
        large = any(np.any(sizes >= LARGE_TEXT) for sizes in facts.sizes)
        how: Any = {"limit": job.limit(context.parallel), "cuts": cuts, "large_texts": large}
        write_kept(job.cutting.format, job.columns, file, bad.without_rejected(keep, number), part, **how)
    return short, {
        "rows": count,
        "bytes": facts.bytes,
        "cut_bytes": int(cuts.stop.sum()) - int(cuts.start.sum()),
        "cut_passages": len(cuts.row),
        "cut_documents": len(distinct(cuts.row)),
        "short": len(short.row),
    }


def _short_rows(context: CutContext, number: int, batch: TextBatch, cuts: Cuts, here: slice, first: int) -> ShortRows:
    """The documents of a batch of a file, from row `first` on, that a cut leaves with too few tokens."""
    job, ops, file = context.job, context.ops, context.job.files[number]
    cutting = job.cutting
    assert cutting is not None
    row = cuts.row[here] - first
    changed = distinct(row)
    try:
        some = select_rows(batch, changed)
        left = remove_spans(ops, some, np.searchsorted(changed, row), cuts.start[here], cuts.stop[here])
    except ParameterError as error:
        raise InputError(f"{file.name}: is not as it was when its passages were found: {error.message}") from error
    text = normalized(left, job.folding.form)
    tokens: Numbers = ops.asnumpy(ops.tokens(text, job.shingling).lengths).astype(np.int64)
    few = tokens < cutting.min_left
    return ShortRows(np.full(int(few.sum()), number), changed[few] + first, tokens[few])


def list_short(context: CutContext) -> TaskResult:
    """List the documents that were dropped."""
    schema = with_mark(pa.schema([("file", pa.string()), ("row", pa.int64()), ("tokens", pa.int64())]))

    def tables() -> Iterator[pa.Table]:
        for numbers in file_runs(context.job, context.job.own_files()):
            file, *others = map(to_arrow, SHORTS.read(context.folder, step_of_run(numbers, STAGE)))
            yield pa.table([context.job.file_names.take(file), *others], schema)

    return TaskResult(write_result(context.folder, SHORT, schema, tables()))


def cut_all(job: PassagesJob | CutJob, ops: Backend, stages: Stages, path: Path) -> Mapping[str, int]:
    """Write all files without the passages that `path` lists; counts."""
    whole = job.texts(ops).partitions(1 << 62, job.earlier_files)
    pieces: dict[int, list[Piece]] = {number: [] for number in job.own_files()}
    for piece in (piece for partition in whole for piece in partition.pieces if piece.file in pieces):
        pieces[piece.file].append(piece)
    rows = passages_by_file(path, {number: job.files[number] for number in pieces})
    tasks = []
    for numbers in file_runs(job, list(pieces)):
        given = path.absolute(), [rows[number] for number in numbers], numbers, [pieces[number] for number in numbers]
        tasks.append(Task(step_of_run(numbers, STAGE), cut_files, given))
    facts = stages.run_tasks(STAGE, tasks, parallel=True)
    stages.run_tasks("list", [Task(SHORT_LIST, list_short)])
    names = ("rows", "cut_passages", "cut_documents", "cut_bytes", "short")
    return {name: sum(int(fact[name]) for fact in facts) for name in names}
