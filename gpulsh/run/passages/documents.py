"""The documents of a partition that hold wanted tokens, read again; also of partitions of earlier runs."""

from __future__ import annotations

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
from gpulsh.ragged import cuts, offsets, sorted_distinct
from gpulsh.run.job import Layout
from gpulsh.run.passages.job import PLACES, PassagesPlace
from gpulsh.run.records.tables import Row, Table
from gpulsh.run.records.texts import chosen_pieces, chosen_texts, texts_of_piece
from gpulsh.store.columns import MappedColumns

PLACES_AT_ONCE = 1 << 21  # of documents whose places are looked at together

Between = Callable[[int, int], Numbers]  # the wanted places from one to before another, ascending, each once


class Some(NamedTuple):
    """Some documents that hold wanted tokens."""

    rows: Numbers  # in the partition
    text: TextBatch
    places: Numbers  # all that are wanted of them, ascending


def bases(place: PassagesPlace, places: Layout, partition: int) -> Numbers:
    """int64 [documents + 1]: the place of the first token of each document of a partition, and that after the last."""
    held = place.job.held
    if held is None or partition >= len(held.partitions):
        taken = PLACES.read(place.folder, partition).places
    else:
        run = held.run_of(partition)
        (taken,) = next(islice(PLACES.open(run.places).runs(), partition - run.first, None))
    base: Numbers = offsets(taken) + places.partitions[partition]
    return base


def unchanged(place: PassagesPlace, partition: Partition) -> AbstractContextManager[None]:
    """As `Place.unchanged`, of a partition's files; those of earlier runs are checked when a text of them is read."""
    if partition.number < place.job.earlier_partitions:
        return nullcontext()
    return place.unchanged(piece.file for piece in partition.pieces)


def document_runs(base: Numbers) -> Iterator[tuple[int, int]]:
    """[start, stop) of documents whose places are looked at together."""
    return cuts(base - base[0], PLACES_AT_ONCE)


def read_documents(
    place: PassagesPlace, layout: Layout, partition: Partition, base: Numbers, wanted: Between
) -> Iterator[Some]:
    """The documents with wanted places, in batches."""
    found = [np.empty(0, np.int64)]
    for start, stop in document_runs(base):
        there = wanted(int(base[start]), int(base[stop]))
        found.append(start + sorted_distinct(np.searchsorted(base[start : stop + 1], there, side="right") - 1))
    rows, done = np.concatenate(found), 0
    documents = rows + layout.partitions[partition.number]
    read = _held_texts if partition.number < place.job.earlier_partitions else _own_texts
    texts = (joined(pieces) for pieces in read(place, layout, partition, documents))
    for text in packed(texts, place.ops.sizes().batch):
        here = rows[done : done + len(text)]
        done += len(text)
        yield Some(here, text, wanted(int(base[here[0]]), int(base[here[-1] + 1])))


def _own_texts(place: PassagesPlace, layout: Layout, partition: Partition, documents: Numbers) -> Iterator[list[Bytes]]:
    return chosen_texts(place.texts(), layout, partition, documents)


def _held_texts(
    place: PassagesPlace, layout: Layout, partition: Partition, documents: Numbers
) -> Iterator[list[Bytes]]:
    """The same of an earlier run, which may have skipped bad records: these are in none of the documents."""
    held, texts = place.job.held, replace(place.job, on_error="skip").texts(place.ops, place.parallel)
    assert held is not None
    for piece, here in chosen_pieces(layout, partition, documents):
        with held.unchanged(piece.file):
            yield from texts_of_piece(texts, layout, piece, documents[here])


class PlacedRows(Generic[Row]):
    """Rows of a table's files of some steps, where their first column, which ascends in each run, is in [start, stop).

    The runs are searched for the range once, for there may be many. What searches look at would add up, so it is
    released.
    """

    def __init__(self, table: Table[Row], folder: Path, steps: Iterable[int], start: int, stop: int) -> None:
        self._table = table
        self._runs: list[tuple[MappedColumns[Row], Row]] = []
        for step in steps:
            file = table.open(table.path(folder, step))
            for run in file.runs():
                if (rows := _between(run[0], start, stop)) is not None:
                    self._runs.append((file, table.rows(run, rows)))
            file.release()

    def between(self, start: int, stop: int) -> Row:
        """Those from `start` to before `stop`, run by run."""
        found = []
        for file, run in self._runs:
            if (rows := _between(run[0], start, stop)) is not None:
                found.append(self._table.row(*(column[rows].copy() for column in run)))
                file.release()
        return self._table.joined(found)

    def runs(self) -> Iterator[Row]:
        """All of them, in place, run by run; those that were read are released."""
        for file, run in self._runs:
            yield run
            file.release()


def _between(ascending: Numbers, start: int, stop: int) -> slice | None:
    """Where values are from `start` to before `stop`; None if none are."""
    low, high = np.searchsorted(ascending, [start, stop]).tolist()
    return slice(low, high) if low < high else None
