"""Rows by hashes, ordered so that a range of hashes is read from the files of all partitions.

A partition's file holds runs ordered as `store.columns` has it: digests, exact hashes, or postings, which are
fingerprints and the documents that have them. A document has its postings in one run, or where it is large in several,
each with a range of its fingerprints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Values
from gpulsh.backends.parts import in_part
from gpulsh.ragged import range_order, slice_between, stable_order
from gpulsh.run.job import Layout
from gpulsh.run.records.tables import PostingRows, Ranges, Row, Table
from gpulsh.store.columns import MappedColumns, range_rows
from gpulsh.store.durable import FileFact

RUN_POSTINGS = 1 << 20  # held before they are sorted and written
ROWS_AT_ONCE = 1 << 20  # read at once
RELEASE_BYTES = 16 << 20  # bytes of a mapped file that are in memory at once

Hashes = NDArray[np.uint64]
Move = Callable[[Values], Array]


class PostingsFile(ExitStack):
    """A context: the file of a partition's postings, to be written."""

    def __init__(self, table: Table[PostingRows], folder: Path, partition: int) -> None:
        super().__init__()
        self._out = self.enter_context(table.create(folder, partition))
        self._held: list[PostingRows] = []
        self._count = 0

    def add(self, fingerprints: Hashes, rows: NDArray[np.integer]) -> None:
        """Add postings: fingerprints, and the rows of their documents in the partition."""
        self._held.append(PostingRows(fingerprints, rows.astype(np.uint32)))
        self._count += len(rows)
        if self._count >= RUN_POSTINGS:
            self._write()

    def finish(self) -> dict[str, FileFact]:
        """The file's name and fact, when all are there."""
        self._write()
        return self._out.finish_by_name()

    def _write(self) -> None:
        if self._count:
            fingerprints, rows = map(np.concatenate, zip(*self._held, strict=True))
            order = range_order(fingerprints)
            self._out.append(PostingRows(fingerprints[order], rows[order]))
        self._held, self._count = [], 0


class Participants:
    """Which documents are compared: all but later copies."""

    def __init__(self, folder: Path, layout: Layout, ranges: Ranges) -> None:
        self._layout = layout
        self._known = [file.whole().document for file in ranges.all_copies(folder)]

    def of(self, partition: int) -> NDArray[np.bool_]:
        """bool [documents of the partition]: whether each is compared."""
        start, stop = self._layout.bounds(partition)
        takes_part = np.ones(stop - start, bool)
        for documents in self._known:
            here = documents[slice_between(documents, start, stop)]
            takes_part[here - start] = False
        return takes_part


def rows_in_range(
    table: Table[Row],
    folder: Path,
    layout: Layout,
    part: int,
    parts: int,
    participants: Participants | None = None,
    move: Move = np.asarray,
) -> Iterator[tuple[int, list[Array], Array]]:
    """Rows whose hashes, the first column, are in one of `parts` equal ranges, some at a time.

    Yields the number of the run in its file, the columns before the last, and the documents; only `participants`.
    `move` moves columns into the memory that they are wanted in, before their rows are chosen.
    """
    for number in range(len(layout.partitions) - 1):
        takes_part = None if participants is None else participants.of(number)
        file = table.open(folder, number), int(layout.partitions[number])
        yield from rows_of_file(*file, part, parts, takes_part, move)


def rows_of_file(
    file: MappedColumns[Row],
    start: int,
    part: int,
    parts: int,
    takes_part: NDArray[np.bool_] | None = None,
    move: Move = np.asarray,
) -> Iterator[tuple[int, list[Array], Array]]:
    """`rows_in_range` of one file, whose last column counts from `start` on."""
    takes_part, looked_at = None if takes_part is None else move(takes_part), 0
    for at, both in enumerate(file.runs()):
        rows = range_rows(both[0], part, parts)
        for first in range(rows.start, rows.stop, ROWS_AT_ONCE):
            *found, documents = (move(column[first : min(first + ROWS_AT_ONCE, rows.stop)]) for column in both)
            chosen: slice | Array = in_part(found[0], part, parts) if parts > 1 else slice(None)
            if takes_part is not None:
                takes = takes_part[documents]
                chosen = takes if parts == 1 else takes & chosen
            yield at, [column[chosen] for column in found], documents[chosen].astype(np.int64) + start
            looked_at += sum(column.nbytes for column in found)
            if looked_at > RELEASE_BYTES:  # often would cost more than to read: the system stops all threads for it
                file.release()
                looked_at = 0


def sorted_range(
    table: Table[Row], folder: Path, layout: Layout, part: int, parts: int, partitions: Sequence[int] | None = None
) -> Row:
    """The rows of `rows_in_range`, in files of `partitions`, or all, ascending by the last column as in each file."""
    runs = []
    for number in range(len(layout.partitions) - 1) if partitions is None else partitions:
        file = table.open(folder, number)
        for run in file.runs():
            runs.append((file, int(layout.partitions[number]), table.rows(run, range_rows(run[0], part, parts))))
            file.release()  # otherwise the pages read by the searches would add up
    found, count = table.empty(sum(len(run[0]) for _, _, run in runs)), 0
    for file, start, run in runs:  # copied into place: holding the parts as well would take twice the memory
        chosen = np.flatnonzero(in_part(run[0], part, parts)) if parts > 1 else np.arange(len(run[0]))
        chosen = chosen[stable_order(run[-1][chosen])]
        rows = slice(count, count + len(chosen))
        for column, values in zip(found, run, strict=True):
            np.take(values, chosen, out=column[rows])
        found[-1][rows] += start
        count = rows.stop
        file.release()
    return table.rows(found, slice(count))
