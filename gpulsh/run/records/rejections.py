"""The bad records that a step passes over: written some at a time, for an input may hold nothing else, and read."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from gpulsh.io.files.rejected import Rejected, end_to_end
from gpulsh.run.job.job import step_file, step_of
from gpulsh.run.job.layout import Layout
from gpulsh.store.columns import ColumnsFile, columns_file
from gpulsh.store.durable import FileFact
from gpulsh.store.mapping import MappedBatches

HELD_ROWS = 1 << 16


def rejections_file(folder: Path, partition: int) -> Path:
    """Where those of a partition lie."""
    return step_file(folder, step_of("sign", partition), "rejected")


class PassedOver(ExitStack):
    """A context. Batches of `io.files.rejected.rejections` go to a file, HELD_ROWS at a time; no file without one."""

    def __init__(self, folder: Path, partition: int) -> None:
        super().__init__()
        self._path = rejections_file(folder, partition)
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self._file: ColumnsFile | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rejections."""
        self._held.append(batch)
        self._rows += len(batch)
        if self._rows >= HELD_ROWS:
            self._write()

    def finish(self) -> dict[str, FileFact]:
        """The file's fact by its name, when all are there and the context is about to be left."""
        if self._held:
            self._write()
        return {} if self._file is None else {self._path.name: self._file.finish()}

    def _write(self) -> None:
        columns = end_to_end(self._held)
        if self._file is None:
            self._file = self.enter_context(columns_file(self._path, self._held[0].schema))
        self._file.append(list(columns.values()))
        self._held, self._rows = [], 0


def rejected(folder: Path, layout: Layout, files: range | None = None) -> Rejected:
    """All that was rejected, or at least what was in the files of these numbers."""
    found = Rejected()
    for partition, first, last in layout.rejecting:
        if files is not None and (last < files.start or files.stop <= first):
            continue
        mapped = MappedBatches(rejections_file(folder, partition))
        found.add(mapped.batches, mapped.let_go)
    return found
