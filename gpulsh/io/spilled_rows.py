"""Rows that are written as one: held in memory while they are few, otherwise in a file beside the output.

A Parquet row group is written from a table of all its rows, which may be larger than memory. From a mapped file it is
read column by column, and what was read is let go while its pages are written.
"""

from __future__ import annotations

import mmap
import os
from typing import Any, BinaryIO

import pyarrow as pa

HELD_BYTES = 64 << 20
LET_GO = 16 << 20  # bytes of output between


class Output:
    """A file being written; every LET_GO bytes, what was read of a map is let go."""

    def __init__(self, out: BinaryIO) -> None:
        self.map: mmap.mmap | None = None
        self.closed = False
        self._out, self._written = out, 0

    def write(self, content: Any) -> int:
        """All of it."""
        count = self._out.write(content)
        self._written += count
        if self.map is not None and self._written >= LET_GO:
            self.map.madvise(mmap.MADV_DONTNEED)
            self._written = 0
        return count

    def tell(self) -> int:
        """The byte that is written next."""
        return self._out.tell()

    def flush(self) -> None:
        """Nothing waits here."""
        self._out.flush()


class SpilledRows:
    """Record batches of one schema. `path` is where the file may lie; it has no name longer than it is made."""

    def __init__(self, schema: Any, path: str) -> None:
        self._schema, self._path = schema, path
        self._held: list[Any] = []
        self._size = 0
        self._file: BinaryIO | None = None
        self._writer: Any = None

    def add(self, batch: Any) -> None:
        """Rows more."""
        if self._writer is None:
            self._held.append(batch)
            self._size += batch.nbytes
            if self._size <= HELD_BYTES:
                return
            self._file = open(self._path, "w+b")  # noqa: SIM115
            os.unlink(self._path)
            self._writer = pa.ipc.new_stream(self._file, self._schema)  # of a file's batches all share one dictionary
            held, self._held = self._held, []
        else:
            held = [batch]
        for batch in held:
            self._writer.write_batch(batch)

    def write(self, writer: Any, output: Output) -> None:
        """All rows as one row group of a pyarrow.parquet.ParquetWriter that writes to `output`."""
        if self._writer is None or self._file is None:
            _write(writer, pa.Table.from_batches(self._held, self._schema))
            return
        self._writer.close()
        self._file.flush()
        output.map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            _write(writer, pa.ipc.open_stream(pa.py_buffer(output.map)).read_all())
        finally:
            output.map = None

    def close(self) -> None:
        """Nothing is left."""
        self._held = []
        if self._file is not None:
            self._file.close()


def _write(writer: Any, table: Any) -> None:
    if len(table):
        writer.write_table(table, row_group_size=len(table))
