"""Merge segments: in memory all at once, and into files a range of hashes at a time, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from gpulsh.arrays import Fingerprints, Numbers, Values
from gpulsh.index.evidence.blocks import HeldRows, write_blocks
from gpulsh.index.evidence.places import PlaceKeys, Places, sources_of
from gpulsh.index.filters import Words, filter_of
from gpulsh.index.segment import (
    DIGESTS,
    FILTERS,
    INTACT,
    KINDS,
    NARROW,
    NOTHING,
    Documents,
    Hashes,
    HeldBands,
    Keys,
    Segment,
    StoredSegment,
    among,
    file_name,
    mapped,
    narrow,
    new_name,
    remove_files,
    wide,
    write_keys,
    write_places,
)
from gpulsh.io.arrow.buffers import numbers, to_arrow
from gpulsh.ragged import end_to_end, sorted_distinct
from gpulsh.store.columns import Column, columns_file, write_columns
from gpulsh.store.durable import FileFact, writing

ROWS_AT_ONCE = 1 << 18  # merged at once
SAMPLED = 1 << 12  # rows of a part for each sample of its hashes
SETS_AT_ONCE = 1 << 13  # rows whose fingerprints are in memory while they are written

COMPACT_DIGESTS = pa.schema([("digest", pa.uint64()), ("document", pa.uint32())])
WIDE_DIGESTS = pa.schema([("digest", pa.uint64()), ("document", pa.int64())])  # of more than NARROW documents

Columns = tuple[Values, ...]


def joined(parts: Sequence[Segment], removed: Numbers = NOTHING) -> Segment:
    """The live documents of several segments in memory, which ascend by number, as one in memory."""
    live = _live_rows(parts, removed)

    def moved(columns: Sequence[Columns]) -> list[Values]:
        found = [rows.moved(own) for rows, own in zip(live, columns, strict=True)]
        return [np.concatenate(values) for values in zip(*found, strict=True)]

    documents = Documents.joined(part.documents.where(rows.chosen()) for part, rows in zip(parts, live, strict=True))
    hash_0, hash_1, row = moved([part.hashes for part in parts])
    order = np.lexsort((hash_1, hash_0))
    hashes = Hashes(hash_0[order], hash_1[order], row[order])
    bands = HeldBands.joined([part.bands for part in parts if isinstance(part.bands, HeldBands)], removed)
    fingerprints = places = None
    if parts[0].fingerprints is not None:
        fingerprints = end_to_end([part.fingerprints for part in parts if isinstance(part.fingerprints, HeldRows)])
        if len(removed):
            fingerprints = fingerprints.read(np.flatnonzero(np.concatenate([part.live(removed) for part in parts])))
    if known := _all_places(parts):
        places = Places.joined(own.where(rows.chosen()) for own, rows in zip(known, live, strict=True))
    keys = None
    if found := _all_keys(parts):
        key_hash, key_row = moved([(own.key_hash, own.key_row) for own in found])
        order = np.argsort(key_hash, kind="stable")
        none = found[0].key.slice(0, 0)  # of no parts Arrow makes no array
        keys = Keys(pa.concat_arrays([none, *_live_stretches(found, live)]), key_hash[order], key_row[order])
    return Segment(documents, hashes, bands, fingerprints, keys, places, parts[0].at_source)


def stored(parts: Sequence[Segment], removed: Numbers, folder: Path) -> Segment:
    """The live documents of one or several segments, which ascend by number, as one in files of `folder`.

    Keys are written if all parts have them. Places are written if all parts have them; then fingerprints are not.
    """
    name, known = new_name(), _all_places(parts)
    try:
        with writing(folder, INTACT):
            merge = _Merge(parts, removed, folder)
            facts = merge.write({kind: folder / file_name(kind, name) for kind in KINDS})
    except BaseException:
        with suppress(OSError):
            remove_files(folder, name)
        raise
    return mapped(folder, StoredSegment(name, facts), sources_of(known))


class _LiveRows:
    """The live rows of a segment, which become the rows from `start` to `stop`."""

    def __init__(self, part: Segment, removed: Numbers, start: int) -> None:
        self.start = start
        self._alive: NDArray[np.bool_] | None = None
        self.stop = start + len(part)
        if len(removed):
            steps = range(0, len(part), ROWS_AT_ONCE)
            alive = [part.live(removed, slice(first, first + ROWS_AT_ONCE)) for first in steps]
            self._alive = np.concatenate([np.empty(0, np.bool_), *alive])
            self._rank = np.cumsum(self._alive) - 1
            self._before = np.flatnonzero(self._alive)
            self.stop = start + len(self._before)

    def chosen(self, first: int = 0, last: int | None = None) -> NDArray[np.bool_] | slice:
        """The live ones of rows `first` to `last`, as an index of these."""
        return slice(None) if self._alive is None else self._alive[first:last]

    def moved(self, columns: Columns) -> Columns:
        """The live rows of columns, with new row numbers in the last column."""
        rows = columns[-1]
        if self._alive is None:
            return *columns[:-1], wide(rows) + self.start
        alive = self._alive[rows]
        return *(column[alive] for column in columns[:-1]), self._rank[rows[alive]] + self.start

    def before(self, first: int, last: int) -> Numbers:
        """The original rows of those from `first` to `last` that are the segment's."""
        first, last = (min(max(row, self.start), self.stop) - self.start for row in (first, last))
        return np.arange(first, last) if self._alive is None else self._before[first:last]


def _live_rows(parts: Sequence[Segment], removed: Numbers) -> list[_LiveRows]:
    live: list[_LiveRows] = []
    for part in parts:
        live.append(_LiveRows(part, removed, live[-1].stop if live else 0))
    return live


class _Merge:
    """The live documents of `parts`, by column, in memory if all parts are, else in temporary files in `folder`."""

    def __init__(self, parts: Sequence[Segment], removed: Numbers, folder: Path) -> None:
        self._parts, self._removed, self._target = parts, removed, folder
        self._folder = folder if any(part.mapped for part in parts) else None
        self._live = _live_rows(parts, removed)
        self._is_one = len(parts) == 1 and len(removed) == 0

    def write(self, path: dict[str, Path]) -> dict[str, FileFact]:
        """Write the files of a segment, by kind; one band is in memory at a time."""
        parts = self._parts
        documents = Documents(*self._merged([part.documents for part in parts], self._documents))
        hashes = Hashes(*self._merged([part.hashes for part in parts], self._rows, by=3))
        facts = {
            "documents": write_columns(path["documents"], self._stored(documents._asdict())),
            "hashes": write_columns(path["hashes"], self._stored(hashes._asdict())),
        }
        if parts[0].at_source:
            number = documents.number
            base, beyond = (int(number[0]), int(number[-1]) + 1) if len(number) else (0, 0)
            del documents, hashes, number
            self._release()
            facts["digests"] = self._write_compact_digests(path["digests"], base, beyond)
        else:
            of_hashes = filter_of([hashes.hash_0])
            del documents, hashes
            self._release()
            facts |= self._write_digests(path, of_hashes)
        self._release()
        places = self._places()
        if places is None:
            facts["fingerprints"] = write_blocks(path["fingerprints"], self._fingerprints())
        else:
            facts["places"] = write_places(path["places"], places)
        if found := _all_keys(parts):
            key_hash, key_row = self._merged([(own.key_hash, own.key_row) for own in found], self._rows)
            facts["keys"] = write_keys(path["keys"], Keys(self._keys(found, places), key_hash, key_row), places)
        return facts

    def _stored(self, columns: dict[str, Values]) -> dict[str, Values]:
        """The columns as a file has them: with evidence at the source, numbers of 32 bits if they fit."""
        if self._parts[0].at_source:
            numbers = [name for name, column in columns.items() if column.dtype == np.int64]
            columns |= {name: narrow(columns[name], self._target) for name in numbers}
        return columns

    def _write_digests(self, path: dict[str, Path], of_hashes: Words) -> dict[str, FileFact]:
        parts = self._parts
        with columns_file(path["digests"], DIGESTS) as file, columns_file(path["filters"], FILTERS) as filters:
            for band in range(len(parts[0].bands)):
                digest, document = self._merged([part.bands[band] for part in parts], self._held)
                file.append([np.full(len(digest), band, np.uint16), digest, document])
                filters.append([filter_of([digest])])
            filters.append([of_hashes])
            return {"digests": file.finish(), "filters": filters.finish()}

    def _write_compact_digests(self, path: Path, base: int, beyond: int) -> FileFact:
        """Digests of documents from `base` to `beyond`, which are numbered from `base`."""
        is_wide = beyond - base > NARROW
        with columns_file(path, WIDE_DIGESTS if is_wide else COMPACT_DIGESTS) as file:
            for band in range(len(self._parts[0].bands)):
                digest, document = self._merged([part.bands[band] for part in self._parts], self._held)
                before = self._parts[0].base if self._is_one else 0
                own = document if before == base else document + np.int64(before - base)
                file.append([digest, own.astype(np.int64 if is_wide else np.uint32, copy=False)])
            return file.finish()

    def _merged(
        self, parts: Sequence[Columns], kept: Callable[[int, Columns], Columns], *, by: int = 1
    ) -> Sequence[Values]:
        """The columns of all `parts` in the order of the first `by` of them, earlier parts first where they are equal.

        The first column of each part ascends. `kept` chooses from some rows of part number n.
        """
        if self._is_one:
            return parts[0]
        columns: list[Column] = []
        for rows in _ranges([part[0] for part in parts]):
            found = [
                kept(number, tuple(column[chosen] for column in part))
                for number, (part, chosen) in enumerate(zip(parts, rows, strict=True))
            ]
            whole = [np.concatenate(values) for values in zip(*found, strict=True)]
            order = np.lexsort(whole[by - 1 :: -1]) if by > 1 else np.argsort(whole[0], kind="stable")
            columns = columns or [self._column(values.dtype) for values in whole]
            for column, values in zip(columns, whole, strict=True):
                column.append(values[order])
            self._release()
        return [column.whole() for column in columns]

    def _column(self, dtype: DTypeLike) -> Column:
        return Column(dtype, self._folder)

    def _release(self) -> None:
        for part in self._parts:
            part.release()

    def _rows(self, number: int, columns: Columns) -> Columns:
        return self._live[number].moved(columns)

    def _held(self, number: int, columns: Columns) -> Columns:
        digest, document = columns
        columns = digest, document + np.int64(self._parts[number].base)
        return _without(self._removed, columns, columns[-1:])

    def _documents(self, _: int, columns: Columns) -> Columns:
        return _without(self._removed, columns, columns[:2])

    def _fingerprints(self) -> Iterator[Fingerprints]:
        for first in range(0, self._live[-1].stop, SETS_AT_ONCE):
            rows = [live.before(first, first + SETS_AT_ONCE) for live in self._live]
            parts = zip(self._parts, rows, strict=True)
            found = [part.fingerprints.read(own) for part, own in parts if part.fingerprints is not None and len(own)]
            yield end_to_end(found)
            self._release()

    def _places(self) -> Places | None:
        """The live places of all parts, one after another; None if they have none."""
        known = _all_places(self._parts)
        if not known or self._is_one:
            return known[0] if known else None
        source, row = self._column(np.uint32), self._column(np.int64)
        for own, live in zip(known, self._live, strict=True):
            for first in range(0, len(own), ROWS_AT_ONCE):
                stretch = own.where(slice(first, first + ROWS_AT_ONCE))
                chosen = stretch.where(live.chosen(first, first + len(stretch)))
                source.append(chosen.source)
                row.append(chosen.row)
            self._release()
        return Places(source.whole(), row.whole(), sources_of(known))

    def _keys(self, found: Sequence[Keys], places: Places | None) -> pa.Array | PlaceKeys:
        """The live keys of all parts, one after another."""
        kind = found[0].key.type
        if self._is_one:
            return found[0].key
        if places is not None and all(isinstance(own.key, PlaceKeys) for own in found):
            return PlaceKeys(places)
        if pa.types.is_integer(kind):
            integers = self._column(np.int64)
            for stretch in _live_stretches(found, self._live):
                integers.append(numbers(stretch))
            return to_arrow(integers.whole())
        content, ends = self._column(np.uint8), self._column(np.int64)
        size = 0
        ends.append(np.zeros(1, np.int64))
        for stretch in _live_stretches(found, self._live):
            _, offset, data = stretch.buffers()
            offsets = np.frombuffer(offset, np.int64, len(stretch) + 1, 8 * stretch.offset)
            content.append(np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]])
            ends.append(offsets[1:] - offsets[0] + size)
            size += int(offsets[-1] - offsets[0])
        buffers = [None, pa.py_buffer(ends.whole()), pa.py_buffer(content.whole())]
        return pa.Array.from_buffers(kind, len(buffers[1]) // 8 - 1, buffers)


def _without(removed: Numbers, columns: Columns, numbers: Sequence[Numbers]) -> Columns:
    """The rows in which none of `numbers` was removed."""
    if len(removed) == 0:
        return columns
    alive = ~np.logical_or.reduce([among(column, removed) for column in numbers])
    return tuple(column[alive] for column in columns)


def _ranges(hashes: Sequence[NDArray[np.uint64]]) -> Iterator[list[slice]]:
    """Rows of each part with the same range of ascending hashes, about ROWS_AT_ONCE of all parts together."""
    samples = np.sort(np.concatenate([part[::SAMPLED] for part in hashes]))
    bounds = sorted_distinct(samples[:: max(ROWS_AT_ONCE // SAMPLED, len(hashes))])[1:]
    starts = [0] * len(hashes)
    for bound in [*bounds, None]:
        stops = [len(part) if bound is None else int(np.searchsorted(part, bound)) for part in hashes]
        yield [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]
        starts = stops


def _all_keys(parts: Sequence[Segment]) -> list[Keys]:
    """The keys of all parts; none if one has none."""
    found = [part.keys for part in parts if part.keys is not None]
    return found if len(found) == len(parts) else []


def _all_places(parts: Sequence[Segment]) -> list[Places]:
    """The places of all parts; none if one has none."""
    found = [part.places for part in parts if part.places is not None]
    return found if len(found) == len(parts) else []


def _live_stretches(parts: Sequence[Keys], live: Sequence[_LiveRows]) -> Iterator[pa.Array]:
    """The live keys of all parts in order, some rows at a time."""
    for keys, rows in zip(parts, live, strict=True):
        for first in range(0, len(keys.key), ROWS_AT_ONCE):
            stretch = keys.key.slice(first, ROWS_AT_ONCE)
            chosen = rows.chosen(first, first + len(stretch))
            yield stretch.filter(to_arrow(chosen)) if isinstance(chosen, np.ndarray) else stretch
