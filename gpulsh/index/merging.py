"""Merge segments: in memory all at once, and into files a range of hashes at a time, so that memory stays bounded."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, starmap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from gpulsh.arrays import Fingerprints, Numbers, Values
from gpulsh.index.evidence.blocks import write_blocks
from gpulsh.index.evidence.places import Places, Source
from gpulsh.index.filters import Words, bloom_filter
from gpulsh.index.segment import (
    ALL_ROWS,
    DIGESTS,
    FILTERS,
    KINDS,
    NARROW_LIMIT,
    NO_NUMBERS,
    Documents,
    Hashes,
    HeldBands,
    Keys,
    Segment,
    StoredSegment,
    as_int64,
    as_uint32,
    file_name,
    is_in,
    map_segment,
    remove_files,
    saving,
    write_keys,
    write_places,
)
from gpulsh.io.arrow.buffers import number_values, to_arrow
from gpulsh.ragged import concat_rows, sorted_distinct
from gpulsh.store.columns import Column, columns_file, write_columns
from gpulsh.store.durable import FileFact

ROWS_AT_ONCE = 1 << 18  # merged at once
SAMPLE_STEP = 1 << 12  # rows of a part for each sample of its hashes
SETS_AT_ONCE = 1 << 13  # rows whose fingerprints are in memory while they are written

COMPACT_DIGESTS = pa.schema([("digest", pa.uint64()), ("document", pa.uint32())])
WIDE_DIGESTS = pa.schema([("digest", pa.uint64()), ("document", pa.int64())])  # of more than NARROW_LIMIT documents

DOCUMENT_TYPES = (np.int64, np.int64, np.float64, np.int64)  # the types of `Documents`
REMOVED = -1  # instead of the new row of a removed document

SPILL_BYTES = 128 << 20  # most bytes of segments in memory before they are written to the index's folder
SMALL_BYTES = 1 << 16  # a segment of fewer bytes costs more to search by itself than to join with the next
SMALL_FILES, MAX_SMALL = 4 << 20, 64  # a segment in files of fewer bytes is small; so many of these may be the last

Columns = tuple[Values, ...]


def merge_in_memory(parts: Sequence[Segment], removed: Numbers = NO_NUMBERS) -> Segment:
    """The live documents of several segments in memory, which ascend by number, as one in memory."""
    merge = _Merge(parts, removed, None)
    bands = HeldBands.joined([part.bands for part in parts if isinstance(part.bands, HeldBands)], removed)
    sets = None if parts[0].fingerprints is None else concat_rows(list(merge.fingerprints()))
    found = merge.documents(), merge.hashes(), bands, sets, merge.keys(), merge.places()
    return Segment(*found, reads_source=parts[0].reads_source)


def merge_to_files(parts: Sequence[Segment], removed: Numbers, folder: Path) -> Segment:
    """The live documents of one or several segments, which ascend by number, as one in files of `folder`.

    Keys are written if all parts have them. Places are written if all parts have them; then fingerprints are not.
    """
    name = secrets.token_hex(8)  # that no segment has had, so a retried commit never overwrites files of a manifest
    merge = _Merge(parts, removed, folder if any(part.mapped for part in parts) else None)
    try:
        with saving(folder):
            facts = merge.write(folder, name)
    except BaseException:
        with suppress(OSError):
            remove_files(folder, name)
        raise
    return map_segment(folder, StoredSegment(name, facts), merge.sources)


class _Merge:
    """The live documents of `parts`, column by column: in memory, or in temporary files in `folder`."""

    def __init__(self, parts: Sequence[Segment], removed: Numbers, folder: Path | None) -> None:
        self._parts, self._removed, self._folder = parts, removed, folder
        self._starts: list[int] = []  # the new row of the first live document of each part
        self._new_row: list[Numbers | None] = []  # of each document of a part, or REMOVED; None: none is removed
        start = 0
        for part in parts:
            self._starts.append(start)
            if len(removed) == 0:
                self._new_row.append(None)
                start += len(part)
                continue
            steps = range(0, len(part), ROWS_AT_ONCE)
            alive = np.concatenate(
                [np.empty(0, np.bool_), *(part.is_live(removed, slice(at, at + ROWS_AT_ONCE)) for at in steps)]
            )
            rank = np.cumsum(alive) + (start - 1)
            self._new_row.append(np.where(alive, rank, REMOVED))
            start += int(alive.sum())
        self._known_places = [part.places for part in parts if part.places is not None]
        # Sources are only ever appended, so the longest list has all of the index.
        self.sources: Sequence[Source] = max((part.sources for part in self._known_places), key=len, default=())

    def write(self, folder: Path, name: str) -> dict[str, FileFact]:
        """Write the files of the segment `name`, by kind; one band is in memory at a time."""
        path = {kind: folder / file_name(kind, name) for kind in KINDS}
        is_compact = self._parts[0].reads_source

        def write(kind: str, columns: dict[str, Any]) -> FileFact:
            if is_compact:  # numbers of 32 bits, if they fit
                columns = {
                    name: as_uint32(column, folder) if column.dtype == np.int64 else column
                    for name, column in columns.items()
                }
            return write_columns(path[kind], columns)

        documents, hashes = self.documents(), self.hashes()
        facts = {"documents": write("documents", documents._asdict()), "hashes": write("hashes", hashes._asdict())}
        number, of_hashes = documents.number, np.empty(0, np.uint64) if is_compact else bloom_filter([hashes.hash_0])
        first, stop = (int(number[0]), int(number[-1]) + 1) if len(number) else (0, 0)
        del documents, hashes, number
        self._release()
        facts |= self._write_compact_digests(path, first, stop) if is_compact else self._write_digests(path, of_hashes)
        self._release()
        places = self.places()
        if places is None:
            facts["fingerprints"] = write_blocks(path["fingerprints"], self.fingerprints())
        else:
            facts["places"] = write_places(path["places"], places)
        if (keys := self.keys()) is not None:
            facts["keys"] = write_keys(path["keys"], keys, places)
        return facts

    def _write_digests(self, path: dict[str, Path], of_hashes: Words) -> dict[str, FileFact]:
        with columns_file(path["digests"], DIGESTS) as file, columns_file(path["filters"], FILTERS) as filters:
            for band in range(self._parts[0].band_count):
                digest, document = self._sorted_by_hash([part.band(band) for part in self._parts], self._live_digests)
                file.append([np.full(len(digest), band, np.uint16), digest, document])
                filters.append([bloom_filter([digest])])
            filters.append([of_hashes])
            return {"digests": file.finish(), "filters": filters.finish()}

    def _write_compact_digests(self, path: dict[str, Path], first: int, stop: int) -> dict[str, FileFact]:
        """Digests of documents from `first` to `stop`, which are numbered from `first`."""
        is_wide = stop - first > NARROW_LIMIT
        with columns_file(path["digests"], WIDE_DIGESTS if is_wide else COMPACT_DIGESTS) as file:
            for band in range(self._parts[0].band_count):
                digest, document = self._sorted_by_hash([part.band(band) for part in self._parts], self._live_digests)
                own = (document - np.int64(first)).astype(np.int64 if is_wide else np.uint32, copy=False)
                file.append([digest, own])
            return {"digests": file.finish()}

    def documents(self) -> Documents:
        return Documents(*self._concatenated([part.documents for part in self._parts], DOCUMENT_TYPES))

    def hashes(self) -> Hashes:
        return Hashes(*self._sorted_by_hash([part.hashes for part in self._parts], self._renumbered_hashes, by=2))

    def fingerprints(self) -> Iterator[Fingerprints]:
        """The sets of all live documents, some rows at a time, at least once."""
        waiting: list[Fingerprints] = []
        for part, new_row in zip(self._parts, self._new_row, strict=True):
            if new_row is None and isinstance(part.fingerprints, Fingerprints):
                waiting.append(part.fingerprints)
                continue
            rows = np.arange(len(part)) if new_row is None else np.flatnonzero(new_row != REMOVED)
            for first in range(0, max(len(rows), 1), SETS_AT_ONCE):
                waiting.append(part.sets(rows[first : first + SETS_AT_ONCE]))
                if sum(map(len, waiting)) >= SETS_AT_ONCE:
                    yield concat_rows(waiting)
                    waiting = []
            part.release()
        if waiting:
            yield concat_rows(waiting)

    def places(self) -> Places | None:
        """The places of all live documents; None if a part has none."""
        known = self._known_places
        if len(known) < len(self._parts):
            return None
        source, row = self._concatenated([(own.source, own.row) for own in known], (np.uint32, np.int64))
        return Places(source, row, self.sources)

    def keys(self) -> Keys | None:
        """The keys of all live documents; None if a part has none."""
        known = [part.keys for part in self._parts if part.keys is not None]
        if len(known) < len(self._parts):
            return None
        hashes = self._sorted_by_hash([(own.key_hash, own.key_row) for own in known], self._renumbered_hashes)
        return Keys(None if all(own.key is None for own in known) else self._concatenated_keys(), *hashes)

    def _concatenated_keys(self) -> pa.Array:
        def live(number: int, first: int, alive: NDArray[np.bool_] | slice) -> pa.Array:
            some = self._parts[number].keys_at(slice(first, first + ROWS_AT_ONCE))
            return some.filter(to_arrow(alive)) if isinstance(alive, np.ndarray) else some

        none, stretches = self._parts[0].keys_at(slice(0, 0)), starmap(live, self._steps())
        if self._folder is None:
            return pa.concat_arrays([none, *stretches])  # of no parts Arrow makes no array
        if pa.types.is_integer(none.type):
            integers = Column(np.int64, self._folder)
            for stretch in stretches:
                integers.append(number_values(stretch))
            return to_arrow(integers.whole())
        content, ends = Column(np.uint8, self._folder), Column(np.int64, self._folder)
        size = 0
        ends.append(np.zeros(1, np.int64))
        for stretch in stretches:
            _, offset, data = stretch.buffers()
            offsets = np.frombuffer(offset, np.int64, len(stretch) + 1, 8 * stretch.offset)
            content.append(np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]])
            ends.append(offsets[1:] - offsets[0] + size)
            size += int(offsets[-1] - offsets[0])
        buffers = [None, pa.py_buffer(ends.whole()), pa.py_buffer(content.whole())]
        return pa.Array.from_buffers(none.type, len(buffers[1]) // 8 - 1, buffers)

    def _concatenated(self, parts: Sequence[Columns], kinds: Sequence[DTypeLike]) -> Sequence[Values]:
        """The live rows of columns, part after part, as these types."""
        columns = [Column(kind, self._folder) for kind in kinds]
        for number, first, alive in self._steps():
            for column, values in zip(columns, parts[number], strict=True):
                column.append(values[first : first + ROWS_AT_ONCE][alive])
        return [column.whole() for column in columns]

    def _steps(self) -> Iterator[tuple[int, int, NDArray[np.bool_] | slice]]:
        """ROWS_AT_ONCE rows of a part at a time: the number of the part, the first row, and which are live."""
        for number, (part, new_row) in enumerate(zip(self._parts, self._new_row, strict=True)):
            for first in range(0, len(part), ROWS_AT_ONCE):
                yield number, first, ALL_ROWS if new_row is None else new_row[first : first + ROWS_AT_ONCE] != REMOVED
            part.release()

    def _sorted_by_hash(
        self, parts: Sequence[Columns], kept: Callable[[int, Columns], Columns], *, by: int = 1
    ) -> Sequence[Values]:
        """The columns of all `parts` in the order of the first `by` of them, earlier parts first where they are equal.

        The first column of each part ascends. `kept` chooses from some rows of part number n.
        """
        columns: list[Column] = []
        for rows in _hash_ranges([part[0] for part in parts]):
            found = [
                kept(number, tuple(column[chosen] for column in part))
                for number, (part, chosen) in enumerate(zip(parts, rows, strict=True))
            ]
            whole = [np.concatenate(values) for values in zip(*found, strict=True)]
            order = np.lexsort(whole[by - 1 :: -1]) if by > 1 else np.argsort(whole[0], kind="stable")
            columns = columns or [Column(values.dtype, self._folder) for values in whole]
            for column, values in zip(columns, whole, strict=True):
                column.append(values[order])
            self._release()
        return [column.whole() for column in columns]

    def _renumbered_hashes(self, number: int, columns: Columns) -> Columns:
        """Hashes of live documents of a part, with the new row of each in the last column."""
        *hashes, row = columns
        new_row = self._new_row[number]
        if new_row is None:
            return *hashes, as_int64(row) + self._starts[number]
        found = new_row[row]
        alive = found != REMOVED
        return *(column[alive] for column in hashes), found[alive]

    def _live_digests(self, number: int, columns: Columns) -> Columns:
        """Digests of live documents of a part, with the numbers of the documents."""
        digest, document = columns[0], columns[1] + np.int64(self._parts[number].base)
        if len(self._removed) == 0:
            return digest, document
        alive = ~is_in(document, self._removed)
        return digest[alive], document[alive]

    def _release(self) -> None:
        for part in self._parts:
            part.release()


def _hash_ranges(hashes: Sequence[NDArray[np.uint64]]) -> Iterator[list[slice]]:
    """Rows of each part with the same range of ascending hashes, about ROWS_AT_ONCE of all parts together."""
    samples = np.sort(np.concatenate([part[::SAMPLE_STEP] for part in hashes]))
    bounds = sorted_distinct(samples[:: max(ROWS_AT_ONCE // SAMPLE_STEP, len(hashes))])[1:]
    starts = [0] * len(hashes)
    for bound in [*bounds, None]:
        stops = [len(part) if bound is None else int(np.searchsorted(part, bound)) for part in hashes]
        yield [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]
        starts = stops


def spill_bytes(memory: int | None) -> int:
    """The most bytes of segments in memory, under a budget of `memory` bytes."""
    return SPILL_BYTES if memory is None else min(SPILL_BYTES, memory >> 4)


def merge_small(segments: Sequence[Segment], folder: Path | None, spill: int) -> list[Segment]:
    """The same documents in fewer segments: each one in memory has more than twice the bytes of the next.

    So each document is joined about log2(n) times. With a folder, segments in memory that together have more than
    `spill` bytes are merged into files, a range of hashes at a time.
    """
    most = 1 << 62 if folder is None else spill
    found: list[Segment] = []
    for segment in segments:
        while found and not found[-1].files and not segment.files:
            earlier, later = found[-1].bytes, segment.bytes
            if earlier + later > most or earlier > max(2 * later, SMALL_BYTES):
                break
            segment = merge_in_memory([found.pop(), segment])
        found.append(segment)
    if folder is not None and sum(segment.bytes for segment in found) > spill:
        return write_segments(found, NO_NUMBERS, folder)
    return found


def write_segments(segments: Sequence[Segment], removed: Numbers, folder: Path) -> list[Segment]:
    """All segments in files of `folder`; several in memory that follow one another become one without `removed`."""
    found: list[Segment] = []
    for in_memory, run in groupby(segments, lambda segment: segment.files is None):
        parts = list(run)
        found += [merge_to_files(parts, removed if len(parts) > 1 else NO_NUMBERS, folder)] if in_memory else parts
    return found


def merge_small_files(segments: Sequence[Segment], removed: Numbers, folder: Path) -> list[Segment]:
    """The segments, all in files; if more than MAX_SMALL at the end are small, these as one without `removed`.

    Each segment costs time at every commit, and six of the 65,530 memory maps that Linux allows a process.
    """
    start = len(segments)
    while start and sum(fact.size for fact in (segments[start - 1].files or {}).values()) < SMALL_FILES:
        start -= 1
    small = segments[start:]
    return [*segments[:start], merge_to_files(small, removed, folder)] if len(small) > MAX_SMALL else [*segments]
