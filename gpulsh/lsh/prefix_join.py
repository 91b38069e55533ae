"""The pairs of large buckets without comparing all of them: an exact prefix filter, document after document.

Two sets with Jaccard >= t share one of the |A| - ceil(t |A|) + 1 elements of each that come first in any one order of
all elements, and their sizes lie within t (prefix filter: Chaudhuri, Ganti, Kaushik 2006; Xiao, Wang, Lin, Yu 2008).
With the rarest first, a page of a common template meets nobody over the template. A document is compared only with
*kept* earlier ones, so that near-copies of one page meet that page and not one another. One join over the documents of
all large buckets serves every bucket: a pair counts where it shares one of them.

Pages put together from the same sentences meet nearly all others over their prefixes, again and again. Where shingles
match more often than there are pairs, all pairs are asked for and bitmaps rule out most of them (`lsh.bounds`).

A few kept documents that rule out nearly all others need neither prefixes nor frequencies: near-copies of one page are
compared with it and nothing else is made of them.

What is held follows the budget that the backend tells (`Sizes.whole`): where the measure is exact, an entry of the
index is a document and 32 bits of a shingle, for a wrong match is a pair that the measure rules out, and the table of
counts is as large as the distinct shingles of a sample ask for.

Where no exact measure follows (`verify="signature"` or `"none"`), the pairs that pass the filter are the compared ones:
they share a prefix shingle by the frequencies that `PrefixJoin` counts over all documents of large buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints
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
LEAST_TABLE, LARGEST_TABLE = 16, 26  # bits: 64 MB of counts
BLOCK_BYTES = 16 << 20  # text of a block
SAMPLE_BYTES = 2 << 20  # text, by whose shingles a table of counts is measured
SLOTS_OF_A_SHINGLE = 4  # of the distinct ones: what shares a slot is looked at, as if it met somebody


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
        self._entries: _Entries | None = None  # of the block in hand; None: no prefixes were made of it
        self._counts: Array | None = None
        self._known = np.empty(0, np.int64)  # kept
        self._unindexed = np.empty(0, np.int64)  # those of them that are not in the index
        whole = ops.sizes().whole
        self._block_bytes, self._largest_join, self._largest_table = BLOCK_BYTES, LARGEST_JOIN, LARGEST_TABLE
        if whole is not None:
            self._block_bytes = min(BLOCK_BYTES, max(whole >> 2, 1))
            self._largest_join = min(LARGEST_JOIN, max(whole >> 5, 1))
            self._largest_table = min(LARGEST_TABLE, max(whole.bit_length() - 1, LEAST_TABLE))

    def blocks(self) -> Iterator[Block]:
        """All documents in order, in blocks that grow while they have little in common."""
        start, size = 0, FIRST_BLOCK
        while start < len(self._rows):
            _, stop = next(runs_within(self._ends[start:] - self._before(start), self._block_bytes, size))
            stop += start
            try:
                fingerprints = self._texts.fingerprints(np.arange(start, stop))
            except DeviceMemoryError:
                if stop - start == 1:
                    raise
                size = (stop - start) // 2
                continue
            self._sizes[start:stop] = row_sizes(fingerprints, self._ops)
            block = self._by_few(start, stop, fingerprints) or self._by_prefixes(start, stop, fingerprints)
            if block is None:
                size = (stop - start) // 2
                continue
            yield block
            self._advance(stop - start)
            start, size = stop, min(size * 2, LAST_BLOCK)

    def keep(self, block: Block, kept: NDArray[np.bool_]) -> None:
        """Documents of the block marked in `kept` [stop - start] stay, and later ones are compared with them."""
        stay = block.start + np.flatnonzero(kept)
        self._known = np.concatenate([self._known, stay])
        if self._entries is None:
            self._unindexed = np.concatenate([self._unindexed, stay])
        else:
            self._kept.add(self._entries.where(kept[self._entries.documents - block.start]))

    def _before(self, start: int) -> int:
        return int(self._ends[start - 1]) if start else 0

    def _by_few(self, start: int, stop: int, fingerprints: Fingerprints) -> Block | None:
        """The block compared with all kept documents, and with those of its own that these leave, where both are few.

        Near-copies of one page need no prefixes then.
        """
        self._entries = None
        if not self._exact or len(self._known) > FEW_KEPT:
            return None
        here = np.arange(start, stop)
        with_kept = self._verified(self._allowed(product(self._known, here)), start, fingerprints)
        rest = np.setdiff1d(here, with_kept.later)
        if len(rest) > FEW_KEPT and len(here) > FIRST_BLOCK:
            return None
        inner = product(rest, here)
        inner = self._allowed(inner[inner[:, 0] < inner[:, 1]])
        return Block(start, stop, with_kept, self._verified(inner, start, fingerprints))

    def _by_prefixes(self, start: int, stop: int, fingerprints: Fingerprints) -> Block | None:
        """The block joined by its prefixes; None where its documents ask for too much to be looked at together."""
        self._index_kept()
        self._entries = queries = self._entries_of(fingerprints, np.arange(start, stop))
        outer = self._pairs(self._kept, queries, start, fingerprints)
        if outer is None:
            return None
        with_kept = self._verified(outer, start, fingerprints)
        # A document that a kept one rules out is not kept: only the rest can rule out others of the block.
        ruled_out = np.zeros(stop - start, bool)
        ruled_out[with_kept.later - start] = True
        still_open = _PrefixIndex()
        still_open.add(queries.where(~ruled_out[queries.documents - start]))
        inner = self._pairs(still_open, queries, start, fingerprints)
        if inner is None:
            return None
        inner = inner[inner[:, 0] < inner[:, 1]]
        return Block(start, stop, with_kept, self._verified(inner, start, fingerprints))

    def _index_kept(self) -> None:
        """The prefixes of kept documents, few, that none were made of when they were decided."""
        for first, last in runs_within(np.cumsum(self._text_sizes[self._unindexed]), self._block_bytes):
            self._index(self._unindexed[first:last])
        self._unindexed = self._unindexed[:0]

    def _index(self, places: NDArray[np.int64]) -> None:
        try:
            entries = self._entries_of(self._texts.fingerprints(places), places)
        except DeviceMemoryError:
            if len(places) == 1:
                raise
            for half in np.array_split(places, 2):
                self._index(half)
        else:
            self._kept.add(entries)

    def _entries_of(self, fingerprints: Fingerprints, places: NDArray[np.int64]) -> _Entries:
        """The prefixes of documents, ascending, sorted."""
        if self._counts is None:
            self._counts = self._frequencies()
        sizes = self._sizes[places]
        # The product is taken a little low: a prefix one too long loses nothing, one too short would.
        needed = np.ceil(sizes * (self._threshold * (1 - 1e-12))).astype(np.int64)
        lengths = np.minimum(sizes, sizes - needed + 1)
        prefixes = self._ops.prefixes(fingerprints, self._counts, self._ops.asarray(lengths))
        values, offset = self._ops.asnumpy(prefixes.values), self._ops.asnumpy(prefixes.offset)
        return _Entries.of(values, offset, places, cut=self._exact).sorted()

    def _frequencies(self) -> Array:
        """How often each slot of shingles occurs in the crowd; any counts give an exact join, good ones a fast one.

        Without an exact measure they say what is compared, and the table depends on nothing but the texts.
        """
        everything = int(self._ends[-1])
        most = _bits(everything / 3, LARGEST_TABLE)
        if not self._exact:
            counts, _ = self._counted(np.arange(len(self._ends)), most)
            return counts
        most = min(most, self._largest_table)
        if everything > 8 * SAMPLE_BYTES:
            sample = np.arange(0, len(self._ends), -(-everything // SAMPLE_BYTES))
            _, distinct_shingles = self._counted(sample, _bits(SAMPLE_BYTES / 3, most))
            wanted = distinct_shingles * everything / max(int(self._text_sizes[sample].sum()), 1)
            bits = min(most, _bits(SLOTS_OF_A_SHINGLE * wanted, most))
            counts, used = self._counted(np.arange(len(self._ends)), bits)
            if bits == most or used * 2 <= 1 << bits:
                return counts
        counts, _ = self._counted(np.arange(len(self._ends)), most)
        return counts

    def _counted(self, places: NDArray[np.int64], bits: int) -> tuple[Array, int]:
        """A table of 2^bits counts of the shingles of documents, and how many slots are used."""
        counts = self._ops.asarray(np.zeros(1 << bits, np.uint8))
        for start, stop in runs_within(np.cumsum(self._text_sizes[places]), self._block_bytes):
            counts = self._texts.frequencies(places[start:stop], counts)
        return counts, int(np.count_nonzero(counts))

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
        most = self._largest_join if len(block) > 1 else None
        matches = _Matches(index, queries, every + bitmaps if self._exact else None, most)
        if matches.enough:
            return self._near(known, asking, here, block)
        if matches.too_many:
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
            if len(block) > 1 and count > self._largest_join:
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
        runs = runs_within(np.cumsum(self._text_sizes[outside]), self._block_bytes)
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
    """Prefix shingles and whose they are: uint64 or, cut to their upper halves, uint32 [e], and uint32 [e]."""

    shingles: NDArray[np.unsignedinteger]
    documents: NDArray[np.uint32]

    @classmethod
    def of(
        cls, values: NDArray[np.uint64], offset: NDArray[np.int64], places: NDArray[np.int64], *, cut: bool
    ) -> _Entries:
        """The prefixes of the documents at `places`, row after row."""
        documents = np.repeat(places.astype(np.uint32), np.diff(offset))
        return cls((values >> np.uint64(32)).astype(np.uint32) if cut else values, documents)

    def sorted(self) -> _Entries:
        """By shingle: sorted queries walk an index in its own order."""
        if self.shingles.dtype == np.uint32:  # both fit into a word, which a vector sort orders in a tenth of the time
            both = packed(self.shingles, self.documents)
            both.sort()
            return _Entries((both >> np.uint64(32)).astype(np.uint32), both.astype(np.uint32))
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
    """Where the shingles of `queries` stand in the runs of `index`; `count` matches in all.

    There may be `enough`, and then they are counted no further, or more than `most`, and then they are `too_many` and
    none is held.
    """

    def __init__(self, index: _PrefixIndex, queries: _Entries, enough: int | None, most: int | None) -> None:
        self.queries, self.count = queries, 0
        self.enough = self.too_many = False
        self._places: list[tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
        for run in index.runs():
            first = np.searchsorted(run.shingles, queries.shingles, side="left")
            met = first < len(run.shingles)
            met[met] = run.shingles[first[met]] == queries.shingles[met]
            asked = np.flatnonzero(met)
            first = first[asked]
            count = np.searchsorted(run.shingles, queries.shingles[asked], side="right") - first
            self.count += int(count.sum())
            self.enough = enough is not None and self.count >= enough
            if self.enough:
                break
            self._places.append((run.documents, asked, first, count))
            self.too_many = most is not None and self.count > most
            if self.too_many:
                self._places.clear()

    def packed_pairs(self) -> Iterator[NDArray[np.uint64]]:
        """Pairs (known, asking), packed, of at most LARGEST_JOIN matches at a time."""
        for documents, asked, first, count in self._places:
            for begin, end in runs_within(np.cumsum(count), LARGEST_JOIN):
                known = documents[np.repeat(first[begin:end], count[begin:end]) + within_runs(count[begin:end])]
                asking = np.repeat(self.queries.documents[asked[begin:end]], count[begin:end])
                yield distinct(packed(known, asking))


def _distinct_of(documents: NDArray[np.uint32]) -> NDArray[np.int64]:
    first = int(documents.min()) if len(documents) else 0
    return np.flatnonzero(np.bincount(documents - np.uint32(first))) + first


def _bits(slots: float, most: int) -> int:
    """Of a table of at least so many slots, unless they are more than it may have."""
    return int(np.clip(np.ceil(np.log2(max(slots, 1))), LEAST_TABLE, most))
