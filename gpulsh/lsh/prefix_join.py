"""The pairs of large buckets without comparing all of them: an exact prefix filter, document after document.

Two sets with Jaccard >= t share one of the |A| - ceil(t |A|) + 1 elements of each that come first in any one order of
all elements, and their sizes lie within t (prefix filter: Chaudhuri, Ganti, Kaushik 2006; Xiao, Wang, Lin, Yu 2008).
With the rarest first, a page of a common template meets nobody over the template. A document is compared only with
*kept* earlier ones, so that near-copies of one page meet that page and not one another. One join over the documents of
all large buckets serves every bucket: a pair counts where it shares one of them.

Pages put together from the same sentences meet nearly all others over their prefixes, again and again. Where shingles
match more often than there are pairs, all pairs are asked for and bitmaps rule out most of them (`lsh.bounds`).

Where no exact measure follows (`verify="signature"` or `"none"`), the pairs that pass the filter are the compared ones:
they share a prefix shingle by the frequencies that `PrefixJoin` counts over all documents of large buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.protocol import Backend
from gpulsh.errors import DeviceMemoryError
from gpulsh.lsh.collisions import Collisions, distinct, first_of_runs, packed, unpacked, within_runs
from gpulsh.lsh.comparison import Measure, Readable, row_sizes, runs_within, sizes_allow
from gpulsh.lsh.crowd_bitmaps import CrowdBitmaps, product
from gpulsh.text.shingling import concatenated

FIRST_BLOCK, LAST_BLOCK = 64, 8192  # documents joined at once; no bit depends on these bounds
FEW_KEPT = 8  # kept documents that a block is compared with before anything else
LARGEST_JOIN = 1 << 22  # (shingle, pair) rows looked at together
LARGEST_MERGE = 1 << 20  # entries of an index, at least
MATCHES_OF_A_PAIR = 16  # that cost as much as to compare the fingerprints of a pair
LARGEST_TABLE = 26  # bits: 64 MB of counts
BLOCK_BYTES = 16 << 20  # text of a block


@dataclass(frozen=True)
class Edges:
    """Verified pairs: `earlier` and `later` int64 [m] in decision order, `similarity` float64 [m]."""

    earlier: NDArray[np.int64]
    later: NDArray[np.int64]
    similarity: NDArray[np.float64]

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Edges:
        """The edges that `chosen` marks (bool [m]) or lists (int64)."""
        return Edges(self.earlier[chosen], self.later[chosen], self.similarity[chosen])


@dataclass(frozen=True)
class Block:
    """Documents [start, stop) of the crowd, with all that could decide them."""

    start: int
    stop: int
    with_kept: Edges  # earlier: kept documents before the block
    within: Edges  # earlier: documents of the block that no kept document rules out yet


class PrefixJoin:
    """The documents of all large buckets, `crowd` [c] in decision order, joined block by block.

    For each block of `blocks()` the caller decides its documents and calls `keep` before it asks for the next.
    Documents go by their place in `crowd`, also in blocks and edges.
    """

    def __init__(
        self,
        crowd: NDArray[np.int64],
        collisions: Collisions,
        texts: Readable,
        text_sizes: NDArray[np.int64],
        measure: Measure,
        threshold: float,
        ops: Backend,
        *,
        exact: bool,
        allows: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]] | None = None,
        advance: Callable[[int], None] = lambda done: None,
    ) -> None:
        """`texts` and `text_sizes` [c] (bytes) go by the same places; `exact` says that `measure` is the Jaccard.

        `allows`, of earlier and later members of `crowd`, says which pairs count; None: all. `advance` is told of
        documents that are decided.
        """
        self._crowd, self._allows, self._advance = crowd, allows, advance
        self._rows = np.searchsorted(collisions.crowded, crowd)
        self._collisions = collisions
        self._texts, self._text_sizes, self._ends = texts, text_sizes, np.cumsum(text_sizes)
        self._measure, self._threshold, self._ops, self._exact = measure, threshold, ops, exact
        self._sizes = np.zeros(len(crowd), np.int64)  # unique shingles, known once a document's block was read
        self._bitmaps = CrowdBitmaps(texts, text_sizes, threshold, ops)
        self._kept = _PrefixIndex()
        self._entries = _Entries.none()  # of the block in hand

    def blocks(self) -> Iterator[Block]:
        """All documents in order, in blocks that grow while they have little in common."""
        counts = self._frequencies()
        start, size = 0, FIRST_BLOCK
        while start < len(self._rows):
            _, stop = next(runs_within(self._ends[start:] - self._before(start), BLOCK_BYTES, size))
            stop += start
            try:
                fingerprints = self._texts.fingerprints(np.arange(start, stop))
            except DeviceMemoryError:
                if stop - start == 1:
                    raise
                size = (stop - start) // 2
                continue
            self._sizes[start:stop] = row_sizes(fingerprints, self._ops)
            all_dropped = self._all_dropped(start, stop, fingerprints)
            if all_dropped is not None:
                self._entries = _Entries.none()
                yield Block(start, stop, all_dropped, all_dropped.where(np.empty(0, np.int64)))
                self._advance(stop - start)
                start, size = stop, min(size * 2, LAST_BLOCK)
                continue
            self._entries = queries = _Entries.of(
                self._prefixes_of(fingerprints, counts, self._sizes[start:stop]), start
            ).sorted()
            outer = self._pairs(self._kept, queries, start, fingerprints)
            if outer is None:
                size = (stop - start) // 2
                continue
            with_kept = self._verified(outer, start, fingerprints)
            # A document that a kept one rules out is not kept: only the rest can rule out others of the block.
            ruled_out = np.zeros(stop - start, bool)
            ruled_out[with_kept.later - start] = True
            still_open = _PrefixIndex()
            still_open.add(queries.where(~ruled_out[queries.documents - start]))
            inner = self._pairs(still_open, queries, start, fingerprints)
            if inner is None:
                size = (stop - start) // 2
                continue
            inner = inner[inner[:, 0] < inner[:, 1]]
            yield Block(start, stop, with_kept, self._verified(inner, start, fingerprints))
            self._advance(stop - start)
            start, size = stop, min(size * 2, LAST_BLOCK)

    def keep(self, block: Block, kept: NDArray[np.bool_]) -> None:
        """Documents of the block marked in `kept` [stop - start] stay, and later ones are compared with them."""
        self._kept.add(self._entries.where(kept[self._entries.documents - block.start]))

    def _before(self, start: int) -> int:
        return int(self._ends[start - 1]) if start else 0

    def _frequencies(self) -> NDArray[np.uint8]:
        """How often each slot of shingles occurs in the crowd; any counts give an exact join, good ones a fast one."""
        bits = int(np.clip(np.ceil(np.log2(max(int(self._ends[-1]), 1) / 3)), 16, LARGEST_TABLE))
        counts = self._ops.asarray(np.zeros(1 << bits, np.uint8))
        for start, stop in runs_within(self._ends, BLOCK_BYTES):
            counts = self._texts.frequencies(np.arange(start, stop), counts)
        return counts  # type: ignore[no-any-return]

    def _prefixes_of(
        self, fingerprints: Fingerprints, counts: NDArray[np.uint8], sizes: NDArray[np.int64]
    ) -> Fingerprints:
        # The product is taken a little low: a prefix one too long loses nothing, one too short would.
        needed = np.ceil(sizes * (self._threshold * (1 - 1e-12))).astype(np.int64)
        lengths = np.minimum(sizes, sizes - needed + 1)
        prefixes = self._ops.prefixes(fingerprints, counts, self._ops.asarray(lengths))
        return Fingerprints(self._ops.asnumpy(prefixes.values), self._ops.asnumpy(prefixes.offset))

    def _all_dropped(self, start: int, stop: int, block: Fingerprints) -> Edges | None:
        """The pairs of a block with a few kept documents, where these rule out all of it and no prefix is needed."""
        known = self._kept.documents()
        if not self._exact or not 0 < len(known) <= FEW_KEPT:
            return None
        pairs = self._allowed(product(known, np.arange(start, stop)))
        edges = self._verified(pairs, start, block)
        if len(_distinct_of(edges.later)) < stop - start:
            return None
        return edges

    def _pairs(
        self, index: _PrefixIndex, queries: _Entries, start: int, block: Fingerprints
    ) -> NDArray[np.int64] | None:
        """Pairs (indexed, asking) [m, 2], lexicographic, that share a prefix shingle and pass the filters.

        Those that share none may be among them, if the exact measure then rules them out. None where the documents of
        the block at `start`, more than one, ask for too much to be looked at together.
        """
        known, asking = index.documents(), _distinct_of(queries.documents)
        here, every = slice(start, start + len(block)), len(known) * len(asking)
        bitmaps = self._bitmaps.cost(known, self._sizes, here) if self._exact and every else 0
        # A few indexed documents are compared with all that ask, if the exact measure then rules out who shares none.
        if self._exact and every <= len(queries.documents):
            few = bitmaps >= MATCHES_OF_A_PAIR * every
            return self._allowed(product(known, asking)) if few else self._near(known, asking, here, block)
        matches = _Matches(index, queries)
        if self._exact and every + bitmaps <= matches.count:
            return self._near(known, asking, here, block)
        if len(block) > 1 and matches.count > LARGEST_JOIN:
            return None
        return self._allowed(unpacked(distinct(np.concatenate([np.empty(0, np.uint64), *matches.packed_pairs()]))))

    def _near(
        self, known: NDArray[np.int64], asking: NDArray[np.int64], here: slice, block: Fingerprints
    ) -> NDArray[np.int64] | None:
        """As `_pairs`, of all pairs those whose bitmaps allow the threshold."""
        found, count = [], 0
        for pairs in self._bitmaps.near(known, asking, here, block):
            found.append(self._allowed(pairs))
            count += len(found[-1])
            if len(block) > 1 and count > LARGEST_JOIN:
                return None
        return np.concatenate(found)

    def _allowed(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """The pairs [m, 2] that count, share a large bucket, and whose sizes allow the threshold."""
        if self._allows is not None:
            pairs = pairs[self._allows(self._crowd[pairs[:, 0]], self._crowd[pairs[:, 1]])]
        pairs = pairs[sizes_allow(self._sizes[pairs[:, 0]], self._sizes[pairs[:, 1]], self._threshold)]
        rows = self._rows[pairs]
        return pairs[self._collisions.share_large_bucket(rows[:, 0], rows[:, 1])]

    def _verified(self, pairs: NDArray[np.int64], start: int, block: Fingerprints) -> Edges:
        """Of lexicographic `pairs` [m, 2] those at or above the threshold; later ones lie in the block at `start`."""
        outside = pairs[pairs[:, 0] < start, 0]
        outside = outside[first_of_runs(outside)]
        if len(outside) == 0:
            return self._similar(pairs, self._measure(pairs - start, [block], self._ops))
        runs = runs_within(np.cumsum(self._text_sizes[outside]), BLOCK_BYTES)
        parts = [self._measured(pairs, outside[first:last], start, block) for first, last in runs]
        return self._similar(pairs, np.concatenate(parts))

    def _measured(
        self, pairs: NDArray[np.int64], fetched: NDArray[np.int64], start: int, block: Fingerprints
    ) -> NDArray[np.float64]:
        """The similarity of those of `pairs` whose earlier document is among `fetched`, in as many parts as fit."""
        chosen = pairs[slice(*np.searchsorted(pairs[:, 0], [fetched[0], fetched[-1] + 1]))]
        rows = np.stack([np.searchsorted(fetched, chosen[:, 0]), chosen[:, 1] - start + len(fetched)], axis=1)
        try:
            return self._measure(rows, [concatenated([self._texts.fingerprints(fetched), block])], self._ops)
        except DeviceMemoryError:
            if len(fetched) == 1:
                raise
        half = len(fetched) // 2
        return np.concatenate([self._measured(pairs, part, start, block) for part in (fetched[:half], fetched[half:])])

    def _similar(self, pairs: NDArray[np.int64], similarity: NDArray[np.float64]) -> Edges:
        edges = Edges(pairs[:, 0], pairs[:, 1], similarity)
        return edges.where(~(similarity < self._threshold))  # NaN, not measured, counts as similar


@dataclass(frozen=True)
class _Entries:
    """Prefix shingles and whose they are: uint64 [e], int64 [e]."""

    shingles: NDArray[np.uint64]
    documents: NDArray[np.int64]

    @classmethod
    def of(cls, prefixes: Fingerprints, start: int) -> _Entries:
        """The prefixes of documents from `start` on."""
        documents = np.repeat(np.arange(start, start + len(prefixes)), np.diff(prefixes.offset))
        return cls(prefixes.values, documents)

    @classmethod
    def none(cls) -> _Entries:
        """No entry."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.int64))

    def sorted(self) -> _Entries:
        """By shingle: sorted queries walk an index in its own order. A stable sort passes quickly over sorted runs."""
        order = np.argsort(self.shingles, kind="stable")
        return _Entries(self.shingles[order], self.documents[order])

    def where(self, chosen: NDArray[np.bool_]) -> _Entries:
        """The entries that `chosen` [e] marks."""
        return _Entries(self.shingles[chosen], self.documents[chosen])


class _PrefixIndex:
    """Which documents have a shingle in their prefix: sorted runs, merged when the newer outgrow the older.

    Merging takes four times what is merged: of many entries an eighth at most is merged at once.
    """

    def __init__(self) -> None:
        self._runs: list[_Entries] = []
        self._count = 0
        self._documents: list[NDArray[np.int64]] = []

    def add(self, entries: _Entries) -> None:
        if len(entries.shingles) == 0:
            return
        self._documents.append(_distinct_of(entries.documents))
        self._count += len(entries.shingles)
        most = max(LARGEST_MERGE, self._count // 8)
        merged = [entries]
        while self._runs and sum(len(run.shingles) for run in merged) * 2 > len(self._runs[-1].shingles):
            if sum(len(run.shingles) for run in (*merged, self._runs[-1])) > most:
                break
            merged.append(self._runs.pop())
        merged.reverse()
        shingles, documents = ([getattr(run, name) for run in merged] for name in ("shingles", "documents"))
        del entries, merged
        self._runs.append(_Entries(np.concatenate(shingles), np.concatenate(documents)).sorted())

    def documents(self) -> NDArray[np.int64]:
        """int64: the documents with a shingle in the index, ascending."""
        return np.concatenate([np.empty(0, np.int64), *self._documents])

    def runs(self) -> list[_Entries]:
        """The sorted runs."""
        return self._runs


class _Matches:
    """Where the shingles of `queries` stand in the runs of `index`; `count` matches in all."""

    def __init__(self, index: _PrefixIndex, queries: _Entries) -> None:
        self.queries = queries
        self._places = []
        for run in index.runs():
            first = np.searchsorted(run.shingles, queries.shingles, side="left")
            met = first < len(run.shingles)
            met[met] = run.shingles[first[met]] == queries.shingles[met]
            asked = np.flatnonzero(met)
            last = np.searchsorted(run.shingles, queries.shingles[asked], side="right")
            self._places.append((run.documents, asked, first[asked], last - first[asked]))
        self.count = sum(int(count.sum()) for *_, count in self._places)

    def packed_pairs(self) -> Iterator[NDArray[np.uint64]]:
        """Pairs (known, asking), packed, of at most LARGEST_JOIN matches at a time."""
        for documents, asked, first, count in self._places:
            for begin, end in runs_within(np.cumsum(count), LARGEST_JOIN):
                known = documents[np.repeat(first[begin:end], count[begin:end]) + within_runs(count[begin:end])]
                asking = np.repeat(self.queries.documents[asked[begin:end]], count[begin:end])
                yield distinct(packed(known, asking))


def _distinct_of(documents: NDArray[np.int64]) -> NDArray[np.int64]:
    first = int(documents.min()) if len(documents) else 0
    return np.flatnonzero(np.bincount(documents - first)) + first
