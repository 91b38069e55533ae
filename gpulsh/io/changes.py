"""Changes in the copy of a file: more columns after its own, made for some rows at a time, and cut texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.io.columns import Columns
from gpulsh.io.rows import Bytes

Make = Callable[[Numbers], pa.RecordBatch]


class AddedColumns:
    """Columns for the written `rows` of a file, ascending; `make` gives the columns of some."""

    def __init__(self, schema: pa.Schema, rows: Numbers, make: Make) -> None:
        self.schema = schema
        self._rows, self._make, self._done = rows, make, 0

    def take(self, rows: int) -> pa.RecordBatch:
        """The columns of the next so many rows."""
        some = self._rows[self._done : self._done + rows]
        self._done += rows
        return self._make(some)


def with_added(batches: Iterator[pa.RecordBatch], added: AddedColumns | None) -> Iterator[pa.RecordBatch]:
    """The batches with the columns of `added`."""
    for batch in batches:
        if added is not None:
            more = added.take(len(batch))
            schema = pa.schema([*batch.schema, *more.schema], batch.schema.metadata)
            batch = pa.record_batch([*batch.columns, *more.columns], schema=schema)
        yield batch
        del batch  # before the next one is read


@dataclass(frozen=True)
class Cuts:
    """Spans of a file: int64 [k] each, by row, then start, apart; `columns` names the text."""

    row: Numbers
    start: Numbers  # bytes of the text as UTF-8
    stop: Numbers
    columns: Columns

    def changed(self, rows: Numbers) -> NDArray[np.bool_]:
        """bool: which of `rows` lose something; the work does not depend on the other spans of the file."""
        first, last = (np.searchsorted(self.row, rows, side=side) for side in ("left", "right"))
        found: NDArray[np.bool_] = first < last
        return found

    def text(self, row: int, text: Bytes) -> bytes:
        """A row's text without its spans."""
        low, high = np.searchsorted(self.row, [row, row + 1]).tolist()
        begins = [0, *self.stop[low:high].tolist()]
        ends = [*self.start[low:high].tolist(), len(text)]
        return b"".join(bytes(text[begin:end]) for begin, end in zip(begins, ends, strict=True))
