"""The tables that tasks pass on in the work folder, their columns and types, and how they are written and read.

Positions of documents are int64. A table's docstring states its order: its writer keeps it, and its readers rely on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, Values
from gpulsh.decide.counts.counts import count
from gpulsh.decide.decision import Decision
from gpulsh.decide.edges import Sample
from gpulsh.io.arrow.buffers import take_rows
from gpulsh.lsh.collisions import Memberships
from gpulsh.repeats.benchmark import Flags, ItemPlaces, ItemTokens, ItemWindows
from gpulsh.run.job import step_file, step_of
from gpulsh.run.policy import Order
from gpulsh.store.columns import ColumnsFile, MappedColumns, column_types, columns_file, write_columns
from gpulsh.store.durable import FileFact

Row = TypeVar("Row", bound=tuple[Any, ...])
Places = NDArray[np.signedinteger]  # int32 where that is enough


@dataclass(frozen=True)
class Table(Generic[Row]):
    """A kind of file: its stage, its name, and the named tuple whose fields are its columns."""

    stage: str
    what: str
    row: Callable[..., Row]
    types: Mapping[str, pa.DataType] = field(default_factory=dict, compare=False)  # of columns that are not of numbers

    def path(self, folder: Path, step: int | str) -> Path:
        """The file of a step, by its number in its stage or by its name."""
        return step_file(folder, step if isinstance(step, str) else step_of(self.stage, step), self.what)

    def write(self, folder: Path, step: int | str, columns: Row) -> dict[str, FileFact]:
        """Write the file of a step at once; its name and fact, as `TaskResult` has them."""
        path = self.path(folder, step)
        return {path.name: write_columns(path, dict(zip(column_types(self.row), columns, strict=True)))}

    def create(self, folder: Path, step: int | str) -> AbstractContextManager[ColumnsFile]:
        """The file of a step, to write a run of rows at a time."""
        return columns_file(self.path(folder, step), self.schema())

    def schema(self) -> pa.Schema:
        """The pyarrow.Schema of a table of numbers of one type each."""
        return pa.schema([(name, pa.from_numpy_dtype(kind)) for name, kind in column_types(self.row).items()])

    def empty(self, rows: int = 0) -> Row:
        """Columns to fill, of a table whose types are known."""
        kinds = column_types(self.row).items()
        return self.row(
            *(pa.nulls(rows, self.types[name]) if kind is None else np.empty(rows, kind) for name, kind in kinds)
        )

    def rows(self, columns: Row, rows: slice | Values) -> Row:
        """The rows of `columns` that `rows` chooses."""
        if isinstance(rows, slice):
            return self.row(*(column[rows] for column in columns))
        return self.row(*(one[rows] if isinstance(one, np.ndarray) else take_rows(one, rows) for one in columns))

    def joined(self, parts: Iterable[Row]) -> Row:
        """Rows of a table whose types are known, end to end."""
        columns = zip(self.empty(), *parts, strict=True)
        return self.row(
            *(np.concatenate(one) if isinstance(one[0], np.ndarray) else pa.concat_arrays(one) for one in columns)
        )

    def open(self, folder: Path, step: int | str) -> MappedColumns[Row]:
        """The file of a step, to read run by run or whole."""
        return MappedColumns(self.path(folder, step), self.row, of_this_run=True)

    def read(self, folder: Path, step: int | str) -> Row:
        """All rows of a step's file that was written at once."""
        return self.open(folder, step).whole()

    def open_all(self, folder: Path, count: int) -> list[MappedColumns[Row]]:
        """The files of the first `count` steps of the stage."""
        return [self.open(folder, number) for number in range(count)]

    def route_step(self, number: int) -> str:
        """The step that brings file `number` of the stage into the order of groups."""
        return f"route-{step_file(Path(), step_of(self.stage, number), self.what).stem}"


class DigestRows(NamedTuple):
    """Digests of a band, a run of rows for each run of documents and band, ordered as `store.columns` has it."""

    digest: NDArray[np.uint64]
    row: NDArray[np.uint32]  # within the partition; those without a token are left out


class PostingRows(NamedTuple):
    """Fingerprints and their documents, in runs ordered by the first as `store.columns` has it."""

    fingerprint: NDArray[np.uint64]
    row: NDArray[np.uint32]  # within the partition


class ExactRows(NamedTuple):
    """Exact hashes, or hashes of keys, in runs ordered by the first half as `store.columns` has it."""

    hash_0: NDArray[np.uint64]
    hash_1: NDArray[np.uint64]
    row: NDArray[np.uint32]  # within the partition; those without a token, or a key, are left out


class HeldItems(NamedTuple):
    """Items of a benchmark that documents of the partition hold, by row, then item."""

    row: Numbers
    item: Numbers  # a position: protected documents are the first of all
    coverage: NDArray[np.float64]
    start: Numbers  # bytes of the document's text
    stop: Numbers


class HeldSpans(NamedTuple):
    """Parts of such items in documents of the partition, as separate stretches, by row."""

    row: Numbers
    start: Numbers  # bytes of the document's text
    stop: Numbers
    tokens: Numbers
    item: Numbers  # the first to begin there, by position


class Sizes(NamedTuple):
    """Bytes of text, or numbers of fingerprints, a row per document of the partition."""

    size: Numbers


class OrderedSizes(NamedTuple):
    """`Sizes`, and `Order`."""

    size: Numbers
    major: NDArray[np.uint64]
    minor: NDArray[np.uint64]


class Ranks(NamedTuple):
    """The place of each document in decision order, by position."""

    rank: Numbers


class Weights(NamedTuple):
    """How many documents have each slot of fingerprints, at most 255."""

    documents: NDArray[np.uint8]


class Copies(NamedTuple):
    """Later copies, ascending, and the first of each; in TWINS, the first ones that another INPUT has before them."""

    document: Numbers
    first: Numbers


class Pairs(NamedTuple):
    """Candidate pairs of small buckets, i < j, lexicographic."""

    i: Numbers
    j: Numbers


class ForestRows(NamedTuple):
    """Connected documents, ascending; the least that each is connected with; how often it is the first of a pair."""

    document: Numbers
    label: Numbers
    pairs: NDArray[np.int32]


class Members(NamedTuple):
    """Documents in groups, ascending; `meets` is False for documents that are only copies."""

    document: Numbers
    group: Places
    meets: NDArray[np.bool_]


class Shares(NamedTuple):
    """Shares of groups too large for one task, by group: the pairs whose first document is in [start, stop)."""

    group: Numbers
    start: Numbers
    stop: Numbers


class Groups(NamedTuple):
    """The group of each row of a routed file, ascending in each run."""

    group: Numbers


class TextPlaces(NamedTuple):
    """The places of texts in a partition's file of texts, ordered by group and document."""

    group: Places
    document: Numbers
    size: Numbers
    offset: Numbers


class SimilarPairs(NamedTuple):
    """Pairs at or above the threshold, documents in decision order."""

    earlier: Numbers
    later: Numbers
    similarity: NDArray[np.float64]


class Decisions(NamedTuple):
    """Decisions, by document, ascending; `is_witness` marks the documents that others are dropped for.

    In DECISIONS `duplicate_of` may be below 0: a document of EARLIER. A document that is not kept and has no witness is
    left out by a policy. `decide.counts.counts` defines the last three columns; decisions of an index have none.
    """

    document: Numbers
    duplicate_of: Numbers
    similarity: NDArray[np.float32]
    cluster: Numbers
    is_witness: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    copies: Numbers
    near: Numbers
    component: Numbers

    @classmethod
    def of(cls, documents: Numbers, decision: Decision) -> Self:
        """The decision, in host memory, about these ascending documents."""
        target = decision.duplicate_of
        is_dropped, is_witness = target != np.arange(len(documents)), np.zeros(len(documents), bool)
        is_witness[target[is_dropped]] = True
        what = documents[target], decision.similarity, documents[decision.cluster], is_witness, decision.keep
        return cls(documents, *what, *count(target, decision.exact_copy, decision.cluster))


class SightingRows(NamedTuple):
    """The source and the date of each document of a partition: strings, microseconds; null, NO_DATE if unknown."""

    source: pa.Array
    date: Numbers


class SeenRows(NamedTuple):
    """Sources and dates of kept documents that others are dropped for, ascending, as `KeptSightings`."""

    document: Numbers
    sources: Numbers
    source_names: pa.Array
    first: Numbers
    last: Numbers


class Ids(NamedTuple):
    """Ids, a pyarrow.Array, of dropped documents and of those they are dropped for; ascending by document."""

    document: Numbers
    id: pa.Array


class EarlierDocuments(NamedTuple):
    """Documents of an index by number, ascending, and their keys, a pyarrow.Array."""

    number: Numbers
    key: pa.Array


OF_SEEN = {"source_names": pa.list_(pa.string())}
# Each with the stage that writes it, then in a comment the stages that read it.
ITEM_WINDOWS = Table("protect", "windows", ItemWindows)  # screen
ITEM_PLACES = Table("protect", "places", ItemPlaces)  # screen
ITEM_TOKENS = Table("protect", "items", ItemTokens)  # screen
ITEM_FLAGS = Table("protect", "flags", Flags)  # screen
HELD = Table("screen", "held", HeldItems)  # sign, hold, collect, write
HELD_SPANS = Table("screen", "spans", HeldSpans)  # hold
DIGESTS = Table("sign", "digests", DigestRows)  # collide
EXACT = Table("sign", "exact", ExactRows)  # copies
SIZES = Table("sign", "documents", Sizes)  # connect, gather, write
ORDER = Table("sign", "documents", Order)  # copies, compare, verify
SIZES_AND_ORDER = Table("sign", "documents", OrderedSizes)
KEYS = Table("sign", "keys", ExactRows)  # keys
KEY_COPIES = Table("keys", "copies", Copies)  # copies, collide, connect, route, evidence
COPIES = Table("copies", "copies", Copies)  # collide, connect, route, evidence
TWINS = Table("copies", "twins", Copies)  # route
POSTINGS = Table("sign", "postings", PostingRows)  # weigh, prefix, join
WEIGHTS = Table("weigh", "weights", Weights)  # prefix
PREFIXES = Table("prefix", "prefixes", PostingRows)  # join
SET_SIZES = Table("prefix", "sizes", Sizes)  # join; of fingerprints, 0 of copies
PAIRS = Table("collide", "pairs", Pairs)  # route
MEMBERSHIPS = Table("collide", "memberships", Memberships)  # route
FOREST = Table("collide", "forest", ForestRows)  # connect
MEMBERS = Table("connect", "members", Members)  # route, gather
RANKS = Table("rank", "ranks", Ranks)  # read where documents are admitted to an index
SHARES = Table("connect", "shares", Shares)  # compare, verify
GROUPS = Table("route", "routed", Groups)  # compare, verify; the first column of a routed file
PLACES = Table("gather", "places", TextPlaces)  # compare, verify
EDGES = Table("compare", "edges", SimilarPairs)  # verify
DECIDED = Table("verify", "decided", Decisions)  # collect; `keys` writes some, too
SAMPLE = Table("verify", "sample", Sample)  # read for the report; `compare` writes some, too
DECISIONS = Table("collect", "decisions", Decisions)  # write, evidence, clusters
SIGHTINGS = Table("sight", "sightings", SightingRows, {"source": pa.string()})  # verify, write, clusters
SEEN_IN_GROUP = Table("verify", "seen", SeenRows, OF_SEEN)  # collect
SEEN = Table("collect", "seen", SeenRows, OF_SEEN)  # write, clusters
EARLIER = Table("collect", "earlier", EarlierDocuments)  # evidence


def ids_table(number: int) -> Table[Ids]:
    """The ids of that run of files."""
    return Table("collect", f"ids{number}", Ids)


CONNECT = "connect"  # the step that forms groups


@dataclass(frozen=True)
class Ranges:
    """How many ranges of hashes some stages were cut into: each has a file of their tables."""

    keys: int = 0
    copies: int = 0
    met: int = 0  # of `collide` or `join`

    def all_copies(self, folder: Path) -> list[MappedColumns[Copies]]:
        """All files of later copies."""
        return [*KEY_COPIES.open_all(folder, self.keys), *COPIES.open_all(folder, self.copies)]
