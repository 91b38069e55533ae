"""Merge segments: in memory all at once, and for files a range of hashes at a time, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from gpulsh.arrays import Fingerprints, Numbers, Values
from gpulsh.index.blocks import FingerprintRows, HeldRows, by_owner
from gpulsh.index.segment import NOTHING, Band, Documents, Hashes, HeldBands, Keys, Segment, among
from gpulsh.io.arrow.buffers import numbers, to_arrow
from gpulsh.ragged import end_to_end
from gpulsh.store.columns import Mapped
from gpulsh.store.scratch import Column

ROWS_AT_ONCE = 1 << 18  # merged at once
SAMPLED = 1 << 12  # rows of a part for each sample of its hashes

Columns = tuple[Values, ...]


def joined(parts: Sequence[Segment], removed: Numbers = NOTHING) -> Segment:
    """The live documents of several segments in memory, which ascend by number, as one in memory."""
    live = _live_rows(parts, removed)

    def moved(columns: Sequence[Columns]) -> list[Values]:
        found = [rows.moved(own) for rows, own in zip(live, columns, strict=True)]
        return [np.concatenate(values) for values in zip(*found, strict=True)]

    documents = Documents.joined(
        part.documents.where(rows.chosen(0, len(part))) for part, rows in zip(parts, live, strict=True)
    )
    hash_0, hash_1, row = moved([part.hashes for part in parts])
    order = np.lexsort((hash_1, hash_0))
    hashes = Hashes(hash_0[order], hash_1[order], row[order])
    bands = HeldBands.joined([part.bands for part in parts if isinstance(part.bands, HeldBands)], removed)
    fingerprints = end_to_end([part.fingerprints for part in parts if isinstance(part.fingerprints, HeldRows)])
    if len(removed):
        fingerprints = fingerprints.read(np.flatnonzero(np.concatenate([part.live(removed) for part in parts])))
    keys = None
    if found := _all_keys(parts):
        key_hash, key_row = moved([(own.key_hash, own.key_row) for own in found])
        order = np.argsort(key_hash, kind="stable")
        keys = Keys(pa.concat_arrays(list(_live_stretches(found, live))), key_hash[order], key_row[order])
    return Segment(documents, hashes, bands, fingerprints, keys)


def merged(parts: Sequence[Segment], removed: Numbers, folder: Path | None = None) -> Segment:
    """The live documents of several segments, which ascend by number.

    Its digests and fingerprints are read from the parts when they are used. With a `folder`, its other columns are in
    files without names there.
    """
    live = _live_rows(parts, removed)
    scratch = _Scratch(parts, folder)
    documents = [scratch.column(column.dtype) for column in parts[0].documents]
    for part, rows in zip(parts, live, strict=True):
        for first in range(0, len(part), ROWS_AT_ONCE):
            last = min(first + ROWS_AT_ONCE, len(part))
            for column, values in zip(documents, part.documents.where(slice(first, last)), strict=True):
                column.append(values[rows.chosen(first, last)])
        part.release()

    def moved(number: int, columns: Columns) -> Columns:
        return live[number].moved(columns)

    hashes = scratch.merge([part.hashes for part in parts], moved, by=3)
    keys = None
    if found := _all_keys(parts):
        key_hash, key_row = scratch.merge([(own.key_hash, own.key_row) for own in found], moved)
        keys = Keys(_chained_keys(found, live, scratch), key_hash, key_row)
    return Segment(
        Documents(*(column.whole() for column in documents)),
        Hashes(*hashes),
        _MergedBands(parts, removed, folder),
        _ChainedRows([part.fingerprints for part in parts], live),
        keys,
        mapped=scratch.mapped(),
    )


class _LiveRows:
    """The live rows of a segment, which become the rows from `start` to `stop`."""

    def __init__(self, part: Segment, removed: Numbers, start: int) -> None:
        self._start = start
        self._alive: NDArray[np.bool_] | None = None
        self.stop = start + len(part)
        if len(removed):
            steps = range(0, len(part), ROWS_AT_ONCE)
            alive = [part.live(removed, slice(first, first + ROWS_AT_ONCE)) for first in steps]
            self._alive = np.concatenate([np.empty(0, np.bool_), *alive])
            self._rank = np.cumsum(self._alive) - 1
            self._rows = np.flatnonzero(self._alive)
            self.stop = start + len(self._rows)

    def chosen(self, first: int, last: int) -> NDArray[np.bool_] | slice:
        """The live ones of rows `first` to `last`, as an index of these."""
        return slice(None) if self._alive is None else self._alive[first:last]

    def moved(self, columns: Columns) -> Columns:
        """The live rows of columns, the last of which holds row numbers, with the new row numbers."""
        rows = columns[-1]
        if self._alive is None:
            return *columns[:-1], rows + self._start
        alive = self._alive[rows]
        return *(column[alive] for column in columns[:-1]), self._rank[rows[alive]] + self._start

    def before(self, rows: Numbers) -> Numbers:
        """The original rows of `rows`."""
        return rows - self._start if self._alive is None else self._rows[rows - self._start]


def _live_rows(parts: Sequence[Segment], removed: Numbers) -> list[_LiveRows]:
    live: list[_LiveRows] = []
    for part in parts:
        live.append(_LiveRows(part, removed, live[-1].stop if live else 0))
    return live


class _Scratch:
    """Columns that are merged from `parts`."""

    def __init__(self, parts: Sequence[Segment], folder: Path | None) -> None:
        self._parts, self._folder = parts, folder
        self._columns: list[Column] = []

    def column(self, dtype: DTypeLike) -> Column:
        column = Column(dtype, self._folder)
        self._columns.append(column)
        return column

    def mapped(self) -> tuple[Mapped, ...]:
        """All pages that can be released."""
        return (*(file for part in self._parts for file in part.mapped), *self._columns)

    def merge(self, parts: Sequence[Columns], kept: Callable[[int, Columns], Columns], *, by: int = 1) -> list[Values]:
        """The columns of all `parts` in the order of the first `by` of them, earlier parts first where they are equal.

        The first column of each part ascends. `kept` chooses from some rows of part number n.
        """
        columns = [self.column(column.dtype) for column in parts[0]]
        for rows in _ranges([part[0] for part in parts]):
            found = [
                kept(number, tuple(column[chosen] for column in part))
                for number, (part, chosen) in enumerate(zip(parts, rows, strict=True))
            ]
            whole = [np.concatenate(values) for values in zip(*found, strict=True)]
            order = np.lexsort(whole[by - 1 :: -1]) if by > 1 else np.argsort(whole[0], kind="stable")
            for column, values in zip(columns, whole, strict=True):
                column.append(values[order])
            for part in self._parts:
                part.release()
        return [column.whole() for column in columns]


def _ranges(hashes: Sequence[NDArray[np.uint64]]) -> Iterator[list[slice]]:
    """Rows of each part with the same range of ascending hashes, about ROWS_AT_ONCE of all parts together."""
    samples = np.sort(np.concatenate([part[::SAMPLED] for part in hashes]))
    bounds = np.unique(samples[:: max(ROWS_AT_ONCE // SAMPLED, len(hashes))])[1:]
    starts = [0] * len(hashes)
    for bound in [*bounds, None]:
        stops = [len(part) if bound is None else int(np.searchsorted(part, bound)) for part in hashes]
        yield [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]
        starts = stops


def _all_keys(parts: Sequence[Segment]) -> list[Keys]:
    """The keys of all parts; none if one has none."""
    found = [part.keys for part in parts if part.keys is not None]
    return found if len(found) == len(parts) else []


def _chained_keys(parts: Sequence[Keys], live: Sequence[_LiveRows], scratch: _Scratch) -> pa.Array:
    """The live keys of all parts, one after another, as a pyarrow.Array."""
    kind = parts[0].key.type
    if pa.types.is_integer(kind):
        integers = scratch.column(np.int64)
        for stretch in _live_stretches(parts, live):
            integers.append(numbers(stretch))
        return to_arrow(integers.whole())
    content, ends = scratch.column(np.uint8), scratch.column(np.int64)
    size = 0
    ends.append(np.zeros(1, np.int64))
    for stretch in _live_stretches(parts, live):
        _, offset, data = stretch.buffers()
        offsets = np.frombuffer(offset, np.int64, len(stretch) + 1, 8 * stretch.offset)
        content.append(np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]])
        ends.append(offsets[1:] - offsets[0] + size)
        size += int(offsets[-1] - offsets[0])
    buffers = [None, pa.py_buffer(ends.whole()), pa.py_buffer(content.whole())]
    return pa.Array.from_buffers(kind, len(buffers[1]) // 8 - 1, buffers)


def _live_stretches(parts: Sequence[Keys], live: Sequence[_LiveRows]) -> Iterator[pa.Array]:
    """The live keys of all parts in order, some rows at a time."""
    for keys, rows in zip(parts, live, strict=True):
        for first in range(0, len(keys.key), ROWS_AT_ONCE):
            stretch = keys.key.slice(first, ROWS_AT_ONCE)
            chosen = rows.chosen(first, first + len(stretch))
            yield stretch.filter(to_arrow(chosen)) if isinstance(chosen, np.ndarray) else stretch


class _MergedBands(Sequence[Band]):
    """The digests of several segments without those of removed documents; each band is merged when it is used."""

    def __init__(self, parts: Sequence[Segment], removed: Numbers, folder: Path | None) -> None:
        self._parts, self._removed, self._folder = parts, removed, folder

    def __len__(self) -> int:
        return len(self._parts[0].bands)

    def __getitem__(self, band: Any) -> Any:
        if not 0 <= band < len(self):
            raise IndexError(band)
        # Parts ascend by document, and so do equal digests of the result.
        return Band(*_Scratch(self._parts, self._folder).merge([part.bands[band] for part in self._parts], self._kept))

    def _kept(self, _: int, columns: Columns) -> Columns:
        if len(self._removed) == 0:
            return columns
        alive = ~among(columns[-1], self._removed)
        return tuple(column[alive] for column in columns)


class _ChainedRows:
    """The live rows of several parts, one after another."""

    def __init__(self, parts: Sequence[FingerprintRows], live: Sequence[_LiveRows]) -> None:
        self._parts, self._live = parts, live
        self._stops = np.array([rows.stop for rows in live], np.int64)

    def __len__(self) -> int:
        return int(self._stops[-1])

    def read(self, rows: Numbers) -> Fingerprints:
        """The rows `rows` [m], in that order."""
        owner = np.searchsorted(self._stops, rows, side="right")
        return by_owner(owner, lambda number, here: self._parts[number].read(self._live[number].before(rows[here])))
