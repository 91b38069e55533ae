"""route: what ranges found, put in order of the groups that it is decided in.

Makes of a file of edges, memberships or copies one of the same columns and `group`, ascending by it in each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.dedup.task import Made, Workplace
from gpulsh.store.columns import MappedColumns, columns_file

ROWS_AT_ONCE = 1 << 20


def route(place: Workplace, step: str, members: Path, files: Sequence[Path]) -> Made:
    """Route `files`, whose first columns are documents, into files of the same names behind `step`."""
    known = MappedColumns(members)
    documents, groups = known.column("document"), known.column("group")
    made = {}
    for path in files:
        (columns,) = MappedColumns(path).runs()
        target = routed(place.folder, step, path)
        schema = pa.schema([(name, pa.int64()) for name in ("group", *columns)])
        first = next(iter(columns.values()))
        with columns_file(target, schema) as out:
            for start in range(0, len(first), ROWS_AT_ONCE):
                part = {name: column[start : start + ROWS_AT_ONCE] for name, column in columns.items()}
                group = groups[np.searchsorted(documents, first[start : start + ROWS_AT_ONCE])]
                order = np.argsort(group, kind="stable")
                out.append([group[order], *(column[order] for column in part.values())])
            made[target.name] = out.finish()
    place.progress.advance(1)
    return Made(made, {"amount": 1})


def routed(folder: Path, step: str, path: Path) -> Path:
    """Where the rows of `path` lie in order of their groups."""
    return folder / f"{step}-{path.name}"


def of_group(path: Path, group: int) -> Iterator[dict[str, NDArray[Any]]]:
    """The rows of a group in a routed file, run by run."""
    for columns in MappedColumns(path).runs():
        rows = slice(*np.searchsorted(columns["group"], [group, group + 1]))
        if rows.start < rows.stop:
            yield {name: column[rows] for name, column in columns.items() if name != "group"}
