"""Writes the decisions, one row per document in input order.

evidence     all: `duplicates.parquet`, of each dropped document its place, what it duplicates and how similar the two
             are; and with `on_error="skip"` `rejected.parquet`
clusters     all: `clusters.parquet`, of each kept document in a cluster of two or more, for how many it stands. A kept
             document that is not in it is alone: it has copies 0, near 0 and component 1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers, Values
from gpulsh.io.arrow.buffers import chosen, strings, to_arrow
from gpulsh.io.files.no_documents import COUNTED, EVIDENCE
from gpulsh.io.format import BLOCK_BYTES
from gpulsh.io.rows import batch_cuts
from gpulsh.ragged import found_in, offsets
from gpulsh.run.job import Layout, Made, Workplace
from gpulsh.run.records.documents import EarlierKeys, rejected, write_rejected
from gpulsh.run.records.ids import IdColumn
from gpulsh.run.records.results import MarkedRows, types_of, write_result
from gpulsh.run.records.tables import COPIES, DECISIONS, KEY_COPIES, TWINS, Ranges
from gpulsh.stats.counts import CLUSTERS, DUPLICATES, REASON, WEIGHT

ROWS_AT_ONCE, CLUSTERS_AT_ONCE = 1 << 16, 1 << 14
REASONS = ("key", "exact", "near")
KEY, EXACT, NEAR = range(3)
SMALL_BYTES = 64 << 20  # of ids that are held at once without a look at each


def evidence(place: Workplace, layout: Layout, id_files: Sequence[int], ranges: Ranges) -> Made:
    """Write the evidence; `id_files` is the number of files of ids of each partition."""
    job, bad = place.job, rejected(place.folder, layout)
    partitions = len(layout.partitions) - 1
    earlier = EarlierKeys(place.folder, partitions, by_id=job.earlier.key is not None) if job.earlier else None
    ids = IdColumn.of(job, place.folder, layout, id_files, bad, earlier.kinds() if earlier else ())
    rows = DUPLICATES if job.key is None else (*DUPLICATES, REASON)
    schema = types_of(rows, ids.type)
    reasons = None if job.key is None else _Reasons(place.folder, ranges, by_source=job.policy.by_source())

    def where(positions: Numbers) -> list[pa.Array]:
        return [*job.file_and_row(layout, positions), ids.at(positions)]

    def where_kept(partition: int, targets: Numbers) -> list[pa.Array]:
        own = targets >= 0
        if earlier is None or own.all():
            return where(targets)
        parts = zip(where(targets[own]), earlier.where(partition, ~targets[~own], ids.type), strict=True)
        back = np.argsort(np.concatenate([np.flatnonzero(own), np.flatnonzero(~own)]))
        return [chosen(pa.concat_arrays(columns), back) for columns in parts]

    tables = (
        pa.table(
            [
                *where(document),
                *where_kept(partition, target),
                *map(to_arrow, rest),
                *([] if reasons is None else [reasons.of(document, target)]),
            ],
            schema,
        )
        for partition, (document, target, *rest) in _fitting(_dropped(place.folder, partitions), ids)
    )
    made = write_result(place.folder, EVIDENCE, schema, tables, ("id", "duplicate_of_id"))
    made |= write_rejected(place.folder, bad, job)
    bad_rows = {"rejected_rows": bad.rows, "rejected_protected": bad.rows_before(job.protected_files)}
    return Made(made, {"amount": 0, "records": bad.records, **bad_rows})


class _Reasons:
    """Why documents were dropped, by files of KEY_COPIES, COPIES and TWINS."""

    def __init__(self, folder: Path, ranges: Ranges, *, by_source: bool) -> None:
        self._keyed = [file.whole() for file in KEY_COPIES.all(folder, ranges.keys)]
        self._copies = [file.whole() for file in COPIES.all(folder, ranges.copies)]
        self._twins = [file.whole() for file in TWINS.all(folder, ranges.copies if by_source else 0)]

    def of(self, documents: Numbers, targets: Numbers) -> pa.Array:
        """A pyarrow.StringArray of REASON, of documents that are dropped for `targets`."""
        found = np.where(self._first_of_words(documents) == self._first_of_words(targets), EXACT, NEAR)
        for known, _ in self._keyed:
            found[found_in(known, documents)[0]] = KEY
        return strings(REASONS).take(to_arrow(found))

    def _first_of_words(self, documents: Numbers) -> Numbers:
        """The first document with the words of each, of all sources."""
        first = documents.copy()
        for tables in (self._copies, self._twins):
            known_first = first.copy()
            for known, of in tables:
                rows, at = found_in(known, known_first)
                first[rows] = of[at]
        return first


def _dropped(folder: Path, partitions: int) -> Iterator[tuple[int, list[Values]]]:
    """Dropped documents in order, some of a partition at a time: document, duplicate_of, similarity, cluster."""
    for partition in range(partitions):
        decided = DECISIONS.read(folder, partition)
        dropped = np.flatnonzero(decided.document != decided.duplicate_of)
        for start in range(0, len(dropped), ROWS_AT_ONCE):
            rows = dropped[start : start + ROWS_AT_ONCE]
            yield partition, [column[rows] for column in decided[:4]]


def _fitting(dropped: Iterable[tuple[int, list[Values]]], ids: IdColumn) -> Iterator[tuple[int, list[Values]]]:
    """Cut dropped documents into pieces whose ids take about BLOCK_BYTES."""
    for partition, columns in dropped:
        document, target = columns[:2]
        if 2 * ids.largest * len(document) <= SMALL_BYTES:
            yield partition, columns
            continue
        sizes = ids.sizes(document)
        sizes[target >= 0] += ids.sizes(target[target >= 0])
        for start, stop in batch_cuts(offsets(sizes), BLOCK_BYTES):
            yield partition, [column[start:stop] for column in columns]


def clusters(place: Workplace, layout: Layout, id_files: Sequence[int]) -> Made:
    """Write the counts; `id_files` as in `evidence`."""
    job, partitions = place.job, len(layout.partitions) - 1
    ids = IdColumn.of(job, place.folder, layout, id_files, rejected(place.folder, layout))
    marked = MarkedRows(job, place.folder, layout, id_files, ids.kind)
    rows = (*CLUSTERS, *([WEIGHT] if job.counting.weights is not None else []))
    schema = types_of(rows, ids.type)
    names = [name for name in schema.names if name not in ("file", "row", "id")]

    def tables() -> Iterator[pa.Table]:
        for partition in range(partitions):
            decided = DECISIONS.read(place.folder, partition)
            counted = decided.kept & (decided.component > 1) & (decided.document >= layout.protected)
            found = decided.document[np.flatnonzero(counted)]
            for start in range(0, len(found), CLUSTERS_AT_ONCE):
                some = found[start : start + CLUSTERS_AT_ONCE]
                yield pa.table([*marked.where(some).values(), *marked.columns(some, names)], schema=schema)

    return Made(write_result(place.folder, COUNTED, schema, tables(), ("id",)), {"amount": 0})
