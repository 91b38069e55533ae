"""Rows in row groups of one size, whatever pieces they come in: the bytes of a Parquet file follow from its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

GROUP_ROWS = 1 << 18


def in_groups(tables: Iterable[Any]) -> Iterator[Any]:
    """The rows of `tables`, GROUP_ROWS at a time, each column in one piece."""
    held: list[Any] = []
    rows = 0
    for table in tables:
        while rows + len(table) >= GROUP_ROWS:
            yield pa.concat_tables([*held, table.slice(0, GROUP_ROWS - rows)]).combine_chunks()
            table = table.slice(GROUP_ROWS - rows)
            held, rows = [], 0
        held.append(table)
        rows += len(table)
    if rows:
        yield pa.concat_tables(held).combine_chunks()
