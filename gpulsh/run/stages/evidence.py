"""evidence: of each dropped document, where it stands, what it duplicates and how similar the two are.

Makes `duplicates.parquet`, a row a dropped document in input order, and with `on_error="skip"` `rejected.parquet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers, Values
from gpulsh.io.arrow.buffers import chosen, to_arrow
from gpulsh.io.files.no_documents import EVIDENCE
from gpulsh.io.format import BLOCK_BYTES
from gpulsh.io.rows import batch_cuts
from gpulsh.ragged import found_in, offsets
from gpulsh.run.job import Layout, Made, Workplace
from gpulsh.run.records.documents import EarlierKeys, rejected, write_rejected
from gpulsh.run.records.ids import IdColumn, declared_types
from gpulsh.run.records.results import write_result
from gpulsh.run.records.tables import COPIES, DECISIONS, KEY_COPIES
from gpulsh.stats.counts import DUPLICATES, OWN, REASON

ROWS_AT_ONCE = 1 << 16
REASONS = ("key", "exact", "near")
KEY, EXACT, NEAR = range(3)
SMALL_BYTES = 64 << 20  # of ids that are held at once without a look at each


def evidence(
    place: Workplace, layout: Layout, id_files: Sequence[int], keyed: Sequence[Path], copies: Sequence[Path]
) -> Made:
    """Write the evidence; `id_files` is the number of files of ids of each partition, `keyed` and `copies` are files
    of KEY_COPIES and COPIES.
    """
    job, bad = place.job, rejected(place.folder, layout)
    partitions = len(layout.partitions) - 1
    earlier = EarlierKeys(place.folder, partitions, by_id=job.earlier.key is not None) if job.earlier else None
    declared = [*declared_types(job, layout, bad), *(earlier.kinds() if earlier else [])]
    ids = IdColumn.of(place.folder, layout, id_files, declared)
    rows = DUPLICATES if job.key is None else (*DUPLICATES, REASON)
    schema = pa.schema([(row.name, ids.type if row.type == OWN else pa.type_for_alias(row.type)) for row in rows])
    reasons = _Reasons(keyed, copies)

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
                *([] if job.key is None else [reasons.of(document, target)]),
            ],
            schema,
        )
        for partition, (document, target, *rest) in _fitting(_dropped(place.folder, partitions), ids)
    )
    made = write_result(place.folder, EVIDENCE, schema, tables, ("id", "duplicate_of_id"))
    made |= write_rejected(place.folder, bad, job)
    protected = sum(map(job.policy.protects, job.files))  # files, the first ones
    bad_rows = {"rejected_rows": bad.rows, "rejected_protected": bad.rows_before(protected)}
    return Made(made, {"records": bad.records, **bad_rows})


class _Reasons:
    """Why documents were dropped, by files of KEY_COPIES and COPIES."""

    def __init__(self, keyed: Sequence[Path], copies: Sequence[Path]) -> None:
        self._keyed = [KEY_COPIES.open(path).whole() for path in keyed]
        self._copies = [COPIES.open(path).whole() for path in copies]

    def of(self, documents: Numbers, targets: Numbers) -> pa.Array:
        """A pyarrow.StringArray of REASON, of documents that are dropped for `targets`."""
        found = np.full(len(documents), NEAR)
        for tables, reason in ((self._copies, EXACT), (self._keyed, KEY)):
            for known, first in tables:
                rows, at = found_in(known, documents)
                # A copy of a document that is not kept has other words than its witness.
                found[rows if reason == KEY else rows[first[at] == targets[rows]]] = reason
        return pa.array(REASONS).take(to_arrow(found))


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
