"""`rejected.parquet`: each bad record that a run skipped, its place and the reason.

    file     as in duplicates.parquet
    row      its first row, counted from 0 as there; of a stretch without rows, the row behind it
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

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.io.arrow.buffers import strings
from gpulsh.io.format import Rejection
from gpulsh.io.formats.parquet import GROUP_ROWS, in_groups

REJECTED = "rejected.parquet"
Release = Callable[[], None]
FIELDS = {"row": pa.int64(), "rows": pa.int64(), "unit": pa.string(), "offset": pa.int64(), "reason": pa.string()}


def rejections(file: int, found: Sequence[Rejection]) -> pa.RecordBatch:
    """A pyarrow.RecordBatch of rejections in the file of that number: `file`, and the fields of each."""
    rows = [{"file": file, **each._asdict()} for each in found]
    for row in rows:
        row["reason"] = row["reason"].encode("utf-8", "replace").decode()
    return pa.RecordBatch.from_pylist(rows, pa.schema([("file", pa.int64()), *FIELDS.items()]))


def end_to_end(batches: Sequence[pa.RecordBatch]) -> dict[str, pa.Array]:
    """The columns of several batches, as one pyarrow.Array each."""
    table = pa.Table.from_batches(batches).combine_chunks()
    return {name: table.column(name).chunk(0) for name in table.column_names}


class Rejected:
    """All that a run skipped, in input order, in memory or mapped from work files."""

    def __init__(self) -> None:
        self.records = 0  # bad records and stretches, all rows of a row group
        self.rows = 0
        self._batches: list[tuple[pa.RecordBatch, Release]] = []
        self._of_file: dict[int, list[tuple[pa.RecordBatch, Release]]] = {}

    def add(self, batches: Sequence[pa.RecordBatch], release: Release = lambda: None) -> None:
        """Append batches of `rejections`; `release` is called after each use, and may release mapped pages."""
        for batch in batches:
            rows = batch.column("rows").to_numpy()
            self.records += int(np.maximum(rows, 1).sum())
            self.rows += int(rows.sum())
            self._batches.append((batch, release))
            for number in np.unique(batch.column("file").to_numpy()).tolist():
                self._of_file.setdefault(number, []).append((batch, release))
            release()

    def touches(self, file: int) -> bool:
        """Whether anything was rejected in the file of that number."""
        return file in self._of_file

    def rows_before(self, file: int) -> int:
        """The number of rejected rows in the files before that number."""
        return sum(
            int(columns["rows"][columns["file"] < file].sum()) for columns in _columns(self._batches if file else [])
        )

    def left_out(self, keep: NDArray[np.bool_], file: int) -> NDArray[np.bool_]:
        """`keep` [rows] of a file, and false where a row was rejected."""
        if file not in self._of_file:
            return keep
        keep = keep.copy()
        for columns in _columns(self._of_file[file]):
            here = columns["file"] == file
            starts, rows = columns["row"][here], columns["rows"][here]
            keep[starts[rows == 1]] = False
            several = rows > 1
            for start, count in zip(starts[several].tolist(), rows[several].tolist(), strict=True):
                keep[start : start + count] = False
        return keep

    def write(self, target: object, names: Sequence[str]) -> None:
        """`rejected.parquet`, to a file; `names` are the names of the files."""
        schema = pa.schema([("file", pa.string()), *FIELDS.items()])
        shown = strings(names)
        with pq.ParquetWriter(target, schema, compression="zstd", version="2.6") as out:
            tables = (
                pa.table([shown.take(batch.column("file")), *batch.columns[1:]], schema) for batch, _ in self._batches
            )
            for table in in_groups(tables):
                out.write_table(table, row_group_size=GROUP_ROWS)
                for release in {release for _, release in self._batches}:
                    release()


def _columns(batches: Sequence[tuple[pa.RecordBatch, Release]]) -> Iterator[dict[str, NDArray[np.int64]]]:
    for batch, release in batches:
        yield {name: batch.column(name).to_numpy() for name in ("file", "row", "rows")}
        release()
