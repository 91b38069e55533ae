"""The documents of a partition that hold wanted tokens, read again; also of partitions of earlier runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.io.files.file_texts import Partition
from gpulsh.io.rows import Bytes, join_texts, repack, split_batch
from gpulsh.ragged import distinct, offsets, row_of, slice_between, slices_by_range
from gpulsh.run.job import Layout
from gpulsh.run.passages.job import PassagesContext
from gpulsh.run.passages.tables import PLACES, TakenPlaces
from gpulsh.run.records.tables import Row, Table
from gpulsh.run.records.texts import piece_bounds
from gpulsh.store.columns import MappedColumns

PLACES_AT_ONCE = 1 << 19  # looked up together
DOCUMENTS_AT_ONCE = 1 << 16  # likewise
WINDOW_ROOM = 4  # a batch is smaller by this: a window takes 24 bytes, and each character may begin one

PlacesBetween = Callable[[int, int], Numbers]  # the wanted places from one to before another, ascending, each once


class WantedDocuments(NamedTuple):
    """Documents of a partition that contain wanted tokens."""

    rows: Numbers  # in the partition
    start: Numbers  # the place of the first token of each
    stop: Numbers  # the place after those that it takes
    text: TextBatch

    def number(self, places: Numbers) -> Numbers:
        """int64 [m]: the number, in the batch, of the document that takes each of `places` [m]."""
        return row_of(self.start, places)


class TokenPlaces:
    """The place of the first token of each document in a partition, from the file that has how many each takes.

    A partition may have tens of millions of documents, so they are looked up DOCUMENTS_AT_ONCE at a time.
    """

    def __init__(self, context: PassagesContext, places: Layout, partition: int) -> None:
        held = context.job.held
        if held is None or partition >= len(held.partitions):
            self._file = PLACES.open(context.folder, partition)
            runs = self._file.runs()
        else:
            run = held.runs[bisect_right(held.runs, partition, key=lambda run: run.first) - 1]
            self._file = MappedColumns(run.places, TakenPlaces)
            runs = islice(self._file.runs(), partition - run.first, partition - run.first + 1)
        self._taken = [
            run.places[start : start + DOCUMENTS_AT_ONCE]
            for run in runs
            for start in range(0, len(run.places), DOCUMENTS_AT_ONCE)
        ]
        self._rows = offsets([len(taken) for taken in self._taken])
        self._starts = offsets([int(taken.sum()) for taken in self._taken]) + places.partitions[partition]
        self._file.release()

    def __len__(self) -> int:
        return int(self._rows[-1])

    @property
    def start(self) -> int:
        """The first place of the partition."""
        return int(self._starts[0])

    @property
    def stop(self) -> int:
        """The place after all."""
        return int(self._starts[-1])

    def between(self, start: int, stop: int) -> tuple[int, Numbers]:
        """The documents that take some of the places from `start` to before `stop`, and some next to them.

        The row of the first; and int64 [documents + 1]: the place of the first token of each, and the place after all.
        """
        first = max(int(np.searchsorted(self._starts, start, side="right")) - 1, 0)
        last = int(np.searchsorted(self._starts, stop))
        return int(self._rows[first]), self._bases(first, last)

    def of(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """int64 [n] each, for documents at ascending `rows` [n]: the first place, and the place after the last."""
        start, stop = np.empty_like(rows), np.empty_like(rows)
        for number, here in slices_by_range(rows, self._rows):
            base = self._bases(number, number + 1)
            at = rows[here] - self._rows[number]
            start[here], stop[here] = base[at], base[at + 1]
        return start, stop

    def _bases(self, first: int, last: int) -> Numbers:
        base: Numbers = offsets(np.concatenate([np.empty(0, np.int64), *self._taken[first:last]])) + self._starts[first]
        self._file.release()
        return base


def unchanged_files(context: PassagesContext, partition: Partition) -> AbstractContextManager[None]:
    """As `TaskContext.unchanged`, for a partition's files; files of earlier runs are checked when a text is read."""
    if partition.number < context.job.earlier_partitions:
        return nullcontext()
    return context.unchanged_pieces(partition.pieces)


def place_ranges(start: int, stop: int) -> list[tuple[int, int]]:
    """[start, stop) in ranges of places that are searched together."""
    starts = range(start, stop, PLACES_AT_ONCE)
    return [(low, min(low + PLACES_AT_ONCE, stop)) for low in starts]


def read_documents(
    context: PassagesContext, layout: Layout, partition: Partition, token_places: TokenPlaces, wanted: PlacesBetween
) -> Iterator[WantedDocuments]:
    """The documents with wanted places, in batches."""
    chosen = np.zeros(len(token_places), np.bool_)  # for each document a byte, where its number would take eight
    for low, high in place_ranges(token_places.start, token_places.stop):
        row, base = token_places.between(low, high)
        chosen[row + distinct(row_of(base, wanted(low, high)))] = True
    starts = range(0, len(chosen), DOCUMENTS_AT_ONCE)
    found = (np.flatnonzero(chosen[start : start + DOCUMENTS_AT_ONCE]) + start for start in starts)
    rows = np.empty(0, np.int64)
    most = context.ops.sizes().batch // WINDOW_ROOM
    blocks = map(join_texts, chosen_texts(context, layout, partition, chosen))
    pieces = chain.from_iterable(map(partial(split_batch, max_bytes=most), blocks))  # holds no block beside the next
    for text in repack(pieces, most):
        while len(rows) < len(text):
            rows = np.concatenate([rows, next(found)])
        here, rows = rows[: len(text)], rows[len(text) :]
        yield WantedDocuments(here, *token_places.of(here), text)


def chosen_texts(
    context: PassagesContext, layout: Layout, partition: Partition, chosen: NDArray[np.bool_]
) -> Iterator[list[Bytes]]:
    """The texts of the documents of a partition that `chosen` [documents] marks, some at a time."""
    held, is_new = context.job.held, partition.number >= context.job.earlier_partitions
    job = context.job if is_new else replace(context.job, on_error="skip")  # an earlier run may have skipped records
    texts = context.texts() if is_new else job.texts(context.ops, context.parallel)
    for piece in partition.pieces:
        start, stop = (at - layout.partitions[partition.number] for at in piece_bounds(layout, piece))
        wanted = chosen[start:stop]
        if wanted.any():
            with nullcontext() if held is None or is_new else held.unchanged(piece.file):
                yield from texts.read_rows(piece, wanted)


class PlacedRows(Generic[Row]):
    """Rows of a table's files of some steps, where their first column, which ascends in each run, is in [start, stop).

    There may be many runs, and a search takes pages of each into memory. So all are searched once, and their least and
    greatest values kept.
    """

    def __init__(self, table: Table[Row], folder: Path, steps: Iterable[int], start: int, stop: int) -> None:
        self._table = table
        self._runs: list[tuple[int, int, MappedColumns[Row], Row]] = []
        for step in steps:
            file = table.open(folder, step)
            for run in file.runs():
                if (rows := slice_between(run[0], start, stop)).start < rows.stop:
                    found = table.rows(run, rows)
                    self._runs.append((int(found[0][0]), int(found[0][-1]), file, found))
                file.release()

    def between(self, start: int, stop: int) -> Row:
        """The rows whose first column is in [start, stop), run by run, as copies."""
        rows = self.runs(start, stop)
        return self._table.joined(self._table.row(*(column.copy() for column in run)) for run in rows)

    def runs(self, start: int, stop: int) -> Iterator[Row]:
        """`slice_between` run by run, without copies; a run is released before the next one is read."""
        for least, greatest, file, run in self._runs:
            if least < stop and start <= greatest and (rows := slice_between(run[0], start, stop)).start < rows.stop:
                yield self._table.rows(run, rows)
                file.release()
