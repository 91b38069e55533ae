"""The passages as results.

collect      a partition: its passages with the documents of first occurrences -> PASSAGES, and its documents' ids
list         all: `passages.parquet`, a row per passage in input order

A report shows the passages that take up most tokens, with the beginning of each text. An entry has occurrences, tokens,
first place, document, start, stop and text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from gpulsh.io.arrow.buffers import to_arrow
from gpulsh.io.files.file_texts import Partition
from gpulsh.ragged import distinct, find_sorted, mask_of, sorted_distinct
from gpulsh.run.job import Layout, TaskResult
from gpulsh.run.output.paths import with_mark
from gpulsh.run.passages.documents import PlacedRows, chosen_texts
from gpulsh.run.passages.job import PassagesContext
from gpulsh.run.passages.tables import BYTES, FIRST_PLACES, PASSAGES, ByteStretches, Passages
from gpulsh.run.records.documents import read_rejected, write_rejected
from gpulsh.run.records.results import IdColumn, write_result
from gpulsh.run.stages.write import write_ids

LIST = "list"  # the step
FILE = "passages.parquet"
PARAMETERS = b"gpulsh.passages"  # of the schema's metadata
COLUMNS = ("file", "row", "id", "start", "stop", "first_file", "first_row", "first_start", "tokens", "occurrences")
ROWS_AT_ONCE = 1 << 16
MAX_CANDIDATES, MAX_LISTED, SHOWN_BYTES = 60, 20, 400  # candidates for the report, passages in it, and bytes of each

Entry = list[Any]


def collect_firsts(context: PassagesContext, layout: Layout, places: Layout, partition: int) -> TaskResult:
    """Bring first occurrences to the passages of a partition."""
    named, first_earlier = [np.empty(0, np.int64)], 0
    has_ids, new = context.job.columns.id is not None, layout.partitions[context.job.earlier_partitions]
    with PASSAGES.create(context.folder, partition) as out:
        file = BYTES.open(context.folder, partition)
        for run in file.runs():
            document, start = np.full_like(run.first, -1), np.full_like(run.first, -1)
            repeats = np.flatnonzero(run.first >= 0)
            repeats = repeats[np.argsort(run.first[repeats], kind="stable")]
            first = run.first[repeats]
            for number, part in places.by_partition(first):
                low, high = int(first[part][0]), int(first[part][-1]) + 1
                for known in PlacedRows(FIRST_PLACES, context.folder, [number], low, high).runs(low, high):
                    there, at = find_sorted(known.place, first[part])
                    rows = repeats[part][there]
                    document[rows], start[rows] = known.document[at], known.start[at]
            columns = run.document, run.start, run.stop, document, start, run.tokens, run.occurrences
            out.append(Passages(*columns))
            if has_ids:
                named.append(sorted_distinct(run.document))
            file.release()
            first_earlier += int(((document >= 0) & (document < new)).sum())
        made = out.finish_by_name()
    ids = write_ids(context, layout, partition, distinct(np.concatenate(named)))
    return TaskResult(made | ids, {"ids": len(ids), "first_earlier": first_earlier})


def write_list(context: PassagesContext, layout: Layout, id_files: Sequence[int]) -> TaskResult:
    """Write all passages; `id_files` is the number of files of ids of each partition."""
    job, bad = context.job, read_rejected(context.folder, layout)
    ids = IdColumn.of(job, context.folder, layout, id_files, bad)
    kinds = {"file": pa.string(), "first_file": pa.string(), "id": ids.type}
    schema = pa.schema([(name, kinds.get(name, pa.int64())) for name in COLUMNS])
    parameters = replace(job, index=None).parameters()  # the bytes do not depend on the place of the index
    schema = with_mark(schema.with_metadata({PARAMETERS: json.dumps(parameters)}))

    def tables() -> Iterator[pa.Table]:
        for run in _passage_rows(context, range(job.earlier_partitions, len(layout.partitions) - 1)):
            none = run.first_document < 0
            columns = [
                *(*job.file_and_row(layout, run.document), ids.at(run.document)),
                *(to_arrow(run.start), to_arrow(run.stop)),
                *(*job.file_and_row(layout, run.first_document, none), to_arrow(run.first_start, none)),
                *(to_arrow(run.tokens), to_arrow(run.occurrences)),
            ]
            yield pa.table(columns, schema)

    made = write_result(context.folder, FILE, schema, tables(), ("id",))
    made |= write_rejected(context.folder, bad, job)
    return TaskResult(made, {"rejected": bad.records, "rejected_rows": bad.rows})


def _passage_rows(context: PassagesContext, partitions: Sequence[int]) -> Iterator[Passages]:
    for partition in partitions:
        file = PASSAGES.open(context.folder, partition)
        for run in file.runs():
            for start in range(0, len(run.document), ROWS_AT_ONCE):
                yield PASSAGES.rows(run, slice(start, start + ROWS_AT_ONCE))
            file.release()


def frequent_candidates(passages: ByteStretches) -> list[Entry]:
    """Passages that may be among the most frequent, without texts; the longest for each first occurrence."""
    repeats = np.flatnonzero(passages.first >= 0)
    weight = passages.occurrences[repeats] * passages.tokens[repeats]
    order = repeats[np.argsort(-weight, kind="stable")]
    _, at = np.unique(passages.first[order], return_index=True)
    chosen = order[np.sort(at)[:MAX_CANDIDATES]]
    columns = (
        *(passages.occurrences, passages.tokens, passages.first),
        *(passages.document, passages.start, passages.stop),
    )
    return [[*numbers, ""] for numbers in zip(*(column[chosen].tolist() for column in columns), strict=True)]


def with_texts(entries: Sequence[Entry], text_of: Callable[[int], Any]) -> list[Entry]:
    """The entries with their texts; `text_of` gives the bytes of a document, by its position."""
    found = []
    for *numbers, _ in entries:
        document, start, stop = numbers[3:]
        text = bytes(text_of(document)[start : min(stop, start + SHOWN_BYTES)])
        found.append([*numbers, text.decode("utf-8", "replace")])
    return found


def with_reread_texts(
    entries: Sequence[Entry], context: PassagesContext, layout: Layout, partition: Partition
) -> list[Entry]:
    """The entries by document, with their texts; the documents of the partition are read again."""
    start, stop = layout.bounds(partition.number)
    wanted = mask_of([one[3] - start for one in entries], stop - start)
    found: list[Entry] = []
    with context.unchanged_pieces(partition.pieces):
        texts = chain.from_iterable(chosen_texts(context, layout, partition, wanted))
        for document, text in zip((np.flatnonzero(wanted) + start).tolist(), texts, strict=True):  # they may be long
            found += with_texts([one for one in entries if one[3] == document], {document: text}.__getitem__)
    return found


def most_frequent(entries: Sequence[Entry]) -> list[Entry]:
    """The passages that take up most tokens; the longest, then the first, for each first occurrence."""
    found: dict[int, Entry] = {}
    for one in sorted(entries, key=lambda one: (-one[0] * one[1], one[3], one[4])):
        found.setdefault(one[2], one)
    return list(found.values())[:MAX_CANDIDATES]


def first_disjoint(entries: Sequence[Entry]) -> list[Entry]:
    """The first LISTED passages of a list whose first occurrences do not overlap: windows of one text are one entry."""
    found: list[Entry] = []
    for one in entries:
        first, stop = one[2], one[2] + one[1]
        if all(stop <= other[2] or other[2] + other[1] <= first for other in found):
            found.append(one)
    return found[:MAX_LISTED]
