"""`rejected.parquet`: each bad record that a run skipped, its place and the reason.

    file     as in duplicates.parquet
    row      its first row, counted from 0 as there; for a stretch without rows, the row after it
    rows     the rows that it covers: 1 for a record, all of a damaged Parquet row group, 0 for a stretch without rows
    unit     what `offset` counts: "row" or "byte", from 0, or "line", from 1
    offset   where it begins. In a gzip file of WARC records: the byte where its gzip member begins
    reason   the error

In a file of WARC records a stretch reaches up to the next whole record, and the reason is the first error in it. A
damaged member of compressed JSON lines, with the lines that reach into it, is a stretch without rows. The reason names
its bytes. (A zstd frame without a checksum may have damage that does not show.)

A rejected row keeps its number, but it is no document, and it is not in `data/`. Only the text decides what is
rejected: damage in other columns shows when kept rows are copied, and stops the run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.io.arrow.buffers import number_values, string_array
from gpulsh.io.format import Rejection
from gpulsh.io.formats.parquet import GROUP_ROWS
from gpulsh.ragged import expand_ranges, slice_between

REJECTED = "rejected.parquet"
FIELDS = {"row": pa.int64(), "rows": pa.int64(), "unit": pa.string(), "offset": pa.int64(), "reason": pa.string()}
SCHEMA = pa.schema({"file": pa.int64(), **FIELDS})


def rejections(file: int, found: Sequence[Rejection]) -> pa.RecordBatch:
    """A pyarrow.RecordBatch of rejections in the file of that number: `file`, and the fields of each."""
    rows = [{"file": file, **each._asdict()} for each in found]
    for row in rows:
        row["reason"] = row["reason"].encode("utf-8", "replace").decode()
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


class Rejected:
    """All that a run skipped: batches of `rejections` in input order, in memory or mapped from work files."""

    def __init__(self, batches: Sequence[pa.RecordBatch] = ()) -> None:
        self._table = pa.Table.from_batches(batches, SCHEMA)
        self._file, self._row, self._rows = (_joined(batches, name) for name in ("file", "row", "rows"))
        self.records = int(np.maximum(self._rows, 1).sum())  # bad records and stretches, all rows of a row group
        self.rows = int(self._rows.sum())

    def _of(self, file: int) -> slice:
        return slice_between(self._file, file, file + 1)

    def has_rejected(self, file: int) -> bool:
        """Whether anything was rejected in the file of that number."""
        return len(self._file[self._of(file)]) > 0

    def rows_before(self, file: int) -> int:
        """The number of rejected rows in the files before that number."""
        return int(self._rows[: np.searchsorted(self._file, file)].sum())

    def without_rejected(self, keep: NDArray[np.bool_], file: int) -> NDArray[np.bool_]:
        """`keep` [rows] of a file, and false where a row was rejected."""
        if not self.has_rejected(file):
            return keep
        keep, here = keep.copy(), self._of(file)
        keep[expand_ranges(self._row[here], self._rows[here])] = False
        return keep

    def positions(self, files: Numbers) -> Numbers:
        """int64 [rows]: positions of all rejected rows; `files` [files + 1] are positions of first rows."""
        found: Numbers = expand_ranges(files[self._file] + self._row, self._rows)
        return found

    def write(self, target: object, names: Sequence[str]) -> None:
        """`rejected.parquet`, to a file; `names` are the names of the files."""
        schema, shown = pa.schema({"file": pa.string(), **FIELDS}), string_array(names)
        with pq.ParquetWriter(target, schema, compression="zstd", version="2.6") as out:
            for start in range(0, len(self._table), GROUP_ROWS):
                file, *others = self._table.slice(start, GROUP_ROWS).combine_chunks().columns
                out.write_table(pa.table([shown.take(file.chunk(0)), *others], schema), row_group_size=GROUP_ROWS)


def _joined(batches: Sequence[pa.RecordBatch], name: str) -> Numbers:
    none: Numbers = np.empty(0, np.int64)
    return np.concatenate([none, *(number_values(batch.column(name)) for batch in batches)])
