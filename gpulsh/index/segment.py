"""A segment of an index: the documents of some commits, sorted for each way of looking them up.

A segment has six Arrow IPC files, which never change once they are written:

- `documents`: number, witness, similarity, size; one row per document, ascending by number. A held document is its own
  witness. For a dropped one, `witness` is the number of the document that it duplicates. `size` counts the fingerprints
  that the segment holds of it.
- `digests`: band, digest, document (its number), sorted in this order. One record batch per band, of held documents
  only. By containment there is one band, and its digests are all fingerprints.
- `hashes`: hash_0, hash_1, row; the 128-bit hash of every document with a token, sorted.
- `fingerprints`: the unique fingerprints of each row of `documents`, in blocks (`blocks`).
- `filters`: word; one record batch per band, a Bloom filter (`filters`) of its digests, and a last one of hash_0.
- `keys`: key, one row per document; key_hash and key_row, the sorted hashes of the keys and their rows.

With evidence at the source, a segment has no `fingerprints` and `filters`; the filters of `groups` suffice. Instead it
has `places`, the source and row of each text. `digests` lack the band, and `document` counts from the segment's first
number. Numbers, rows and sizes have 32 bits if all of a column fit, otherwise 64. `keys` lack the keys themselves if
each is FILE:ROW of its place. Until a change ends, the segments that it has written hold fingerprints, and neither keys
nor places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.cached import cached_value
from gpulsh.index.evidence.blocks import BlockRows
from gpulsh.index.evidence.places import PlaceColumns, Places, Source
from gpulsh.index.filters import Words, bloom_filter, find_members, find_members_by_filter
from gpulsh.ragged import expand_ranges, find_equal_runs, first_of_runs, hash_order, run_bounds, select_rows
from gpulsh.store.columns import Column, MappedBatches, MappedColumns, damaged_file, write_columns
from gpulsh.store.durable import FileFact, writing

Row = TypeVar("Row")
KEY_TYPES = {"string": pa.large_string(), "integer": pa.int64()}
DIGESTS = pa.schema([("band", pa.uint16()), ("digest", pa.uint64()), ("document", pa.int64())])
FILTERS = pa.schema([("word", pa.uint64())])
KINDS = ("documents", "digests", "hashes", "fingerprints", "filters", "keys", "places")
ALL_ROWS = slice(None)
NO_NUMBERS = np.empty(0, np.int64)
NARROW_LIMIT = 1 << 32  # numbers below it have 32 bits
NARROWED_AT_ONCE = 1 << 18
INDEX = "index.json"  # the manifest
MANY = 1 << 8  # from this many lookups at once, a filter in memory pays, and pages of files are released


def saving(folder: Path) -> AbstractContextManager[None]:
    """Turn errors of the system inside into an OutputError, which says so if the folder holds earlier saves."""
    return writing(folder, "; earlier saves are intact" if (folder / INDEX).exists() else "")


class Documents(NamedTuple):
    """The columns of n documents, ascending by number."""

    number: Numbers
    witness: Numbers
    similarity: NDArray[np.float64]
    size: Numbers

    @classmethod
    def joined(cls, parts: Iterable[Documents]) -> Documents:
        """The rows of all `parts`, end to end."""
        return cls(*map(np.concatenate, zip((NO_NUMBERS, NO_NUMBERS, np.empty(0), NO_NUMBERS), *parts, strict=True)))

    def where(self, rows: NDArray[np.bool_] | Numbers | slice) -> Documents:
        """The rows that `rows` chooses, with numbers of 64 bits."""
        number, witness, size = (as_int64(column[rows]) for column in (self.number, self.witness, self.size))
        return Documents(number, witness, self.similarity[rows], size)


class Hashes(NamedTuple):
    """Exact hashes [h], ascending, and their rows, which ascend where hashes are equal."""

    hash_0: NDArray[np.uint64]
    hash_1: NDArray[np.uint64]
    row: Numbers


class Keys(NamedTuple):
    """n keys; their hashes, ascending, and the rows of these."""

    key: pa.Array  # None in a segment in which each is FILE:ROW of its place
    key_hash: NDArray[np.uint64]
    key_row: Numbers


class KeyHashes(NamedTuple):
    """The columns of the file of keys that are places: the hashes of `Keys`, without the keys."""

    key_hash: NDArray[np.uint64]
    key_row: Numbers


class Band(NamedTuple):
    """Digests of one band, ascending, and the numbers of their documents, ascending where digests are equal."""

    digest: NDArray[np.uint64]
    document: NDArray[np.integer]  # from `Segment.base` on


class FilterWords(NamedTuple):
    """The Bloom filter of a band, or of the hashes."""

    word: Words


@dataclass(frozen=True, eq=False)
class HeldBands:
    """Bands in memory: the digests [k] of all of them together, ascending, equal ones of a band by document.

    Together they are one column to sort, search and join, where twenty bands would take twenty calls.
    """

    count: int
    digest: NDArray[np.uint64]
    band: NDArray[np.uint16]
    document: Numbers

    @classmethod
    def of(cls, digests: NDArray[np.uint64], documents: Numbers) -> HeldBands:
        """Digests [n, bands] of documents with ascending numbers [n]."""
        values = digests.T.ravel()
        order = hash_order(values)
        rows = max(len(documents), 1)
        return cls(digests.shape[1], values[order], (order // rows).astype(np.uint16), documents[order % rows])

    @classmethod
    def joined(cls, parts: Sequence[HeldBands], removed: Numbers) -> HeldBands:
        """The digests of several whose documents ascend, without removed documents."""
        digest, band, document = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("digest", "band", "document")
        )
        order = np.argsort(digest, kind="stable")
        if len(removed):
            order = order[~is_in(document[order], removed)]
        return cls(parts[0].count, digest[order], band[order], document[order])

    @cached_value
    def words(self) -> Words:
        """The filter of all digests. Looking up a digest in it takes less time than a search."""
        return bloom_filter([self.digest])


@dataclass(frozen=True, eq=False)
class Segment:
    """Documents as they are looked up, in memory or mapped from files. `keys` arrive last and are None before.

    A segment with `files` has been written under its `name`. `filters` are of each band and of the hashes, none in
    memory. With `reads_source`, `places` arrive with the keys, and replace `fingerprints` and `filters`.
    """

    documents: Documents
    hashes: Hashes
    bands: HeldBands | list[Band]
    fingerprints: Fingerprints | BlockRows | None
    keys: Keys | None = None
    places: Places | None = None
    reads_source: bool = False
    filters: Sequence[Words] = ()
    mapped: tuple[MappedBatches, ...] = ()
    name: str = ""
    files: Mapping[str, FileFact] | None = None  # by kind

    def __len__(self) -> int:
        return len(self.documents.number)

    @cached_value
    def bytes(self) -> int:
        """About the memory that it takes; 0 if it is mapped."""
        if not isinstance(self.bands, HeldBands):
            return 0
        held = 0 if self.fingerprints is None else int(8 * self.documents.size.sum())
        return held + 16 * len(self.bands.digest) + 48 * len(self)

    @cached_value
    def held_count(self) -> int:
        """The number of its held documents, removed ones included."""
        return int(np.count_nonzero(self.documents.number == self.documents.witness))

    @property
    def base(self) -> int:
        """The number from which the documents of `bands` count."""
        return int(self.documents.number[0]) if self.reads_source and self.mapped and len(self) else 0

    @property
    def band_count(self) -> int:
        """The number of bands."""
        return self.bands.count if isinstance(self.bands, HeldBands) else len(self.bands)

    def band(self, band: int) -> Band:
        """The digests of one band."""
        held = self.bands
        if not isinstance(held, HeldBands):
            return held[band]
        own = slice(None) if held.count == 1 else np.flatnonzero(held.band == band)
        return Band(held.digest[own], held.document[own])

    def sets(self, rows: Numbers) -> Fingerprints:
        """The fingerprints of the documents `rows` [m], in that order."""
        assert self.fingerprints is not None
        if isinstance(self.fingerprints, BlockRows):
            return self.fingerprints.read(rows)
        return select_rows(self.fingerprints, rows)

    def keys_at(self, rows: Numbers | slice) -> pa.Array:
        """The keys of the documents `rows`."""
        assert self.keys is not None
        known = self.keys.key
        if known is None:
            assert self.places is not None
            return self.places.where(rows).keys()
        if isinstance(rows, slice):
            return known[rows]
        return known.slice(int(rows[0]), 1) if len(rows) == 1 else known.take(pa.array(rows))

    def is_live(self, removed: Numbers, rows: Numbers | slice = ALL_ROWS) -> NDArray[np.bool_]:
        """bool [m]: whether neither each of `rows` nor its witness was removed; `removed` ascends."""
        return ~(is_in(self.documents.number[rows], removed) | is_in(self.documents.witness[rows], removed))

    def release(self) -> None:
        """Release the pages that were read from its files to the operating system."""
        for file in self.mapped:
            file.release()

    def documents_with(self, bands: Numbers, digests: NDArray[np.uint64]) -> tuple[Numbers, Numbers]:
        """The documents with digests [m] in `bands` [m], which ascend: places in `digests` [k] and numbers [k]."""
        held = self.bands
        if isinstance(held, HeldBands):
            place, found = equal_pairs(held.digest, digests, held.words if len(digests) >= MANY else None)
            if len(place) == 0:
                return place, found
            same = held.band[found] == bands[place]
            return place[same], held.document[found[same]]
        places, numbers = [NO_NUMBERS], [NO_NUMBERS]
        passed = find_members_by_filter(self.filters, bands, digests) if self.filters else np.arange(len(digests))
        for start, stop in run_bounds(bands[passed]):
            some = passed[start:stop]
            band = held[bands[some[0]]]
            place, found = equal_pairs(band.digest, digests[some])
            places.append(some[place])
            numbers.append(band.document[found] + np.int64(self.base))
        return np.concatenate(places), np.concatenate(numbers)

    def first_live_copies(self, exact: NDArray[np.uint64], removed: Numbers) -> tuple[Numbers, Numbers]:
        """The places of those exact hashes [m, 2] that a live document has, and the row of the first one: int64 [k].

        The first halves ascend.
        """
        hash_0, hash_1, row = self.hashes
        halves = np.ascontiguousarray(exact[:, 0])
        place, first, count = find_runs(hash_0, halves, self.filters[-1] if self.filters else None)

        def is_found(place: Numbers, at: Numbers) -> NDArray[np.bool_]:
            same: NDArray[np.bool_] = (hash_1[at] == exact[place, 1]) & self.is_live(removed, row[at])
            return same

        at_once = is_found(place, first)  # nearly always; otherwise look at the other documents with the hash
        later = np.flatnonzero(~at_once & (count > 1))
        others, at = np.repeat(place[later], count[later] - 1), expand_ranges(first[later] + 1, count[later] - 1)
        found = is_found(others, at)
        others, at = others[found], at[found]
        fresh = first_of_runs(others)
        return np.append(place[at_once], others[fresh]), row[np.append(first[at_once], at[fresh])]

    def has_hashes(self, rows: Numbers, exact: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """bool [m]: whether the documents `rows` [m] have these exact hashes [m, 2].

        A binary search, because a page may have very many copies: equal hashes are in the order of their rows.
        """
        (hash_0, hash_1, row), halves = self.hashes, exact[:, 1]
        low, stop = (hash_0.searchsorted(exact[:, 0], side) for side in ("left", "right"))
        high = stop.copy()
        while len(some := np.flatnonzero(low < high)):
            middle = (low[some] + high[some]) // 2
            half, wanted = hash_1[middle], halves[some]
            before = (half < wanted) | ((half == wanted) & (row[middle] < rows[some]))
            low[some[before]] = middle[before] + 1
            high[some[~before]] = middle[~before]
        found: NDArray[np.bool_] = low < stop
        at = low[found]
        found[found] = (hash_1[at] == halves[found]) & (row[at] == rows[found])
        return found


def make_segment(
    documents: Documents, exact: NDArray[np.uint64], digests: NDArray[np.uint64] | None, fingerprints: Fingerprints
) -> Segment:
    """A segment of a batch: exact hashes [n, 2], (0, 0) for a document without a token, and digests [n, bands].

    `fingerprints` [n] are empty, and digests are ignored, for a document that is not held or has no token. Without
    digests, the fingerprints are the digests of one band.
    """
    with_token = np.flatnonzero(exact.any(axis=1))
    row = with_token[np.lexsort((exact[with_token, 1], exact[with_token, 0]))]
    if digests is None:
        bands = HeldBands.of(fingerprints.values[:, None], np.repeat(documents.number, documents.size))
    else:
        held = np.flatnonzero(documents.size > 0)
        bands = HeldBands.of(digests[held], documents.number[held])
    hashes = Hashes(np.ascontiguousarray(exact[row, 0]), np.ascontiguousarray(exact[row, 1]), row)
    return Segment(documents, hashes, bands, fingerprints)


@dataclass(frozen=True)
class StoredSegment:
    """A segment's files, by kind, with the `name` that they share."""

    name: str
    files: Mapping[str, FileFact]


def file_name(kind: str, name: str) -> str:
    """Return the name of the file of a kind of the segment `name`."""
    return f"{kind}-{name}.arrow"


def remove_files(folder: Path, name: str) -> None:
    """Remove the files of the segment `name`."""
    for kind in KINDS:
        (folder / file_name(kind, name)).unlink(missing_ok=True)


def map_segment(folder: Path, stored: StoredSegment, sources: Sequence[Source]) -> Segment:
    """The segment in these files, mapped; `sources` are the sources of its index."""
    path = {kind: folder / file_name(kind, stored.name) for kind in stored.files}
    files: list[MappedBatches] = []

    def columns(kind: str, row: Callable[..., Row]) -> MappedColumns[Row]:
        file = MappedColumns(path[kind], row)
        files.append(file)
        return file

    documents, hashes = columns("documents", Documents).whole(), columns("hashes", Hashes).whole()
    bands = list(columns("digests", Band).runs())
    fingerprints = places = keys = None
    filters: list[Words] = []
    if "fingerprints" in path:
        fingerprints = BlockRows(path["fingerprints"], documents.size)
        files.append(fingerprints.mapped)
    if "filters" in path:
        filters = [filter.word for filter in columns("filters", FilterWords).runs()]
    if "places" in path:
        places = Places(*columns("places", PlaceColumns).whole(), sources)
    if "keys" in path:
        file = columns("keys", Keys)
        if all("key" in batch.schema.names for batch in file.batches):
            keys = file.whole()
        elif places is None:
            raise damaged_file(path["keys"], "it lacks the keys")
        else:
            (of_keys,) = file.runs_of(KeyHashes)
            keys = Keys(None, *of_keys)
    return Segment(
        documents,
        hashes,
        bands,
        fingerprints,
        keys,
        places,
        reads_source="filters" not in path,
        filters=filters,
        mapped=tuple(files),
        name=stored.name,
        files=stored.files,
    )


def with_keys(segment: Segment, keys: Keys, folder: Path | None, places: Places | None = None) -> Segment:
    """The segment with its keys, which are written if the segment is in files.

    With `places`, these are added, too, and the fingerprints are removed.
    """
    if segment.files is None:
        return replace(segment, keys=keys, places=places, fingerprints=None if places else segment.fingerprints)
    assert folder is not None
    path = {kind: folder / file_name(kind, segment.name) for kind in KINDS}
    with saving(folder):
        files = {**segment.files, "keys": write_keys(path["keys"], keys, places)}
        if places is not None:
            files["places"] = write_places(path["places"], places)
            del files["fingerprints"]
            path["fingerprints"].unlink()
    return map_segment(folder, StoredSegment(segment.name, files), places.sources if places else ())


def write_keys(path: Path, keys: Keys, places: Places | None) -> FileFact:
    """Write the file of keys: without the keys themselves, if these are the `places` of their documents."""
    columns = keys._asdict()
    if places is not None:
        columns["key_row"] = as_uint32(keys.key_row, path.parent)
        if keys.key is None or places.are_keys(keys.key):
            del columns["key"]
    return write_columns(path, columns)


def write_places(path: Path, places: Places) -> FileFact:
    """Write the file of places."""
    return write_columns(path, {"source": places.source, "row": as_uint32(places.row, path.parent)})


def as_uint32(values: NDArray[np.integer], folder: Path) -> NDArray[np.integer]:
    """Numbers [n] of at least 0 as uint32, in a temporary file in `folder`; unchanged if one is too large for it."""
    if values.dtype == np.uint32 or int(values.max(initial=0)) >= NARROW_LIMIT:
        return values
    column = Column(np.uint32, folder)
    for start in range(0, len(values), NARROWED_AT_ONCE):
        column.append(values[start : start + NARROWED_AT_ONCE])
    return column.whole()


def as_int64(values: NDArray[np.integer]) -> Numbers:
    """Numbers as int64."""
    return values.astype(np.int64, copy=False)


def equal_pairs(
    known: NDArray[np.uint64], values: NDArray[np.uint64], words: Words | None = None
) -> tuple[Numbers, Numbers]:
    """All (place in `values`, place in `known`) of equal ones, both int64 [k], by the first, then by the second."""
    found, first, count = find_runs(known, values, words)
    if len(found) == 0:
        return found, first
    return np.repeat(found, count), expand_ranges(first, count)


def find_runs(
    known: NDArray[np.uint64], values: NDArray[np.uint64], words: Words | None = None
) -> tuple[Numbers, Numbers, Numbers]:
    """The places of those `values` that are in `known`; both ascend. Of each, its first place there and how often.

    `known` is not searched for a value that its filter of `words` excludes.
    """
    if words is None:
        return find_equal_runs(known, values)
    passed = find_members(words, values)
    found, first, count = find_equal_runs(known, values[passed])
    return passed[found], first, count


def is_in(values: Numbers, sorted_values: Numbers) -> NDArray[np.bool_]:
    """bool [n]: whether each of `values` is one of `sorted_values`."""
    if len(sorted_values) == 0:
        return np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(sorted_values, values), len(sorted_values) - 1)
    found: NDArray[np.bool_] = sorted_values[places] == values
    return found
