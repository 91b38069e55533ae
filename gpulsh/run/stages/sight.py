"""sight: read the sources and the dates of the documents of a partition -> SIGHTINGS."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.decide.counts.counts import NO_DATE
from gpulsh.io.arrow.buffers import to_arrow
from gpulsh.io.files.rejected import Rejected
from gpulsh.io.formats.endings import format_of
from gpulsh.run.job import Layout, Made, Workplace
from gpulsh.run.records.documents import rejected
from gpulsh.run.records.sightings import instants, source_texts
from gpulsh.run.records.tables import SIGHTINGS, SightingRows


def sight(place: Workplace, layout: Layout, partition: int) -> Made:
    """Read a partition."""
    start, stop = layout.partitions[partition : partition + 2].tolist()
    found = []
    if start < stop:
        first, last = layout.file_of(np.array([start, stop - 1])).tolist()
        bad = rejected(place.folder, layout, range(first, last + 1))
        for number in range(first, last + 1):
            begin, end = layout.files[number : number + 2].tolist()
            here = max(start, begin) - begin, min(stop, end) - begin
            found.append(_of_file(place, number, *here, end - begin, bad))
    return Made(SIGHTINGS.write(place.folder, partition, SIGHTINGS.joined(found)))


def _of_file(place: Workplace, number: int, start: int, stop: int, count: int, bad: Rejected) -> SightingRows:
    """The rows from `start` to before `stop` of a file of `count`; rejected ones have neither source nor date."""
    job, file = place.job, place.job.files[number]
    usable = np.flatnonzero(bad.left_out(np.ones(count, bool), number)[start:stop]) + start
    source, date = pa.nulls(stop - start, pa.string()), np.full(stop - start, NO_DATE)
    with job.stamps.unchanged([number]):
        if job.counting.source is not None:
            values = source_texts(_values(place, number, job.counting.source, usable))
            at = np.full(stop - start, -1)
            at[usable - start] = np.arange(len(usable))
            source = values.take(to_arrow(at, at < 0))
        if job.counting.date is not None:
            values = _values(place, number, job.counting.date, usable)
            where = lambda row: f"{file.name}: row {usable[row]}"  # noqa: E731
            date[usable - start] = instants(values, job.counting.date, where)
    return SightingRows(source, date)


def _values(place: Workplace, number: int, column: str, rows: Numbers) -> pa.Array:
    file = place.job.files[number]
    if not len(rows):
        return pa.nulls(0)
    return format_of(file).values(file, column, rows, place.job.limit(place.parallel))
