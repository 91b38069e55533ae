"""evidence: of each dropped document, where it stands, what it duplicates and how similar the two are.

Makes `duplicates.parquet`, a row a dropped document in input order, and with `on_error="skip"` `rejected.parquet`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpulsh.arrays import Numbers, Values
from gpulsh.io.arrow.buffers import chosen, strings, to_arrow
from gpulsh.io.arrow.ids import as_texts, common_type, in_parquet, of_type, parquet_type, values_in_parquet
from gpulsh.io.arrow.rows import arrow_rows, is_text
from gpulsh.io.files.no_documents import EVIDENCE
from gpulsh.io.files.rejected import Rejected
from gpulsh.io.format import BLOCK_BYTES
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.parquet import GROUP_ROWS, in_groups
from gpulsh.io.rows import batch_cuts
from gpulsh.ragged import offsets
from gpulsh.run.job import FileJob, Layout, Made, Workplace
from gpulsh.run.records.documents import EarlierKeys, rejected
from gpulsh.run.records.tables import COPIES, DECISIONS, KEY_COPIES, Ids, ids_table
from gpulsh.stats.counts import DUPLICATES, OWN, REASON
from gpulsh.store.durable import durable_file

REJECTED = "rejected.parquet"
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
    declared = [*declared_ids(job, layout, bad), *(earlier.kinds() if earlier else [])]
    ids = KnownIds(place.folder, layout, id_files, declared)
    names = strings([file.name for file in job.files])
    rows = DUPLICATES if job.key is None else (*DUPLICATES, REASON)
    schema = pa.schema([(row.name, ids.type if row.type == OWN else pa.type_for_alias(row.type)) for row in rows])
    reasons = _Reasons(keyed, copies)

    def where(positions: Numbers) -> list[pa.Array]:
        files = layout.file_of(positions)
        return [names.take(to_arrow(files)), to_arrow(positions - layout.files[files]), ids.of(positions)]

    def where_kept(partition: int, targets: Numbers) -> list[pa.Array]:
        own = targets >= 0
        if earlier is None or own.all():
            return where(targets)
        parts = zip(where(targets[own]), earlier.where(partition, ~targets[~own], ids.type), strict=True)
        back = np.argsort(np.concatenate([np.flatnonzero(own), np.flatnonzero(~own)]))
        return [chosen(pa.concat_arrays(columns), back) for columns in parts]

    made = {}
    with durable_file(place.folder / EVIDENCE) as sink:
        with pq.ParquetWriter(sink, schema, compression="zstd", version="2.6") as out:
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
            for table in in_groups(tables, ("id", "duplicate_of_id")):
                out.write_table(table, row_group_size=GROUP_ROWS)
        made[EVIDENCE] = sink.fact()
    if job.on_error == "skip":
        with durable_file(place.folder / REJECTED) as sink:
            bad.write(sink, [file.name for file in job.files])
            made[REJECTED] = sink.fact()
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
                if len(known):
                    at = np.searchsorted(known, documents).clip(max=len(known) - 1)
                    is_there = known[at] == documents
                    # A copy of a document that is not kept has other words than its witness.
                    found[is_there & ((reason == KEY) | (first[at] == targets))] = reason
        return pa.array(REASONS).take(to_arrow(found))


def _dropped(folder: Path, partitions: int) -> Iterator[tuple[int, list[Values]]]:
    """Dropped documents in order, some of a partition at a time: document, duplicate_of, similarity, cluster."""
    for partition in range(partitions):
        decided = DECISIONS.read(folder, partition)
        dropped = np.flatnonzero(decided.document != decided.duplicate_of)
        for start in range(0, len(dropped), ROWS_AT_ONCE):
            rows = dropped[start : start + ROWS_AT_ONCE]
            yield partition, [column[rows] for column in decided[:4]]


def _fitting(dropped: Iterable[tuple[int, list[Values]]], ids: KnownIds) -> Iterator[tuple[int, list[Values]]]:
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


def declared_ids(job: FileJob, layout: Layout, bad: Rejected) -> list[pa.DataType]:
    """The type of the id column in each file that declares one."""
    if job.columns.id is None:
        return []
    known = np.diff(layout.files) > 0
    files = [file for number, file in enumerate(job.files) if known[number] or not bad.touches(number)]
    with job.stamps.unchanged(range(len(job.files))):
        kinds = [format_of(file).kind(file, job.columns.id) for file in files]
    return [kind for kind in kinds if kind is not None]


class KnownIds:
    """Ids by position, in the type common to all and to the files' schemas, otherwise each value as JSON text.

    So the type does not depend on which rows are dropped, where every file has a schema and Parquet every value.
    """

    def __init__(self, folder: Path, layout: Layout, files: Sequence[int], declared: Sequence[pa.DataType]) -> None:
        self._folder, self._layout = folder, layout
        self._files = files
        self._none = not any(files)
        kinds = [known.id.type for known in self._all()]
        self.largest = max((int(_lengths(known.id).max(initial=0)) for known in self._all()), default=0)
        kind = common_type([*declared, *kinds])
        self.in_json = kind is None or not in_parquet(kind) or not all(values_in_parquet(ids.id) for ids in self._all())
        self.type = pa.string() if self.in_json else parquet_type(kind)

    def _all(self) -> Iterator[Ids]:
        return itertools.chain.from_iterable(map(self._of, range(len(self._files))))

    def _of(self, partition: int) -> Iterator[Ids]:
        return (ids_table(number).read(self._folder, partition) for number in range(self._files[partition]))

    def sizes(self, positions: Numbers) -> Numbers:
        """int64 [m]: bytes of the ids at `positions`, 0 if they are not text."""
        ascending, places = np.unique(positions, return_inverse=True)
        found = np.zeros(len(ascending), np.int64)
        for partition, part in self._layout.by_partition(ascending) if self.largest else ():
            for known, ids in self._of(partition):
                lengths = _lengths(ids)
                at = np.searchsorted(known, ascending[part]).clip(max=max(len(known) - 1, 0))
                if len(known):
                    found[part] += np.where(known[at] == ascending[part], lengths[at], 0)
        return found[places]

    def of(self, positions: Numbers) -> pa.Array:
        """The ids at `positions` [m], as one pyarrow.Array."""
        if self._none or not len(positions):
            return pa.nulls(len(positions), self.type)
        ascending, places = np.unique(positions, return_inverse=True)
        found = []
        for partition, part in self._layout.by_partition(ascending):
            wanted = ascending[part]
            for known, ids in self._of(partition):
                first, last = (int(known[0]), int(known[-1])) if len(known) else (0, -1)
                here = wanted[slice(*np.searchsorted(wanted, [first, last + 1]))]
                values = chosen(ids, np.searchsorted(known, here))
                found.append(as_texts(values) if self.in_json else of_type(values, self.type))
        return chosen(pa.concat_arrays(found), places)


def _lengths(ids: pa.Array) -> Numbers:
    """int64 [ids]: bytes of each, 0 if they are not text."""
    return arrow_rows(ids).lengths() if is_text(ids.type) else np.zeros(len(ids), np.int64)
