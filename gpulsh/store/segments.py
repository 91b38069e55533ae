"""A segment of an index: the documents of some commits, sorted for every way in which they are looked up.

Six Arrow IPC files a segment, never changed once written:

- `documents`: number, witness, similarity, size; a row a document, ascending by number. A document is held where it is
  its own witness; else it was dropped, and its witness is the number of the document that speaks for it. `size` is how
  many fingerprints are held of it.
- `digests`: band, digest, document (its number); sorted so. A record batch a band, of held documents only.
- `hashes`: hash_0, hash_1, row; the 128-bit hash of every document with a token, sorted so.
- `fingerprints`: the unique fingerprints of each row of `documents`, in blocks (`fingerprint_blocks`).
- `filters`: word; a record batch a band, a Bloom filter (`filters`) of its digests, and one more, of hash_0.
- `keys`: key, a row a document; key_hash and key_row, the keys' hashes sorted and whose they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.io.buffers import numbers, to_arrow
from gpulsh.store.columns import columns_file, write_columns
from gpulsh.store.durable import FileFact
from gpulsh.store.filters import Words, make_filter
from gpulsh.store.fingerprint_blocks import (
    BlockRows,
    FingerprintRows,
    HeldRows,
    in_places,
    write_blocks,
)
from gpulsh.store.mapping import MappedBatches

DIGESTS = pa.schema([("band", pa.uint16()), ("digest", pa.uint64()), ("document", pa.int64())])
FILTERS = pa.schema([("word", pa.uint64())])
KINDS = ("documents", "digests", "hashes", "fingerprints", "filters", "keys")
ALL = slice(None)
ROWS_AT_ONCE = 1 << 13  # whose fingerprints are held while they are written
Numbers = NDArray[np.int64]


class Documents(NamedTuple):
    """Facts of n documents, ascending by number."""

    number: Numbers
    witness: Numbers
    similarity: NDArray[np.float64]
    size: Numbers

    def slice(self, start: int, stop: int) -> Documents:
        """Rows `start` to `stop`."""
        rows = slice(start, stop)
        return Documents(self.number[rows], self.witness[rows], self.similarity[rows], self.size[rows])


class Hashes(NamedTuple):
    """Exact hashes [h], ascending, and the rows they belong to; rows ascend where hashes are equal."""

    first: NDArray[np.uint64]
    second: NDArray[np.uint64]
    row: Numbers


class Keys(NamedTuple):
    """`key`: a pyarrow.Array of n; their hashes, ascending, and the rows they belong to."""

    key: Any
    hash: NDArray[np.uint64]
    row: Numbers


class Band(NamedTuple):
    """Digests of one band, ascending, and the numbers of the documents that have them, ascending where equal."""

    digest: NDArray[np.uint64]
    document: Numbers


@dataclass(frozen=True, eq=False)
class Segment:
    """Documents as they are looked up, in memory or mapped from files. `keys` come last and are None before.

    `filters` are of each band and of the hashes, None in memory.
    """

    documents: Documents
    hashes: Hashes
    bands: Sequence[Band]
    fingerprints: FingerprintRows
    keys: Keys | None = None
    filters: Sequence[Words] | None = None
    mapped: tuple[MappedBatches, ...] = ()

    def __len__(self) -> int:
        return len(self.documents.number)

    def let_go(self) -> None:
        """What was read of its files need not stay in memory."""
        for file in self.mapped:
            file.let_go()

    def filter(self, number: int) -> Words | None:
        """Of the digests of band `number`, or with -1 of the first halves of the hashes."""
        return self.filters[number] if self.filters else None

    def rows_of(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Which of `numbers` [m] are here, as places in it, and their rows."""
        own = self.documents.number
        rows = np.searchsorted(own, numbers)
        here = np.flatnonzero(rows < len(own))
        here = here[own[rows[here]] == numbers[here]]
        return here, rows[here]

    def live(self, removed: Numbers, rows: Numbers | slice = ALL) -> NDArray[np.bool_]:
        """bool [m]: whether each of `rows` is neither removed nor spoken for by one that is; `removed` ascends."""
        return ~(among(self.documents.number[rows], removed) | among(self.documents.witness[rows], removed))


def make_segment(
    documents: Documents, exact: NDArray[np.uint64], digests: NDArray[np.uint64], fingerprints: Fingerprints
) -> Segment:
    """Documents of a batch: exact hashes [n, 2], (0, 0) where it has no token; digests [n, bands].

    `fingerprints` [n] are empty, and digests not looked at, where a document is not held or has no token.
    """
    with_token = np.flatnonzero(exact.any(axis=1))
    order = np.lexsort((exact[with_token, 1], exact[with_token, 0]))
    row = with_token[order]
    held = np.flatnonzero(documents.size > 0)
    bands = []
    for column in digests[held].T:
        by_digest = np.argsort(column, kind="stable")
        bands.append(Band(column[by_digest], documents.number[held[by_digest]]))
    hashes = Hashes(np.ascontiguousarray(exact[row, 0]), np.ascontiguousarray(exact[row, 1]), row)
    return Segment(documents, hashes, bands, HeldRows(fingerprints))


def merged(parts: Sequence[Segment], removed: Numbers) -> Segment:
    """The live documents of several segments, which ascend by number; digests and fingerprints are read when used."""
    live = [part.live(removed) for part in parts]
    documents = Documents(
        *(
            np.concatenate([column[rows] for column, rows in zip(columns, live, strict=True)])
            for columns in zip(*(part.documents for part in parts), strict=True)
        )
    )
    places = [np.flatnonzero(rows) for rows in live]
    fingerprints = _ChainedRows([part.fingerprints for part in parts], places)
    keys = [part.keys for part in parts if part.keys is not None]
    return Segment(
        documents,
        _merged_hashes([part.hashes for part in parts], live),
        _MergedBands(parts, removed),
        fingerprints,
        _merged_keys(keys, live) if len(keys) == len(parts) else None,
    )


def _merged_hashes(parts: Sequence[Hashes], live: Sequence[NDArray[np.bool_]]) -> Hashes:
    found = [
        Hashes(hashes.first[chosen], hashes.second[chosen], rows)
        for hashes, (chosen, rows) in zip(parts, _moved([part.row for part in parts], live), strict=True)
    ]
    whole = Hashes(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
    order = np.lexsort((whole.row, whole.second, whole.first))
    return Hashes(whole.first[order], whole.second[order], whole.row[order])


def _merged_keys(parts: Sequence[Keys], live: Sequence[NDArray[np.bool_]]) -> Keys:
    found = [
        (keys.hash[chosen], rows)
        for keys, (chosen, rows) in zip(parts, _moved([part.row for part in parts], live), strict=True)
    ]
    hash, row = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.lexsort((row, hash))
    chosen = [keys.key.filter(to_arrow(rows)) for keys, rows in zip(parts, live, strict=True)]
    return Keys(_one_array(chosen), hash[order], row[order])


def in_memory(segment: Segment) -> Segment:
    """The same with all that is read when used held in memory."""
    rows = segment.fingerprints.read(np.arange(len(segment)))
    return replace(segment, bands=list(segment.bands), fingerprints=HeldRows(rows), filters=None, mapped=())


def write_segment(name: Callable[[str], Path], segment: Segment) -> dict[str, FileFact]:
    """Write all but the keys to the files that `name` names by kind; one band is in memory at a time."""
    facts = {"documents": write_columns(name("documents"), segment.documents._asdict())}
    with columns_file(name("digests"), DIGESTS) as file, columns_file(name("filters"), FILTERS) as filters:
        for number in range(len(segment.bands)):
            band = segment.bands[number]
            file.append([np.full(len(band.digest), number, np.uint16), band.digest, band.document])
            filters.append([make_filter(band.digest)])
        filters.append([make_filter(segment.hashes.first)])
        facts["digests"], facts["filters"] = file.finish(), filters.finish()
    hashes = {"hash_0": segment.hashes.first, "hash_1": segment.hashes.second, "row": segment.hashes.row}
    facts["hashes"] = write_columns(name("hashes"), hashes)
    steps = range(0, len(segment), ROWS_AT_ONCE)
    parts = (segment.fingerprints.read(np.arange(at, min(at + ROWS_AT_ONCE, len(segment)))) for at in steps)
    facts["fingerprints"] = write_blocks(name("fingerprints"), parts)
    return facts


def write_keys(path: Path, keys: Keys) -> FileFact:
    """Write the keys of a segment."""
    return write_columns(path, {"key": keys.key, "key_hash": keys.hash, "key_row": keys.row})


def map_segment(name: Callable[[str], Path], *, keys: bool = True) -> Segment:
    """The segment in the files that `name` names by kind, mapped; without its keys where `keys` is False."""
    files = {kind: MappedBatches(name(kind)) for kind in ("documents", "digests", "hashes", "filters")}
    documents = Documents(*_columns(files["documents"]))
    bands = [Band(numbers(batch.column(1)), numbers(batch.column(2))) for batch in files["digests"].batches]
    fingerprints = BlockRows(name("fingerprints"), documents.size)
    filters = [numbers(batch.column(0)) for batch in files["filters"].batches]
    mapped = (*files.values(), fingerprints.mapped)
    segment = Segment(documents, Hashes(*_columns(files["hashes"])), bands, fingerprints, None, filters, mapped)
    return with_mapped_keys(segment, name("keys")) if keys else segment


def with_mapped_keys(segment: Segment, path: Path) -> Segment:
    """The segment with its keys, in a file of `write_keys`."""
    file = MappedBatches(path)
    (batch,) = file.batches
    keys = Keys(batch.column(0), numbers(batch.column(1)), numbers(batch.column(2)))
    return replace(segment, keys=keys, mapped=(*segment.mapped, file))


def with_keys(segment: Segment, keys: Keys) -> Segment:
    """The segment with its keys."""
    return replace(segment, keys=keys)


def among(values: Numbers, sorted_values: Numbers) -> NDArray[np.bool_]:
    """bool [n]: whether each of `values` is one of `sorted_values`."""
    if len(sorted_values) == 0:
        return np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(sorted_values, values), len(sorted_values) - 1)
    found: NDArray[np.bool_] = sorted_values[places] == values
    return found


class _MergedBands(Sequence[Band]):
    """The digests of several segments less those of removed documents, merged a band at a time when asked for."""

    def __init__(self, parts: Sequence[Segment], removed: Numbers) -> None:
        self._parts, self._removed = parts, removed

    def __len__(self) -> int:
        return len(self._parts[0].bands)

    def __getitem__(self, band: Any) -> Any:
        if not 0 <= band < len(self):
            raise IndexError(band)
        bands = [part.bands[band] for part in self._parts]
        alive = [~among(found.document, self._removed) for found in bands]
        digest = np.concatenate([found.digest[rows] for found, rows in zip(bands, alive, strict=True)])
        document = np.concatenate([found.document[rows] for found, rows in zip(bands, alive, strict=True)])
        for part in self._parts:
            part.let_go()
        order = np.argsort(digest, kind="stable")  # parts ascend by number, so do equal digests
        return Band(digest[order], document[order])


class _ChainedRows:
    """Chosen rows of several, one after another."""

    def __init__(self, parts: Sequence[FingerprintRows], chosen: Sequence[Numbers]) -> None:
        self._parts, self._chosen = parts, chosen
        self._starts = np.cumsum([0, *map(len, chosen)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, rows: Numbers) -> Fingerprints:
        """The rows `rows` [m], in that order."""
        owner = np.searchsorted(self._starts, rows, side="right") - 1
        parts, places = [], []
        for number in np.unique(owner).tolist():
            here = np.flatnonzero(owner == number)
            parts.append(self._parts[number].read(self._chosen[number][rows[here] - self._starts[number]]))
            places.append(here)
        return in_places(parts, places)


def _moved(rows: Sequence[Numbers], live: Sequence[NDArray[np.bool_]]) -> Iterator[tuple[NDArray[np.bool_], Numbers]]:
    """Of each part's `rows` which are live, and these as rows of the live ones of all parts, end to end."""
    start = 0
    for own, alive in zip(rows, live, strict=True):
        chosen = alive[own]
        yield chosen, (np.cumsum(alive) - 1 + start)[own[chosen]]
        start += int(alive.sum())


def _one_array(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _columns(file: MappedBatches) -> list[NDArray[Any]]:
    (batch,) = file.batches
    return list(map(numbers, batch.columns))
