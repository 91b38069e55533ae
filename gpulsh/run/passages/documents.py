"""The documents of a partition that hold wanted tokens, read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.io.files.file_texts import Partition
from gpulsh.io.rows import joined, packed
from gpulsh.ragged import cuts, offsets, sorted_distinct
from gpulsh.run.job import Layout
from gpulsh.run.passages.job import PLACES, PassagesPlace
from gpulsh.run.records.tables import Row, Table
from gpulsh.run.records.texts import chosen_texts
from gpulsh.store.columns import MappedColumns

PLACES_AT_ONCE = 1 << 21  # of documents whose places are looked at together

Between = Callable[[int, int], Numbers]  # the wanted places from one to before another, ascending, each once


class Some(NamedTuple):
    """Some documents that hold wanted tokens."""

    rows: Numbers  # in the partition
    text: TextBatch
    places: Numbers  # all that are wanted of them, ascending


def bases(folder: Path, places: Layout, partition: int) -> Numbers:
    """int64 [documents + 1]: the place of the first token of each document of a partition, and that after the last."""
    taken = PLACES.read(folder, partition).places
    base: Numbers = offsets(taken) + places.partitions[partition]
    return base


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
    texts = (joined(pieces) for pieces in chosen_texts(place.texts(), layout, partition, documents))
    for text in packed(texts, place.ops.sizes().batch):
        here = rows[done : done + len(text)]
        done += len(text)
        yield Some(here, text, wanted(int(base[here[0]]), int(base[here[-1] + 1])))


def opened(table: Table[Row], folder: Path, steps: Iterable[int]) -> list[MappedColumns[Row]]:
    """A table's files of some steps."""
    return [table.open(table.path(folder, step)) for step in steps]


def rows_between(table: Table[Row], files: Sequence[MappedColumns[Row]], start: int, stop: int) -> Row:
    """The rows whose first column, which ascends in each run, is from `start` to before `stop`: file by file."""
    found = []
    for file in files:
        for run in file.runs():
            low, high = np.searchsorted(run[0], [start, stop]).tolist()
            if low < high:
                found.append(table.row(*(column[low:high].copy() for column in run)))
                file.release()  # what all searches look at would add up
    return table.joined(found)
