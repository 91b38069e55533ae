"""collect: a partition; what its groups decided about its documents, and the ids that the evidence tells.

Makes DECISIONS and, where there is an id column, files of ids, one for each run of files in which ids have one type.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.io.formats.endings import format_of
from gpulsh.run.job.layout import Layout
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.numbers import ascending, tampered, within
from gpulsh.run.records.tables import DECIDED, DECISIONS, Decisions, Ids, ids_table


def collect(place: Workplace, layout: Layout, partition: int, groups: int) -> Made:
    """Bring together what was decided about a partition."""
    start, stop = layout.partitions[partition : partition + 2].tolist()
    found = []
    for group in range(groups):
        decided = DECIDED.read(place.folder, group)
        rows = slice(*np.searchsorted(decided.document, [start, stop]).tolist())
        if (start == 0 and rows.start) or (stop == len(layout) and rows.stop < len(decided.document)):
            raise tampered(place.folder, "decisions about documents that there are not")
        if rows.start > rows.stop:
            raise tampered(place.folder, f"decisions of group {group} that are none")
        found.append(DECIDED.rows(decided, rows))
    columns = DECIDED.joined(found)
    columns = DECIDED.rows(columns, np.argsort(columns.document))
    within(place.folder, "documents", ascending(place.folder, "documents", columns.document), start, stop)
    for other in (columns.duplicate_of, columns.cluster):
        within(place.folder, "documents", other, 0, len(layout))
    made = write_decisions(place, layout, partition, columns)
    place.progress.advance(1)
    return made


def write_decisions(place: Workplace, layout: Layout, partition: int, columns: Decisions) -> Made:
    """DECISIONS of a partition, and the ids that go with them."""
    made = DECISIONS.write(place.folder, partition, columns)
    if place.job.columns.id is not None:
        named = columns.document[(columns.duplicate_of != columns.document) | columns.speaks[:]]
        for number, ids in enumerate(_ids(place, layout, named)):
            made |= ids_table(number).write(place.folder, partition, ids)
    return Made(made, {"amount": 1, "ids": len(made) - 1})


def _ids(place: Workplace, layout: Layout, named: Numbers) -> Iterator[Ids]:
    """The ids of the documents `named`, in runs that have one type."""
    job, column = place.job, place.job.columns.id
    assert column is not None
    parts = []
    for number in np.unique(layout.file_of(named)).tolist():
        start, stop = layout.files[number : number + 2]
        here = named[slice(*np.searchsorted(named, [start, stop]))]
        file = job.files[number]
        with job.stamps.unchanged([number]):
            values = format_of(file).values(file, column, here - start, job.limit(place.abreast))
        parts.append((here, values.dictionary_decode() if pa.types.is_dictionary(values.type) else values))
    for _, run in groupby(parts, lambda part: part[1].type):
        documents, values = zip(*run, strict=True)
        yield Ids(np.concatenate(documents), pa.concat_arrays(values))
