"""Rows that are written as one: held in memory while they are few, otherwise in a file beside the output.

A Parquet row group is written from a table of all its rows, which may be larger than memory. From a mapped file it is
read column by column, and what was read is let go while its pages are written.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, BinaryIO, Self

import pyarrow as pa

if TYPE_CHECKING:
    import pyarrow.parquet as pq

HELD_BYTES = 64 << 20
LET_GO_SECONDS = 0.002


@contextmanager
def _let_go(read: mmap.mmap) -> Iterator[None]:
    """While inside, what was read of a map is let go again and again; what is read once more is read from the file."""
    done = Event()

    def watch() -> None:
        while not done.wait(LET_GO_SECONDS):
            read.madvise(mmap.MADV_DONTNEED)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


class SpilledRows:
    """Record batches of one schema. A context; `path` is where the file may lie, whose name is gone once it is made."""

    def __init__(self, schema: pa.Schema, path: str) -> None:
        self._schema, self._path = schema, path
        self._held: list[pa.RecordBatch] = []
        self.rows = self.size = 0  # bytes of all rows
        self._file: BinaryIO | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows more."""
        self.rows += len(batch)
        self.size += batch.nbytes
        self._held.append(batch)
        if self.size <= HELD_BYTES:
            return
        if self._writer is None:
            self._file = open(self._path, "w+b")  # noqa: SIM115
            os.unlink(self._path)
            self._writer = pa.ipc.new_stream(self._file, self._schema)  # of a file's batches all share one dictionary
        for held in self._held:
            self._writer.write_batch(held)
        self._held = []

    def write(self, writer: pq.ParquetWriter) -> None:
        """All rows as one row group of a pyarrow.parquet.ParquetWriter."""
        if self._writer is None or self._file is None:
            _write(writer, pa.Table.from_batches(self._held, self._schema))
            return
        self._writer.close()
        self._file.flush()
        pa.default_memory_pool().release_unused()
        read = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        with _let_go(read):
            _write(writer, pa.ipc.open_stream(pa.py_buffer(read)).read_all())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held = []
        if self._file is not None:
            self._file.close()


def _write(writer: pq.ParquetWriter, table: pa.Table) -> None:
    if len(table):
        writer.write_table(table, row_group_size=len(table))
