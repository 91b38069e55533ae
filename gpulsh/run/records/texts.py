"""The texts and candidate pairs of one group, read from the files of all partitions and ranges.

`gather` has put the texts in order of groups, and `route` the pairs.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path

import numpy as np

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.io.files.file_texts import FileTexts, Partition, Piece
from gpulsh.io.rows import Bytes
from gpulsh.ragged import mask_of, offsets, slice_between
from gpulsh.run.job import Layout, step_of
from gpulsh.run.records.tables import CONNECT, GROUPS, MEMBERS, PLACES, Row, Table
from gpulsh.store.columns import MappedColumns


def texts_file(folder: Path, partition: int) -> Path:
    """The file of texts of a partition, end to end."""
    return folder / f"{step_of('gather', partition)}-texts.bin"


def adjacent_runs(size: Numbers, offset: Numbers, file: Numbers | None = None) -> list[tuple[int, int]]:
    """The beginning and end of each run of texts that are adjacent, in one `file` if there are several."""
    if not len(size):
        return []
    apart = offset[1:] != offset[:-1] + size[:-1]
    if file is not None:
        apart |= file[1:] != file[:-1]
    return list(pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), len(size)]))


class GroupTexts:
    """`io.rows.ChosenTexts` of a group: its `documents` in candidate pairs, ascending.

    `parts` are partitions and the documents that are wanted of each; None: all of the group.
    """

    def __init__(self, folder: Path, group: int, parts: Iterable[tuple[int, Numbers | None]]) -> None:
        none = np.empty(0, np.int64)
        documents, sizes, files, begins = [none], [none], [none], [none]
        for number, wanted in parts:
            there = PLACES.read(folder, number)
            bounds = np.array([group, group + 1], there.group.dtype)  # of another type, they would copy the column
            start, stop = np.searchsorted(there.group, bounds).tolist()
            rows: slice | Numbers = slice(start, stop)
            if wanted is not None:
                rows = start + np.searchsorted(there.document[rows], wanted)
            for found, column in ((documents, there.document), (sizes, there.size), (begins, there.offset)):
                found.append(np.array(column[rows]))
            files.append(np.full(len(sizes[-1]), number))
        self.documents, self.sizes = np.concatenate(documents), np.concatenate(sizes)
        self._files, self._offsets = np.concatenate(files), np.concatenate(begins)
        self._folder = folder

    def take(self, places: Numbers) -> TextBatch:
        """The documents at `places` [m], in that order, as a batch."""
        size = self.sizes[places]
        offset = offsets(size)
        data = np.empty(int(offset[-1]), np.uint8)
        file, begin = self._files[places], self._offsets[places]
        runs = np.array(adjacent_runs(size, begin, file), np.int64).reshape(-1, 2)
        runs = runs[np.argsort(file[runs[:, 0]], kind="stable")]
        first, low, high = runs[:, 0], offset[runs[:, 0]], offset[runs[:, 1]]
        wanted = zip(file[first].tolist(), begin[first].tolist(), low.tolist(), high.tolist(), strict=True)
        for number, pieces in groupby(wanted, itemgetter(0)):
            path = texts_file(self._folder, number)
            with open(path, "rb", buffering=0) as texts:
                for _, place, at, end in pieces:
                    while at < end:
                        count = os.preadv(texts.fileno(), [data.data[at:end]], place)
                        if not count:
                            raise EOFError(f"{path}: ends early")
                        place, at = place + count, at + count
        return TextBatch(data, offset)


def beginnings(
    folder: Path, layout: Layout, places: Collection[tuple[int, int]], most: int
) -> dict[tuple[int, int], bytes]:
    """By file and row, at most the first `most` bytes of each text that was gathered, while the work folder exists."""
    found, members = dict[tuple[int, int], bytes](), MEMBERS.read(folder, CONNECT)
    for file, row in sorted(places):
        document = int(layout.files[file]) + row
        at = int(np.searchsorted(members.document, document))
        if at < len(members.document) and members.document[at] == document and members.meets[at]:
            number = int(np.searchsorted(layout.partitions, document, side="right")) - 1
            texts = GroupTexts(folder, int(members.group[at]), [(number, np.array([document]))])
            found[file, row] = bytes(texts.take(np.zeros(1, np.int64)).values[:most])
    return found


def piece_bounds(layout: Layout, piece: Piece) -> tuple[int, int]:
    """The position of the first document of a piece, and the one after its last."""
    start, stop = layout.file_bounds(piece.file)
    return (start + piece.start, start + piece.start + piece.part.rows) if piece.part else (start, stop)


def chosen_pieces(layout: Layout, partition: Partition, documents: Numbers) -> Iterator[tuple[Piece, slice]]:
    """The pieces of a partition with some of the ascending `documents`, and which of them."""
    done = 0
    for piece in partition.pieces:
        last = int(np.searchsorted(documents, piece_bounds(layout, piece)[1]))
        if done < last:
            yield piece, slice(done, last)
        done = last


def texts_of_piece(texts: FileTexts, layout: Layout, piece: Piece, documents: Numbers) -> Iterator[list[Bytes]]:
    """The texts of ascending `documents` of a piece, some at a time."""
    start, stop = piece_bounds(layout, piece)
    return texts.read_rows(piece, mask_of(documents - start, stop - start))


def group_rows(table: Table[Row], folder: Path, count: int, group: int, first: tuple[int, int] | None = None) -> Row:
    """A group's rows in the first `count` files of a table, as `route` put them in order; with `first`, rows whose
    first column is in that range.

    That takes files of pairs, in which the first column ascends.
    """
    return table.joined(group_runs(table, folder, count, group, first))


def group_runs(
    table: Table[Row], folder: Path, count: int, group: int, first: tuple[int, int] | None = None
) -> Iterator[Row]:
    """The rows of `group_rows`, a run at a time."""
    for number in range(count):
        file = MappedColumns(GROUPS.path(folder, table.route_step(number)), table.row)
        for of, columns in zip(file.runs_of(GROUPS.row), file.runs(), strict=True):
            rows = slice_between(of.group, group, group + 1)
            if first is not None:
                low, high = np.searchsorted(columns[0][rows], first).tolist()
                rows = slice(rows.start + low, rows.start + high)
            if rows.start < rows.stop:
                yield table.row(*(column[rows].copy() for column in columns))
                file.release()  # the pages that all tasks read would add up
