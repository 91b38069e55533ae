"""The documents of a partition that hold wanted tokens, read again; also of partitions of earlier runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Generic, NamedTuple

import numpy as np

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.io.files.file_texts import Partition
from gpulsh.io.rows import Bytes, joined, packed
from gpulsh.ragged import distinct, offsets
from gpulsh.run.job import Layout
from gpulsh.run.passages.job import PassagesPlace
from gpulsh.run.passages.tables import PLACES, TakenPlaces
from gpulsh.run.records.tables import Row, Table
from gpulsh.run.records.texts import chosen_pieces, chosen_texts, texts_of_piece
from gpulsh.store.columns import MappedColumns

PLACES_AT_ONCE = 1 << 19  # looked up together

Between = Callable[[int, int], Numbers]  # the wanted places from one to before another, ascending, each once


class Some(NamedTuple):
    """Some documents that hold wanted tokens."""

    rows: Numbers  # in the partition
    text: TextBatch


def bases(place: PassagesPlace, places: Layout, partition: int) -> Numbers:
    """int64 [documents + 1]: the place of the first token of each document in a partition, and the place after all."""
    held = place.job.held
    if held is None or partition >= len(held.partitions):
        taken = PLACES.read(place.folder, partition).places
    else:
        run = held.runs[bisect_right(held.runs, partition, key=lambda run: run.first) - 1]
        runs = MappedColumns(run.places, TakenPlaces).runs()
        (taken,) = next(islice(runs, partition - run.first, None))
    base: Numbers = offsets(taken) + places.partitions[partition]
    return base


def unchanged(place: PassagesPlace, partition: Partition) -> AbstractContextManager[None]:
    """As `Place.unchanged`, for a partition's files; files of earlier runs are checked when a text is read."""
    if partition.number < place.job.earlier_partitions:
        return nullcontext()
    return place.unchanged(piece.file for piece in partition.pieces)


def place_ranges(start: int, stop: int) -> list[tuple[int, int]]:
    """[start, stop) in ranges of places that are searched together."""
    starts = range(start, stop, PLACES_AT_ONCE)
    return [(low, min(low + PLACES_AT_ONCE, stop)) for low in starts]


def read_documents(
    place: PassagesPlace, layout: Layout, partition: Partition, base: Numbers, wanted: Between
) -> Iterator[Some]:
    """The documents with wanted places, in batches."""
    found = [np.empty(0, np.int64)]
    for low, high in place_ranges(*base[[0, -1]].tolist()):
        found.append(distinct(np.searchsorted(base, wanted(low, high), side="right") - 1))
    rows, done = distinct(np.concatenate(found)), 0
    documents = rows + layout.partitions[partition.number]
    if partition.number < place.job.earlier_partitions:
        found_texts = _held_texts(place, layout, partition, documents)
    else:
        found_texts = chosen_texts(place.texts(), layout, partition, documents)
    texts = map(joined, found_texts)
    for text in packed(texts, place.ops.sizes().batch):
        here = rows[done : done + len(text)]
        done += len(text)
        yield Some(here, text)


def _held_texts(
    place: PassagesPlace, layout: Layout, partition: Partition, documents: Numbers
) -> Iterator[list[Bytes]]:
    """The texts of documents of an earlier run, which may have skipped bad records."""
    held, texts = place.job.held, replace(place.job, on_error="skip").texts(place.ops, place.parallel)
    assert held is not None
    for piece, here in chosen_pieces(layout, partition, documents):
        with held.unchanged(piece.file):
            yield from texts_of_piece(texts, layout, piece, documents[here])


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
                if (rows := _between(run[0], start, stop)) is not None:
                    found = table.rows(run, rows)
                    self._runs.append((int(found[0][0]), int(found[0][-1]), file, found))
                file.release()

    def between(self, start: int, stop: int) -> Row:
        """The rows whose first column is in [start, stop), run by run, as copies."""
        rows = self.runs(start, stop)
        return self._table.joined(self._table.row(*(column.copy() for column in run)) for run in rows)

    def runs(self, start: int, stop: int) -> Iterator[Row]:
        """`between` run by run, without copies; a run is released before the next one is read."""
        for least, greatest, file, run in self._runs:
            if least < stop and start <= greatest and (rows := _between(run[0], start, stop)) is not None:
                yield self._table.rows(run, rows)
                file.release()


def _between(ascending: Numbers, start: int, stop: int) -> slice | None:
    """Where values are from `start` to before `stop`; None if none are."""
    low, high = np.searchsorted(ascending, [start, stop]).tolist()
    return slice(low, high) if low < high else None
