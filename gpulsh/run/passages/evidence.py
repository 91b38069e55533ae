"""The passages as results.

collect      a partition: its passages with the documents of first occurrences -> PASSAGES, and its documents' ids
list         all: `passages.parquet`, a row a passage in input order
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.io.arrow.buffers import strings, to_arrow
from gpulsh.io.files.rejected import Rejected
from gpulsh.io.formats.parquet import GROUP_ROWS, in_groups
from gpulsh.run.job import Layout, Made
from gpulsh.run.output.paths import marked
from gpulsh.run.passages.job import (
    BYTES,
    FIRST_PLACES,
    PASSAGES,
    FirstPlaces,
    Passages,
    PassagesPlace,
)
from gpulsh.run.records.ids import IdColumn, declared_types
from gpulsh.run.records.tables import ids_table
from gpulsh.run.stages.write import ids_of
from gpulsh.store.durable import durable_file

LIST = "list"  # the step
FILE = "passages.parquet"
PARAMETERS = b"gpulsh.passages"  # of the schema's metadata
COLUMNS = ("file", "row", "id", "start", "stop", "first_file", "first_row", "first_start", "tokens", "occurrences")
ROWS_AT_ONCE = 1 << 16


def collect(place: PassagesPlace, layout: Layout, places: Layout, partition: int) -> Made:
    """Bring first occurrences to the passages of a partition."""
    folder, path = place.folder, PASSAGES.path(place.folder, partition)
    named = [np.empty(0, np.int64)]
    with PASSAGES.create(path) as out:
        for run in BYTES.open(BYTES.path(folder, partition)).runs():
            document, start = np.full_like(run.first, -1), np.full_like(run.first, -1)
            repeats = np.flatnonzero(run.first >= 0)
            repeats = repeats[np.argsort(run.first[repeats], kind="stable")]
            first = run.first[repeats]
            for number, part in places.by_partition(first):
                known = _first_places(place, number)
                at = np.searchsorted(known.place, first[part])
                document[repeats[part]], start[repeats[part]] = known.document[at], known.start[at]
            columns = run.document, run.start, run.stop, document, start, run.tokens, run.occurrences
            out.append(Passages(*columns))
            named.append(np.unique(run.document))
        made = {path.name: out.finish()}
    if place.job.columns.id is not None:
        for number, ids in enumerate(ids_of(place, layout, np.concatenate(named))):
            made |= ids_table(number).write(folder, partition, ids)
    place.progress.advance(1)
    return Made(made, {"amount": 1, "ids": len(made) - 1})


def _first_places(place: PassagesPlace, partition: int) -> FirstPlaces:
    file = FIRST_PLACES.open(FIRST_PLACES.path(place.folder, partition))
    return FIRST_PLACES.joined(file.runs())


def write_list(place: PassagesPlace, layout: Layout, id_files: Sequence[int]) -> Made:
    """Write all passages; `id_files` is the number of files of ids of each partition."""
    job = place.job
    ids = IdColumn.of(place.folder, layout, id_files, declared_types(job, layout, Rejected()))
    names = strings([file.name for file in job.files])
    kinds = {"file": pa.string(), "first_file": pa.string(), "id": ids.type}
    schema = pa.schema([(name, kinds.get(name, pa.int64())) for name in COLUMNS])
    schema = marked(schema.with_metadata({PARAMETERS: json.dumps(job.parameters())}))

    def where(positions: Numbers) -> list[pa.Array]:
        known = positions >= 0
        files = layout.file_of(np.where(known, positions, 0))
        rows = np.where(known, positions - layout.files[files], 0)
        return [_known(names.take(to_arrow(files)), known), _known(to_arrow(rows), known)]

    def tables() -> Iterator[pa.Table]:
        for run in _runs(place, len(layout.partitions) - 1):
            first_start = _known(to_arrow(run.first_start), run.first_document >= 0)
            columns = [
                *(*where(run.document), ids.at(run.document), to_arrow(run.start), to_arrow(run.stop)),
                *(*where(run.first_document), first_start, to_arrow(run.tokens), to_arrow(run.occurrences)),
            ]
            yield pa.table(columns, schema)

    with durable_file(place.folder / FILE) as sink:
        with pq.ParquetWriter(sink, schema, compression="zstd", version="2.6") as out:
            for table in in_groups(tables(), ("id",)):
                out.write_table(table, row_group_size=GROUP_ROWS)
        made = {FILE: sink.fact()}
    place.progress.advance(1)
    return Made(made, {"amount": 1})


def _runs(place: PassagesPlace, partitions: int) -> Iterator[Passages]:
    for partition in range(partitions):
        for run in PASSAGES.open(PASSAGES.path(place.folder, partition)).runs():
            for start in range(0, len(run.document), ROWS_AT_ONCE):
                yield PASSAGES.rows(run, slice(start, start + ROWS_AT_ONCE))


def _known(column: pa.Array, known: NDArray[np.bool_]) -> pa.Array:
    """The column, null where it is not `known`."""
    return column if known.all() else pc.if_else(to_arrow(known), column, None)
