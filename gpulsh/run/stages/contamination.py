"""Find documents that hold items of a test set, with `--passages`.

protect        all protected files: the index of their windows -> ITEM_WINDOWS, ITEM_PLACES, ITEM_TOKENS, ITEM_FLAGS
screen         a partition: its documents that hold items -> HELD, with marks also -> HELD_SPANS
contamination  all: `contamination.parquet`, a row for each document and item that it holds, in input order

In a run that drops these documents, `protect` and `screen` come before `sign`, which skips them, so no document is
dropped for them. Each task maps the index, so the tasks of a machine share one copy of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.parallel import map_batches
from gpulsh.backends.protocol import Backend
from gpulsh.io.arrow.buffers import string_array, to_arrow
from gpulsh.io.files.file_texts import Partition, PartitionFacts, Piece
from gpulsh.io.rows import normalized
from gpulsh.ragged import first_of_runs
from gpulsh.repeats.benchmark import Benchmark, Matches, index_items
from gpulsh.repeats.places import byte_spans
from gpulsh.run.job import FileJob, Layout, TaskContext, TaskResult
from gpulsh.run.records import tables
from gpulsh.run.records.documents import read_rejected, reading_facts
from gpulsh.run.records.results import IdColumn, result_schema, write_result
from gpulsh.stats.counts import CONTAMINATION
from gpulsh.store.durable import FileFact
from gpulsh.text.documents import TextReading

PROTECT = "protect"  # the step
ITEMS: Sequence[tables.Table[Any]] = tables.ITEM_WINDOWS, tables.ITEM_PLACES, tables.ITEM_TOKENS, tables.ITEM_FLAGS
FILE = "contamination.parquet"
ROWS_AT_ONCE = 1 << 16
SHARE = 4  # of the memory, the part for the index
SHARD = re.compile(r"[-_.]\d+([-_]of[-_]\d+)?$")  # as in test-00000-of-00001


ScreeningContext = TaskContext[FileJob]
HeldRows = tuple[tables.HeldItems, tables.HeldSpans]


def index_protected_items(context: ScreeningContext, pieces: Sequence[Piece]) -> TaskResult:
    """Index the items in all protected files."""
    screening, facts = context.job.screening, PartitionFacts()
    assert screening is not None
    with context.unchanged_pieces(pieces):
        batches = context.read(pieces, facts, partial(normalized, form=screening.folding.form))
        given = screening.shingling, context.keys, screening.overlap, context.job.cut.memory // SHARE
        found = index_items(context.ops, batches, *given)
    made: dict[str, FileFact] = {}
    for table, rows in zip(ITEMS, (found.windows, found.places, found.items, found.flags), strict=True):
        made |= table.write(context.folder, PROTECT, rows)
    return TaskResult(made, {"amount": facts.bytes, "documents": len(found.items.counted)})


def screen_partition(context: ScreeningContext, partition: Partition) -> TaskResult:
    """Find the documents of a partition that hold items; protected ones are left out."""
    job, screening, where = context.job, context.job.screening, (context.folder, partition.number)
    assert screening is not None
    if not screening.marks and all(job.protects(piece.file) for piece in partition.pieces):
        return TaskResult(tables.HELD.write(*where, tables.HELD.empty()), {"amount": 0})
    facts, reading, folding = PartitionFacts(), screening.shingling, screening.folding
    index = Benchmark(screening.overlap, *(table.read(context.folder, PROTECT) for table in ITEMS))

    def measure(ops: Backend, text: TextBatch, matches: Matches) -> HeldRows:
        how = TextReading(ops=ops, shingling=reading, folding=folding)
        found, spans = index.cover(matches) if screening.marks else (index.find(matches), None)
        places = byte_spans(how, text, found.row, found.first, found.stop)
        items = tables.HeldItems(found.row, found.item, found.coverage, *places.T)
        marked = tables.HELD_SPANS.empty()
        if spans is not None:
            start, stop = byte_spans(how, text, spans.row, spans.first, spans.stop).T
            marked = tables.HeldSpans(spans.row, start, stop, spans.stop - spans.first, spans.item)
        return items, marked

    def find(ops: Backend, text: TextBatch) -> tuple[int, list[HeldRows], list[Callable[[], HeldRows]]]:
        """The number of documents of a batch, the first part of its rows, and functions that make the other parts.

        Near-copies of an item make many rows. So a part is made when the part before is written.
        """
        parts = index.matches(ops, normalized(text, folding.form), reading, context.keys)
        first = [measure(ops, text, part) for part in parts[:1]]
        return len(text), first, [partial(measure, context.ops, text, part) for part in parts[1:]]

    marks, dropped = list[tables.HeldSpans](), 0
    protected, own = (
        [piece for piece in partition.pieces if job.protects(piece.file) == protects] for protects in (True, False)
    )
    with (
        context.unchanged_pieces(partition.pieces),
        context.ops.use_device(),
        tables.HELD.create(*where) as out,
    ):
        documents = sum(map(len, context.read(protected, facts)))  # they hold themselves
        for count, first, others in map_batches(context.ops, context.read(own, facts), find):
            for items, marked in chain(first, (make() for make in others)):
                out.append(items._replace(row=items.row + documents))
                marks.append(marked._replace(row=marked.row + documents))
                dropped += int(np.count_nonzero(first_of_runs(items.row)))
            documents += count
        made = out.finish_by_name()
    if screening.marks:
        made |= tables.HELD_SPANS.write(*where, tables.HELD_SPANS.joined(marks))
        dropped = 0
    return TaskResult(made, {**reading_facts(facts, {}), "dropped": dropped})


def write_contamination(context: ScreeningContext, layout: Layout, id_files: Sequence[int]) -> TaskResult:
    """Write the items found. Items are the first of all documents, in the order of the protected files.

    `id_files` is the number of files of ids of each partition.
    """
    job, splits = context.job, string_array([split_of(file.relative) for file in context.job.files])
    ids = IdColumn.of(job, context.folder, layout, id_files, read_rejected(context.folder, layout))
    schema = result_schema(CONTAMINATION, ids.type)

    def locate(positions: Numbers) -> list[pa.Array]:
        return [*job.file_and_row(layout, positions), ids.at(positions)]

    def row_tables() -> Iterator[pa.Table]:
        for partition, start in enumerate(layout.partitions[:-1].tolist()):
            held = tables.HELD.open(context.folder, partition)
            for run in held.runs():
                for first in range(0, len(run.row), ROWS_AT_ONCE):
                    some = tables.HELD.rows(run, slice(first, first + ROWS_AT_ONCE))
                    split = splits.take(to_arrow(layout.file_of(some.item)))
                    coverage, *places = map(to_arrow, some[2:])
                    columns = [*locate(some.item), split, coverage, *locate(some.row + start), *places]
                    yield pa.table(columns, schema)
                held.release()

    made = write_result(context.folder, FILE, schema, row_tables(), ("item_id", "id"))
    return TaskResult(made, {"amount": 0})


def split_of(name: str) -> str:
    """The split of a file: its name without folders, endings and the number of a shard.

    >>> [
    ...     split_of(name)
    ...     for name in ("mmlu/test.jsonl.gz", "data/test-00000-of-00001.parquet", "gsm8k_dev.csv")
    ... ]
    ['test', 'test', 'gsm8k_dev']
    """
    stem = name.rstrip("/").rpartition("/")[2]
    stem = stem.partition(".")[0] or stem
    return SHARD.sub("", stem) or stem
