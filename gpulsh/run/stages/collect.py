"""collect: a partition; what its groups decided about its documents, and the ids that the evidence tells.

Makes `decisions`, the columns of `verify` less the members of other partitions, ascending by document; and, where there
is an id column, `ids0`, `ids1`, ... (document, id): ids of dropped documents and of those they are dropped for, a file
for each run of files in which ids have one type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.io.arrow.buffers import booleans
from gpulsh.io.files.file_texts import values_of
from gpulsh.run.job.job import step_file, step_of
from gpulsh.run.job.placed import Placed
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.numbers import ascending, tampered, within
from gpulsh.run.stages.sign import Digests
from gpulsh.store.columns import MappedColumns

COLUMNS = ("document", "duplicate_of", "similarity", "cluster", "speaks")


def collect(place: Workplace, placed: Placed, partition: int, groups: int, read: Digests) -> Made:
    """Bring together what was decided about a partition; `read` is what `sign` read of its files."""
    start, stop = placed.partitions[partition : partition + 2].tolist()
    found: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS}
    for group in range(groups):
        decided = MappedColumns(step_file(place.folder, step_of("verify", group), "decided"))
        document = decided.column("document")
        rows = slice(*np.searchsorted(document, [start, stop]).tolist())
        if (start == 0 and rows.start) or (stop == len(placed) and rows.stop < len(document)):
            raise tampered(place.folder, "decisions about documents that there are not")
        for name in COLUMNS[:-1]:
            found[name].append(decided.column(name)[rows])
        if not pa.types.is_boolean(decided.kind("speaks")) or rows.start > rows.stop:
            raise tampered(place.folder, f"decisions of group {group} that are none")
        (batch,) = decided.batches()
        found["speaks"].append(booleans(batch.column("speaks").slice(rows.start, rows.stop - rows.start)))
    columns = {name: np.concatenate(parts) if parts else np.empty(0, np.int64) for name, parts in found.items()}
    order = np.argsort(columns["document"])
    within(place.folder, "documents", ascending(place.folder, "documents", columns["document"][order]), start, stop)
    for name in ("duplicate_of", "cluster"):
        within(place.folder, "documents", columns[name], 0, len(placed))
    made = write_decisions(place, placed, partition, {name: column[order] for name, column in columns.items()}, read)
    place.progress.advance(1)
    return made


def write_decisions(
    place: Workplace, placed: Placed, partition: int, columns: Mapping[str, NDArray[Any]], read: Digests
) -> Made:
    """`decisions` of a partition, and the ids that go with them."""
    files: dict[str, Mapping[str, Any]] = {}
    if place.job.columns.id is not None:
        named = columns["document"][(columns["duplicate_of"] != columns["document"]) | columns["speaks"].astype(bool)]
        for number, (documents, ids) in enumerate(_ids(place, placed, named, read)):
            files[f"ids{number}"] = {"document": documents, "id": ids}
    return Made(
        place.write(step_of("collect", partition), decisions=columns, **files), {"amount": 1, "ids": len(files)}
    )


def _ids(place: Workplace, placed: Placed, named: Numbers, read: Digests) -> Iterator[tuple[Numbers, Any]]:
    """Runs of the documents `named` whose ids have one type, and the ids."""
    job, column = place.job, place.job.columns.id
    assert column is not None
    parts = []
    for number in np.unique(placed.file_of(named)).tolist():
        start, stop = placed.files[number : number + 2]
        here = named[slice(*np.searchsorted(named, [start, stop]))]
        with job.fixity.kept([number]):
            was = read.get(str(number), {}).get("0")
            values = values_of(
                *(job.files, number, column, here - start, job.fixity, was), limit=job.limit(place.abreast)
            )
        parts.append((here, values.dictionary_decode() if pa.types.is_dictionary(values.type) else values))
    for _, run in groupby(parts, lambda part: part[1].type):
        documents, values = zip(*run, strict=True)
        yield np.concatenate(documents), pa.concat_arrays(values)
