"""clusters: of each kept document that stands in a cluster of two or more, how many documents it stands for.

Makes `clusters.parquet`, a row a kept document in input order. A kept document that is not in it is alone: it has
copies 0, near 0 and component 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.io.files.no_documents import COUNTED
from gpulsh.run.job import Layout, Made, Workplace
from gpulsh.run.records.documents import rejected
from gpulsh.run.records.ids import IdColumn, declared_types
from gpulsh.run.records.marks import MarkedRows, types_of
from gpulsh.run.records.results import write_result
from gpulsh.run.records.tables import DECISIONS
from gpulsh.stats.counts import CLUSTERS, WEIGHT

ROWS_AT_ONCE = 1 << 14


def clusters(place: Workplace, layout: Layout, id_files: Sequence[int]) -> Made:
    """Write the file; `id_files` is the number of files of ids of each partition."""
    job, partitions = place.job, len(layout.partitions) - 1
    bad = rejected(place.folder, layout)
    ids = IdColumn.of(place.folder, layout, id_files, declared_types(job, layout, bad))
    marked = MarkedRows(job, place.folder, layout, id_files, ids.kind)
    rows = (*CLUSTERS, *([WEIGHT] if job.counting.weights is not None else []))
    schema = types_of(rows, ids.type)
    names = [name for name in schema.names if name not in ("file", "row", "id")]

    def tables() -> Iterator[pa.Table]:
        for partition in range(partitions):
            for some in _in_clusters(place, layout, partition):
                yield pa.table([*marked.where(some).values(), *marked.columns(some, names)], schema=schema)

    return Made(write_result(place.folder, COUNTED, schema, tables(), ("id",)))


def _in_clusters(place: Workplace, layout: Layout, partition: int) -> Iterator[Numbers]:
    """The kept documents of a partition that are connected with others, some at a time; protected ones left out."""
    decided = DECISIONS.read(place.folder, partition)
    some = decided.kept & (decided.component > 1) & (decided.document >= layout.protected)
    found = decided.document[np.flatnonzero(some)]
    for start in range(0, len(found), ROWS_AT_ONCE):
        yield found[start : start + ROWS_AT_ONCE]
