"""write: a file; its kept rows, every column, in its own format, below `data/`."""

from __future__ import annotations

import numpy as np

from gpulsh.dedup.job import step_file
from gpulsh.dedup.placed import Placed
from gpulsh.dedup.stages.collect import step_of as collect_step
from gpulsh.dedup.stages.facts import sizes_in
from gpulsh.dedup.stages.sign import step_of as sign_step
from gpulsh.dedup.task import Made, Workplace
from gpulsh.io.inputs import format_of
from gpulsh.io.places import place_below
from gpulsh.io.rejected import Rejected
from gpulsh.store.columns import MappedColumns
from gpulsh.store.durable import completed, naming, unfinished

DATA = "data"


def step_of(number: int) -> str:
    """The step of a file."""
    return f"write-{number:06d}"


def write(place: Workplace, placed: Placed, number: int) -> Made:
    """Write the kept rows of the file of that number; of a file of one document that is dropped nothing is written."""
    file = place.job.files[number]
    start, stop = placed.files[number : number + 2].tolist()
    keep = np.ones(stop - start, bool)
    first = max(int(np.searchsorted(placed.partitions, start, side="right")) - 1, 0)
    last = int(np.searchsorted(placed.partitions, stop, side="left"))
    size = 0
    for partition in range(first, last):
        columns = MappedColumns(step_file(place.folder, collect_step(partition), "decisions"))
        document = columns.column("document")
        dropped = document[columns.column("duplicate_of") != document]
        keep[dropped[slice(*np.searchsorted(dropped, [start, stop]))] - start] = False
        begin, end = placed.partitions[partition : partition + 2].tolist()
        size += sizes_in(partition, slice(max(start, begin) - begin, min(stop, end) - begin), place.folder)
    bad = rejected(place, placed, number)
    made = {}
    if not (len(keep) == 0 and bad.touches(number)):  # of a file so damaged that no row is known there is nothing
        target = place_below(place.folder / DATA, file)
        with unfinished(place.folder / step_of(number)) as part:  # what is left of a killed attempt is no result
            with naming(target):
                format_of(file).write_kept(file, bad.left_out(keep, number), str(part))
            if part.exists():
                made[target.relative_to(place.folder).as_posix()] = completed(part, target)
    dropped = len(keep) - int(keep.sum())
    place.progress.advance(len(keep))
    place.progress.count(size=size, dropped=dropped)
    return Made(made, {"amount": len(keep), "bytes": size, "dropped": dropped})


def rejected(place: Workplace, placed: Placed, file: int | None = None) -> Rejected:
    """All that was rejected, or at least what was in the file of that number."""
    found = Rejected()
    for partition, first, last in placed.rejecting:
        if file is not None and not first <= file <= last:
            continue
        found.add(MappedColumns(step_file(place.folder, sign_step(partition), "rejected")).batches())
    return found
