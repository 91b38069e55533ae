"""route: what ranges found, put in order of the groups that it is decided in.

Makes of a file of pairs, memberships or copies `routed`: the same columns and `group`, ascending by it in each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.run.job.job import step_file
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.numbers import places_in
from gpulsh.store.columns import MappedColumns, columns_file

ROWS_AT_ONCE = 1 << 20


def route(place: Workplace, step: str, members: Path, found: Path) -> Made:
    """Route a file whose first column holds documents."""
    known = MappedColumns(members)
    documents, groups = known.column("document"), known.column("group")
    source = MappedColumns(found)
    target = step_file(place.folder, step, "routed")
    with columns_file(target, pa.schema([(name, pa.int64()) for name in ("group", *source.names())])) as out:
        for columns in source.runs():
            rows = len(next(iter(columns.values())))
            for start in range(0, rows, ROWS_AT_ONCE):
                part = [column[start : start + ROWS_AT_ONCE] for column in columns.values()]
                group = groups[places_in(place.folder, "documents", documents, part[0])].astype(np.int64)
                order = np.argsort(group, kind="stable")
                out.append([group[order], *(column[order] for column in part)])
            source.let_go()
        fact = out.finish()
    place.progress.advance(1)
    return Made({target.name: fact}, {"amount": 1})


def columns_of(
    paths: Sequence[Path], group: int, names: Sequence[str], first: tuple[int, int] | None = None
) -> list[NDArray[np.int64]]:
    """Columns of a group's rows in routed files, end to end; with `first`, whose first column lies in that range.

    That takes files of pairs, in which the first column ascends.
    """
    found: list[list[NDArray[np.int64]]] = [[np.empty(0, np.int64)] for _ in names]
    for path in paths:
        file = MappedColumns(path)
        for columns in file.runs():
            rows = slice(*np.searchsorted(columns["group"], [group, group + 1]).tolist())
            if first is not None:
                low, high = np.searchsorted(columns[names[0]][rows], first).tolist()
                rows = slice(rows.start + low, rows.start + high)
            if rows.start < rows.stop:
                for column, name in zip(found, names, strict=True):
                    column.append(columns[name][rows].copy())
                file.let_go()  # what all tasks look at of it would add up
    return [np.concatenate(column) for column in found]
