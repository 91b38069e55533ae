"""A segment of an index: the documents of some commits, sorted for every way in which they are looked up.

Six Arrow IPC files a segment, never changed once written:

- `documents`: number, witness, similarity, size; a row a document, ascending by number. A document is held where it is
  its own witness; else it was dropped, and `witness` is the number of the document it was dropped for. `size` is how
  many fingerprints are held of it.
- `digests`: band, digest, document (its number); sorted so. A record batch a band, of held documents only. By
  containment there is one band, and the digests in it are all fingerprints.
- `hashes`: hash_0, hash_1, row; the 128-bit hash of every document with a token, sorted so.
- `fingerprints`: the unique fingerprints of each row of `documents`, in blocks (`fingerprint_blocks`).
- `filters`: word; a record batch a band, a Bloom filter (`filters`) of its digests, and one more, of hash_0.
- `keys`: key, a row a document; key_hash and key_row, the keys' hashes sorted and whose they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.errors import DamagedInputError
from gpulsh.index.segments.bands import Band, HeldBands
from gpulsh.index.segments.filters import Words, make_filter
from gpulsh.index.segments.fingerprint_blocks import BlockRows, FingerprintRows, HeldRows, write_blocks
from gpulsh.store.columns import Mapped, MappedColumns, columns_file, damaged_file, write_columns
from gpulsh.store.durable import FileFact

KEY_TYPES = {"string": pa.large_string(), "integer": pa.int64()}
DIGESTS = pa.schema([("band", pa.uint16()), ("digest", pa.uint64()), ("document", pa.int64())])
FILTERS = pa.schema([("word", pa.uint64())])
KINDS = ("documents", "digests", "hashes", "fingerprints", "filters", "keys")
ALL = slice(None)
AGAIN = "restore it from a copy, or build it again"
ROWS_AT_ONCE = 1 << 13  # whose fingerprints are held while they are written


class Documents(NamedTuple):
    """Facts of n documents, ascending by number."""

    number: Numbers
    witness: Numbers
    similarity: NDArray[np.float64]
    size: Numbers

    @classmethod
    def joined(cls, parts: Iterable[Documents]) -> Documents:
        """Several, end to end."""
        none = np.empty(0, np.int64)
        return cls(*map(np.concatenate, zip((none, none, np.empty(0), none), *parts, strict=True)))

    def where(self, rows: NDArray[np.bool_] | Numbers | slice) -> Documents:
        """Some rows of it."""
        return Documents(self.number[rows], self.witness[rows], self.similarity[rows], self.size[rows])


class Hashes(NamedTuple):
    """Exact hashes [h], ascending, and the rows they belong to; rows ascend where hashes are equal."""

    hash_0: NDArray[np.uint64]
    hash_1: NDArray[np.uint64]
    row: Numbers


class Keys(NamedTuple):
    """n keys; their hashes, ascending, and the rows that these belong to."""

    key: pa.Array
    key_hash: NDArray[np.uint64]
    key_row: Numbers


class FilterWords(NamedTuple):
    """The Bloom filter of a band, or of the hashes."""

    word: Words


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
    entries: int = 0  # of all bands together, or more
    mapped: tuple[Mapped, ...] = ()
    name: str = ""  # in the names of its files

    def __len__(self) -> int:
        return len(self.documents.number)

    def let_go(self) -> None:
        """Let the system drop the pages that were read from its files."""
        for file in self.mapped:
            file.let_go()

    def filter(self, number: int) -> Words | None:
        """Return the filter of band `number`'s digests, or for -1 that of the first halves of the hashes."""
        return self.filters[number] if self.filters else None

    def rows_of(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Which of `numbers` [m] are here, as places in it, and their rows."""
        own = self.documents.number
        rows = np.searchsorted(own, numbers)
        here = np.flatnonzero(rows < len(own))
        here = here[own[rows[here]] == numbers[here]]
        return here, rows[here]

    def live(self, removed: Numbers, rows: Numbers | slice = ALL) -> NDArray[np.bool_]:
        """bool [m]: whether neither each of `rows` nor its witness was removed; `removed` ascends."""
        return ~(among(self.documents.number[rows], removed) | among(self.documents.witness[rows], removed))


def make_segment(
    documents: Documents, exact: NDArray[np.uint64], digests: NDArray[np.uint64] | None, fingerprints: Fingerprints
) -> Segment:
    """Documents of a batch: exact hashes [n, 2], (0, 0) where it has no token; digests [n, bands].

    `fingerprints` [n] are empty, and digests not looked at, where a document is not held or has no token. Without
    digests the fingerprints themselves are those of one band.
    """
    with_token = np.flatnonzero(exact.any(axis=1))
    order = np.lexsort((exact[with_token, 1], exact[with_token, 0]))
    row = with_token[order]
    if digests is None:
        bands = HeldBands.of(fingerprints.values[:, None], np.repeat(documents.number, documents.size))
    else:
        held = np.flatnonzero(documents.size > 0)
        bands = HeldBands.of(digests[held], documents.number[held])
    hashes = Hashes(np.ascontiguousarray(exact[row, 0]), np.ascontiguousarray(exact[row, 1]), row)
    return Segment(documents, hashes, bands, HeldRows(fingerprints), entries=len(bands.digest))


def write_segment(name: Callable[[str], Path], segment: Segment) -> dict[str, FileFact]:
    """Write all but the keys to the files that `name` names by kind; one band is in memory at a time."""
    facts = {"documents": write_columns(name("documents"), segment.documents._asdict())}
    segment.let_go()
    with columns_file(name("digests"), DIGESTS) as file, columns_file(name("filters"), FILTERS) as filters:
        for number in range(len(segment.bands)):
            band = segment.bands[number]
            file.append([np.full(len(band.digest), number, np.uint16), band.digest, band.document])
            filters.append([make_filter(band.digest)])
        filters.append([make_filter(segment.hashes.hash_0)])
        facts["digests"], facts["filters"] = file.finish(), filters.finish()
    segment.let_go()
    facts["hashes"] = write_columns(name("hashes"), segment.hashes._asdict())
    facts["fingerprints"] = write_blocks(name("fingerprints"), _fingerprints(segment))
    segment.let_go()
    return facts


def _fingerprints(segment: Segment) -> Iterator[Fingerprints]:
    for start in range(0, len(segment), ROWS_AT_ONCE):
        yield segment.fingerprints.read(np.arange(start, min(start + ROWS_AT_ONCE, len(segment))))
        segment.let_go()


def map_segment(name: Callable[[str], Path], *, keys: bool = True) -> Segment:
    """The segment in the files that `name` names by kind, mapped; without its keys where `keys` is False."""
    documents, hashes = MappedColumns(name("documents"), Documents), MappedColumns(name("hashes"), Hashes)
    digests, filters = MappedColumns(name("digests"), Band), MappedColumns(name("filters"), FilterWords)
    bands, words = list(digests.runs()), [filter.word for filter in filters.runs()]
    if len(words) != len(bands) + 1:
        raise damaged_file(name("filters"), "it does not hold one filter for each band and one for the hashes")
    rows = documents.whole()
    entries = sum(len(band.digest) for band in bands)
    fingerprints = BlockRows(name("fingerprints"), rows.size)
    mapped = (documents, digests, hashes, filters, fingerprints.mapped)
    segment = Segment(rows, hashes.whole(), bands, fingerprints, None, words, entries, mapped)
    return with_mapped_keys(segment, name("keys")) if keys else segment


def with_mapped_keys(segment: Segment, path: Path) -> Segment:
    """The segment with its keys, in a file of the columns of `Keys`."""
    file = MappedColumns(path, Keys)
    keys = file.whole()
    if len(keys.key) != len(segment) or keys.key.null_count:
        raise damaged_file(path, f"it does not hold one key for each of {len(segment)} documents")
    return replace(segment, keys=keys, mapped=(*segment.mapped, file))


def among(values: Numbers, sorted_values: Numbers) -> NDArray[np.bool_]:
    """bool [n]: whether each of `values` is one of `sorted_values`."""
    if len(sorted_values) == 0:
        return np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(sorted_values, values), len(sorted_values) - 1)
    found: NDArray[np.bool_] = sorted_values[places] == values
    return found


def within(rows: Numbers, count: int) -> Numbers:
    """`rows`, found in a file, of something that has `count`; a DamagedInputError where one is beyond."""
    if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < count):
        raise DamagedInputError(f"the index is damaged: it names row {int(rows.max())} of {count}; {AGAIN}")
    return rows
