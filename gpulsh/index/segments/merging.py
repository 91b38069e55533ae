"""Segments merged into one, a range of hashes at a time, so that memory does not grow with them.

What is merged lies in memory, or in files without a name (`scratch`) until it is written as a segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from gpulsh.arrays import Fingerprints, Numbers, Values
from gpulsh.index.segments.bands import Band, HeldBands
from gpulsh.index.segments.fingerprint_blocks import FingerprintRows, HeldRows, by_owner, whole_rows
from gpulsh.index.segments.segment import ALL, Documents, Hashes, Keys, Segment, among, within
from gpulsh.io.arrow.buffers import numbers, to_arrow
from gpulsh.ragged import end_to_end
from gpulsh.store.columns import Mapped
from gpulsh.store.scratch import Column

ROWS_AT_ONCE = 1 << 18  # merged at once
SAMPLED = 1 << 12  # rows of a part that one sample of its hashes stands for


def merged(parts: Sequence[Segment], removed: Numbers, folder: Path | None = None) -> Segment:
    """The live documents of several segments, which ascend by number; digests and fingerprints are read when used.

    With a `folder`, columns lie in files there.
    """
    live: list[_LiveRows] = []
    for part in parts:
        live.append(_LiveRows(part, removed, live[-1].stop if live else 0))
    scratch = _Scratch(parts, folder)
    documents = [scratch.column(column.dtype) for column in parts[0].documents]
    for part, rows in zip(parts, live, strict=True):
        for first in range(0, len(part), ROWS_AT_ONCE):
            last = min(first + ROWS_AT_ONCE, len(part))
            for column, values in zip(documents, part.documents.where(slice(first, last)), strict=True):
                column.append(values[rows.chosen(first, last)])
        part.let_go()

    def hashes(number: int, rows: slice) -> tuple[Values, ...]:
        own = parts[number].hashes
        chosen, row = live[number].moved(own.row[rows])
        return own.hash_0[rows][chosen], own.hash_1[rows][chosen], row

    hash_columns = [scratch.column(np.uint64), scratch.column(np.uint64), scratch.column(np.int64)]
    scratch.merge([part.hashes.hash_0 for part in parts], hashes, hash_columns, by=3)
    found = [part.keys for part in parts if part.keys is not None]
    keys = _merged_keys(found, live, scratch) if len(found) == len(parts) else None
    return Segment(
        Documents(*(column.whole() for column in documents)),
        Hashes(*(column.whole() for column in hash_columns)),
        _MergedBands(parts, removed, folder),
        _ChainedRows([part.fingerprints for part in parts], live),
        keys,
        entries=sum(part.entries for part in parts),
        mapped=scratch.mapped(),
    )


def joined(earlier: Segment, later: Segment) -> Segment:
    """Two segments in memory as one, all at once."""
    parts = (earlier, later)
    fingerprints = end_to_end([whole_rows(part.fingerprints) for part in parts])
    documents = Documents.joined(part.documents for part in parts)
    row = np.concatenate([earlier.hashes.row, later.hashes.row + len(earlier)])
    hash_0, hash_1 = (np.concatenate([part.hashes[half] for part in parts]) for half in range(2))
    order = np.lexsort((hash_1, hash_0))
    hashes = Hashes(hash_0[order], hash_1[order], row[order])
    bands = HeldBands.joined([part.bands for part in parts if isinstance(part.bands, HeldBands)])
    entries = earlier.entries + later.entries
    return Segment(documents, hashes, bands, HeldRows(fingerprints), _joined_keys(earlier, later), entries=entries)


def _joined_keys(earlier: Segment, later: Segment) -> Keys | None:
    if earlier.keys is None or later.keys is None:
        return None
    hashes = np.concatenate([earlier.keys.key_hash, later.keys.key_hash])
    row = np.concatenate([earlier.keys.key_row, later.keys.key_row + len(earlier)])
    order = np.argsort(hashes, kind="stable")
    return Keys(pa.concat_arrays([earlier.keys.key, later.keys.key]), hashes[order], row[order])


def in_memory(segment: Segment) -> Segment:
    """Return a segment that was merged of ones in memory with all in memory that would be merged when it is used."""
    assert isinstance(segment.bands, _MergedBands)
    rows = whole_rows(segment.fingerprints)
    return replace(segment, bands=segment.bands.together(), fingerprints=HeldRows(rows), filters=None, mapped=())


class _LiveRows:
    """The live rows of a segment; in what is merged they are rows from `start` to `stop`."""

    def __init__(self, part: Segment, removed: Numbers, start: int) -> None:
        self._start, self._count = start, len(part)
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
        return ALL if self._alive is None else self._alive[first:last]

    def moved(self, rows: Numbers) -> tuple[NDArray[np.bool_] | slice, Numbers]:
        """The live ones of `rows`, as an index of these, and what they become."""
        rows = within(rows, self._count)
        if self._alive is None:
            return ALL, rows + self._start
        alive = self._alive[rows]
        return alive, self._rank[rows[alive]] + self._start

    def before(self, rows: Numbers) -> Numbers:
        """What rows became `rows`."""
        return rows - self._start if self._alive is None else self._rows[rows - self._start]


class _Scratch:
    """Columns of what is being merged out of `parts`."""

    def __init__(self, parts: Sequence[Segment], folder: Path | None) -> None:
        self._parts, self._folder = parts, folder
        self._columns: list[Column] = []

    def column(self, dtype: DTypeLike) -> Column:
        column = Column(dtype, self._folder)
        self._columns.append(column)
        return column

    def mapped(self) -> tuple[Mapped, ...]:
        """All that may be let go."""
        return (*(file for part in self._parts for file in part.mapped), *self._columns)

    def merge(
        self,
        hashes: Sequence[NDArray[np.uint64]],
        read: Callable[[int, slice], tuple[Values, ...]],
        columns: Sequence[Column],
        *,
        by: int = 1,
    ) -> None:
        """Append to `columns`, in the order of the first `by` of them, what `read` gives of each part and some rows.

        Each of `hashes` ascends, as does what is read by them; where they are equal, earlier parts come first.
        """
        for rows in _ranges(hashes):
            read_rows = [read(number, chosen) for number, chosen in enumerate(rows)]
            found = [np.concatenate(values) for values in zip(*read_rows, strict=True)]
            order = np.lexsort(found[by - 1 :: -1]) if by > 1 else np.argsort(found[0], kind="stable")
            for column, values in zip(columns, found, strict=True):
                column.append(values[order])
            for part in self._parts:
                part.let_go()


def _ranges(hashes: Sequence[NDArray[np.uint64]]) -> Iterator[list[slice]]:
    """Rows of each part that have the same range of hashes, which ascend; about ROWS_AT_ONCE of all parts together."""
    samples = np.sort(np.concatenate([part[::SAMPLED] for part in hashes]))
    bounds = np.unique(samples[:: max(ROWS_AT_ONCE // SAMPLED, len(hashes))])[1:]
    starts = [0] * len(hashes)
    for bound in [*bounds, None]:
        stops = [len(part) if bound is None else int(np.searchsorted(part, bound)) for part in hashes]
        yield [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]
        starts = stops


def _merged_keys(parts: Sequence[Keys], live: Sequence[_LiveRows], scratch: _Scratch) -> Keys:
    def read(number: int, rows: slice) -> tuple[Values, ...]:
        chosen, row = live[number].moved(parts[number].key_row[rows])
        return parts[number].key_hash[rows][chosen], row

    columns = [scratch.column(np.uint64), scratch.column(np.int64)]
    scratch.merge([part.key_hash for part in parts], read, columns)
    hashes, row = (column.whole() for column in columns)
    return Keys(_chained_keys(parts, live, scratch), hashes, row)


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
    """The live keys of all parts in order, of some rows at a time."""
    for keys, rows in zip(parts, live, strict=True):
        for first in range(0, len(keys.key), ROWS_AT_ONCE):
            stretch = keys.key.slice(first, ROWS_AT_ONCE)
            chosen = rows.chosen(first, first + len(stretch))
            yield stretch.filter(to_arrow(chosen)) if isinstance(chosen, np.ndarray) else stretch


class _MergedBands(Sequence[Band]):
    """The digests of several segments less those of removed documents, merged a band at a time when asked for."""

    def __init__(self, parts: Sequence[Segment], removed: Numbers, folder: Path | None) -> None:
        self._parts, self._removed, self._folder = parts, removed, folder

    def __len__(self) -> int:
        return len(self._parts[0].bands)

    def __getitem__(self, band: Any) -> Any:
        if not 0 <= band < len(self):
            raise IndexError(band)
        bands = [part.bands[band] for part in self._parts]
        return Band(*self._merged([(found.digest, found.document) for found in bands], by=1))

    def together(self) -> HeldBands:
        """All bands of parts in memory, merged at once."""
        bands = [part.bands for part in self._parts if isinstance(part.bands, HeldBands)]
        return HeldBands(len(self), *self._merged([(held.digest, held.band, held.document) for held in bands], by=2))

    def _merged(self, parts: Sequence[tuple[Values, ...]], by: int) -> list[Values]:
        """The columns of `parts`, the last of which is the document; parts ascend by it, so that equal digests do."""

        def read(number: int, rows: slice) -> tuple[Values, ...]:
            found = tuple(column[rows] for column in parts[number])
            if len(self._removed) == 0:
                return found
            alive = ~among(found[-1], self._removed)
            return tuple(column[alive] for column in found)

        scratch = _Scratch(self._parts, self._folder)
        columns = [scratch.column(column.dtype) for column in parts[0]]
        scratch.merge([part[0] for part in parts], read, columns, by=by)
        return [column.whole() for column in columns]


class _ChainedRows:
    """The live rows of several, one after another."""

    def __init__(self, parts: Sequence[FingerprintRows], live: Sequence[_LiveRows]) -> None:
        self._parts, self._live = parts, live
        self._stops = np.array([rows.stop for rows in live], np.int64)

    def __len__(self) -> int:
        return int(self._stops[-1])

    def read(self, rows: Numbers) -> Fingerprints:
        """The rows `rows` [m], in that order."""
        owner = np.searchsorted(self._stops, rows, side="right")
        return by_owner(owner, lambda number, here: self._parts[number].read(self._live[number].before(rows[here])))
