"""route: what ranges found, put in order of the groups that it is decided in.

Makes of a file of PAIRS, CROWD or COPIES one with the same columns behind those of GROUPS, ascending in each run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.numbers import places_in
from gpulsh.run.records.tables import GROUPS, MEMBERS, Row, Table
from gpulsh.store.columns import columns_file

ROWS_AT_ONCE = 1 << 20


def route(place: Workplace, step: str, members: Path, table: Table[Row], found: Path) -> Made:
    """Route a file of a table whose first column holds documents."""
    documents, groups, _ = MEMBERS.open(members).whole()
    source = table.open(found)
    target = GROUPS.path(place.folder, step)
    with columns_file(target, pa.schema([*GROUPS.schema(), *table.schema()])) as out:
        for columns in source.runs():
            for start in range(0, len(columns[0]), ROWS_AT_ONCE):
                part = [column[start : start + ROWS_AT_ONCE] for column in columns]
                group = groups[places_in(place.folder, "documents", documents, part[0])].astype(np.int64)
                order = np.argsort(group, kind="stable")
                out.append([group[order], *(column[order] for column in part)])
            source.let_go()
        fact = out.finish()
    place.progress.advance(1)
    return Made({target.name: fact}, {"amount": 1})
