"""The documents of many files as one source: a pass in order, then a chosen few again from a mapped copy."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch
from gpulsh.backends.in_order import in_order
from gpulsh.io.format import BLOCK_BYTES, Block, Columns, Divisible, File, Mask, Part, wrong_length
from gpulsh.io.inputs import format_of
from gpulsh.io.rows import Bytes, joined, packed


class FileTexts:
    """Documents of `files`, one after another. Of each it holds the size of its text and, where asked, its key.

    With more than one of `readers`, so many threads decode the parts of files that have parts, two parts ahead each.
    """

    def __init__(self, files: Sequence[File], columns: Columns, work: Path, readers: int = 1) -> None:
        self.files = files
        self.columns = columns
        self.keys: list[Any] = []  # blocks of the key column, in order
        self.sizes: NDArray[np.int64] = np.zeros(0, np.int64)  # [n] UTF-8 bytes, 0 where null
        self.starts: NDArray[np.int64] = np.zeros(1, np.int64)  # [files + 1] position of each file's first row
        self._work, self._readers = work, readers
        self._nulls = 0
        self._choices = 0

    def __len__(self) -> int:
        return int(self.starts[-1])

    def check(self) -> int | None:
        """About how many bytes of text to expect; InputError where the head of a file shows that it cannot be used."""
        sizes = [format_of(file).check(file, self.columns) for file in self.files]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def batches(self, max_bytes: int) -> Iterator[TextBatch]:
        """All documents once, in order; a batch stays below `max_bytes` unless one document alone is larger."""
        self.keys, self._nulls = [], 0
        sizes: list[NDArray[np.int64]] = []
        counts = np.zeros(len(self.files), np.int64)
        yield from packed(self._slices(max_bytes, sizes, counts), max_bytes)
        self.sizes = np.concatenate([np.zeros(0, np.int64), *sizes])
        self.starts = np.concatenate([[0], np.cumsum(counts)])

    def _slices(self, max_bytes: int, sizes: list[NDArray[np.int64]], counts: NDArray[np.int64]) -> Iterator[TextBatch]:
        for number, block in self._blocks(max_bytes):
            sizes.append(block.texts.lengths())
            self._nulls += block.texts.nulls()
            if self.columns.key is not None:
                self.keys.append(block.key)
            counts[number] += len(block.texts)
            yield from block.texts.slices(max_bytes)

    def _blocks(self, max_bytes: int) -> Iterator[tuple[int, Block]]:
        """All blocks in order, each with the number of its file."""
        formats = [format_of(file) for file in self.files]

        def divided(number: int) -> bool:
            return self._readers > 1 and isinstance(formats[number], Divisible)

        # A block of half a batch is a batch of its own, which nobody has to copy.
        def read(job: tuple[int, Divisible, Part]) -> list[tuple[int, Block]]:
            number, kind, part = job
            blocks = kind.read_part(self.files[number], self.columns, part, max(BLOCK_BYTES, max_bytes // 2))
            return [(number, block) for block in blocks]

        for together, numbers in groupby(range(len(self.files)), divided):
            if together:
                jobs = self._parts([(number, formats[number]) for number in numbers])
                for blocks in in_order(jobs, [read] * self._readers):
                    yield from blocks
                continue
            for number in numbers:
                for block in formats[number].read(self.files[number], self.columns):
                    yield number, block

    def _parts(self, files: list[tuple[int, Any]]) -> Iterator[tuple[int, Divisible, Part]]:
        for number, kind in files:
            for part in kind.parts(self.files[number], self.columns):
                yield number, kind, part

    def nulls(self) -> int:
        """How many documents were null; complete after `batches` is exhausted."""
        return self._nulls

    def locate(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The number of the file and the row in it, int64 [m] each, of the documents at `positions`."""
        files = np.searchsorted(self.starts, positions, side="right") - 1
        return files, positions - self.starts[files]

    def choose(self, ids: NDArray[np.int64]) -> FileChoice:
        """The documents `ids` [chosen], ascending, copied from their files into one that is mapped into memory."""
        self._choices += 1
        path = self._work / f"texts-{self._choices}"
        sizes = self.sizes[ids]
        with open(path, "wb") as out:
            for number, wanted in self._by_file(ids):
                file = self.files[number]
                for block in format_of(file).read(file, self.columns, wanted):
                    rows = np.flatnonzero(wanted[block.start : block.start + len(block.texts)])
                    out.writelines(block.texts.pieces(rows))
                    wanted[block.start : block.start + len(block.texts)] = False
                # Offsets are from the first pass: a file that changed since would shift every text after it.
                end = int(np.searchsorted(ids, self.starts[number + 1]))
                if wanted.any() or out.tell() != int(sizes[:end].sum()):
                    raise wrong_length(file)
        return FileChoice(path, sizes)

    def values(self, column: str, positions: NDArray[np.int64]) -> list[Any]:
        """The column at `positions`, ascending: one pyarrow.Array a file, in its own type."""
        return [
            format_of(self.files[number]).values(self.files[number], column, np.flatnonzero(wanted))
            for number, wanted in self._by_file(positions)
        ]

    def kinds(self, column: str) -> list[Any]:
        """The column's pyarrow.DataType in each file that declares one."""
        kinds = (format_of(file).kind(file, column) for file in self.files)
        return [kind for kind in kinds if kind is not None]

    def _by_file(self, positions: NDArray[np.int64]) -> Iterator[tuple[int, Mask]]:
        for number in np.unique(self.locate(positions)[0]).tolist():
            start, stop = int(self.starts[number]), int(self.starts[number + 1])
            first, last = np.searchsorted(positions, [start, stop])
            wanted = np.zeros(stop - start, np.bool_)
            wanted[positions[first:last] - start] = True
            yield number, wanted


class FileChoice:
    """Chosen documents in one file, mapped into memory."""

    def __init__(self, path: Path, sizes: NDArray[np.int64]) -> None:
        self._sizes = sizes
        self._offset = np.concatenate(([0], np.cumsum(sizes)))
        self._data = memoryview(b"")
        if self._offset[-1]:  # nothing cannot be mapped
            with open(path, "rb") as source:
                self._data = memoryview(mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ))
        os.unlink(path)  # the map keeps it alive, and nothing is left behind

    def take(self, places: NDArray[np.int64]) -> TextBatch:
        """The documents at `places` [m] of the choice, in that order, as a batch of their own."""
        data = self._data
        pieces: list[Bytes] = [
            data[start:stop]
            for start, stop in zip(self._offset[places].tolist(), self._offset[places + 1].tolist(), strict=True)
        ]
        return joined(pieces)

    def sizes(self) -> NDArray[np.int64]:
        """int64 [chosen]: UTF-8 bytes of each document of the choice."""
        return self._sizes
