"""The forest of connected documents: each document, the least one of its component, and how many pairs it is first of.

Merging files of FOREST and of COPIES holds 28 bytes for each document that they connect, and pieces of files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.lsh.collisions import Memberships
from gpulsh.lsh.pairs import renumbered
from gpulsh.ragged import first_of_runs, sorted_distinct
from gpulsh.run.job import Layout, Workplace
from gpulsh.run.records.tables import FOREST, MEMBERSHIPS, PAIRS, ForestRows, Pairs, Places, Ranges
from gpulsh.store.columns import Column, MappedColumns
from gpulsh.store.durable import FileFact

Files = MappedColumns[Any]

ROWS_AT_ONCE = 1 << 18
NO_PAIR = -1  # of a document that is only a copy


@dataclass(frozen=True)
class Forest:
    """The m documents that are connected with others."""

    document: Numbers  # [m] ascending
    label: Places  # [m] the place of the least document that each is connected with
    pairs: NDArray[np.int32]  # [m]


class ForestBuilder:
    """The forest of edges that come in pieces. It takes memory for the documents, not for the edges."""

    def __init__(self, total: int, ops: Backend) -> None:
        self._total, self._ops = total, ops
        self._document, self._label = np.empty(0, np.int64), np.empty(0, np.int64)
        self._first, self._pairs = np.empty(0, np.int64), np.empty(0, np.int64)

    def add(self, edges: Numbers) -> None:
        """Connect the documents of `edges` [m, 2]."""
        edges = np.concatenate([edges, np.stack([self._label, self._document], axis=1)])
        self._document, places = renumbered(edges, self._total)
        label = self._ops.asnumpy(self._ops.components(len(self._document), self._ops.asarray(places)))
        self._label = self._document[label]

    def count(self, first: Numbers) -> None:
        """Count the first documents of pairs, ascending; several pieces may overlap."""
        begins = np.flatnonzero(first_of_runs(first))
        known, pairs = first[begins], np.diff(np.append(begins, len(first)))
        if len(known) and len(self._first) and known[0] <= self._first[-1]:
            every = np.concatenate([self._first, known])
            self._first, places = np.unique(every, return_inverse=True)
            self._pairs, added = np.zeros(len(self._first), np.int64), np.concatenate([self._pairs, pairs])
            np.add.at(self._pairs, places, added)
        else:
            self._first, self._pairs = np.concatenate([self._first, known]), np.concatenate([self._pairs, pairs])

    def columns(self) -> ForestRows:
        """The forest as rows of FOREST."""
        pairs = np.zeros(len(self._document), np.int32)
        pairs[np.searchsorted(self._document, self._first)] = self._pairs
        return ForestRows(self._document, self._label, pairs)


def write_met(
    place: Workplace, layout: Layout, part: int, runs: Iterable[Numbers], memberships: Memberships
) -> dict[str, FileFact]:
    """PAIRS of a range from ascending runs [m, 2], MEMBERSHIPS, and the FOREST of the documents that both connect."""
    forest = ForestBuilder(len(layout), place.ops)
    with PAIRS.create(place.folder, part) as out:
        for pairs in runs:
            forest.add(pairs)
            forest.count(pairs[:, 0])
            out.append(Pairs(*np.ascontiguousarray(pairs.T)))
        made = out.finish_by_name()
    forest.add(np.stack([memberships.bucket, memberships.document], axis=1))
    made |= MEMBERSHIPS.write(place.folder, part, memberships)
    return made | FOREST.write(place.folder, part, forest.columns())


def merged(ops: Backend, folder: Path, ranges: Ranges) -> Forest:
    """The forests of all files of FOREST and of copies."""
    forests, copies = FOREST.all(folder, ranges.met), ranges.copied(folder)
    document = _documents(forests, copies)
    pairs = _pairs(document, forests)
    parent: Places = np.arange(len(document), dtype=np.int32 if len(document) < 1 << 31 else np.int64)
    with ops.here():
        for edges in _edges([*forests, *copies]):
            _connect(parent, np.searchsorted(document, edges), ops)
    for rows in pieces(len(parent)):  # parents come before their children
        parent[rows] = _roots(parent, parent[rows])
    return Forest(document, parent, pairs)


def pieces(rows: int) -> Iterator[slice]:
    """All rows, some at a time."""
    for start in range(0, rows, ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, rows))


def _documents(forests: Sequence[Files], copies: Sequence[Files]) -> Numbers:
    """int64 [m]: the documents of all files, ascending, each once."""
    columns = [file.whole().document for file in (*forests, *copies)]
    columns += [sorted_distinct(file.whole().first) for file in copies]
    each = max(1, ROWS_AT_ONCE // max(1, len(columns)))
    document = Column(np.int64)
    while columns := [column for column in columns if len(column)]:
        last = min(column[:each][-1] for column in columns)
        stops = [int(np.searchsorted(column[:each], last, side="right")) for column in columns]
        some = np.sort(np.concatenate([column[:stop] for column, stop in zip(columns, stops, strict=True)]))
        document.append(some[first_of_runs(some)])
        columns = [column[stop:] for column, stop in zip(columns, stops, strict=True)]
        for file in (*forests, *copies):
            file.release()
    return document.whole()


def _pairs(document: Numbers, forests: Sequence[Files]) -> NDArray[np.int32]:
    """int32 [m]: how often each document is the first of a candidate pair; a small bucket has few of them."""
    pairs = np.full(len(document), NO_PAIR, np.int32)
    for file in forests:
        known, _, count = file.whole()
        for rows in pieces(len(known)):
            places = np.searchsorted(document, known[rows])
            pairs[places] = np.maximum(pairs[places], 0) + count[rows]
            file.release()
    return pairs


def _edges(files: Sequence[Files]) -> Iterator[Numbers]:
    """Connected documents [m, 2], a piece of a file at a time."""
    for file in files:
        document, other, *_ = file.whole()
        for rows in pieces(len(document)):
            yield np.stack([other[rows], document[rows]], axis=1)
            file.release()


def _connect(parent: Places, edges: Numbers, ops: Backend) -> None:
    """Join the trees of `edges` [m, 2] of places, in place; the least of a tree is its root."""
    roots = _roots(parent, edges)
    apart = roots[roots[:, 0] != roots[:, 1]]
    known, places = np.unique(apart, return_inverse=True)
    least = ops.asnumpy(ops.components(len(known), ops.asarray(places.reshape(apart.shape))))
    parent[known] = known[least]
    parent[edges] = parent[roots]


def _roots(parent: Places, places: Places) -> Places:
    while bool(((above := parent[places]) != places).any()):
        places = above
    return places
