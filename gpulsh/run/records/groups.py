"""What the files of all ranges hold of one group: its rows in routed files, and the shares that it is compared in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpulsh.run.records.tables import GROUPS, SHARES, Row, Table


def rows_of(table: Table[Row], paths: Sequence[Path], group: int, first: tuple[int, int] | None = None) -> Row:
    """A group's rows in routed files of a table, end to end; with `first`, whose first column lies in that range.

    That takes files of pairs, in which the first column ascends.
    """
    found = []
    for path in paths:
        file = table.open(path)
        for of, columns in zip(file.beside(GROUPS.row), file.runs(), strict=True):
            rows = slice(*np.searchsorted(of.group, [group, group + 1]).tolist())
            if first is not None:
                low, high = np.searchsorted(columns[0][rows], first).tolist()
                rows = slice(rows.start + low, rows.start + high)
            if rows.start < rows.stop:
                found.append(table.row(*(column[rows].copy() for column in columns)))
                file.let_go()  # what all tasks look at of it would add up
    return table.joined(found)


def shares_of(shares: Path, group: int) -> range:
    """The shares of a group, in a file of `connect`; none of a group that is compared where it is decided."""
    return range(*np.searchsorted(SHARES.open(shares).whole().group, [group, group + 1]).tolist())
