"""The pairs of large buckets without comparing all of them: an exact prefix filter, document after document.

Two sets with Jaccard >= t share one of the |A| - ceil(t |A|) + 1 elements of each that come first in any one order of
all elements, and their sizes lie within t (prefix filter: Chaudhuri, Ganti, Kaushik 2006; Xiao, Wang, Lin, Yu 2008).
With the rarest first, a page of a common template meets nobody over the template. A document is compared only with
*kept* earlier ones, so that near-copies of one page meet that page and not one another. One join over the documents of
all large buckets serves every bucket: a pair counts where it shares one of them.

Pages put together from the same sentences meet nearly all others over their prefixes, again and again. Where shingles
match more often than there are pairs, all pairs are asked for and bitmaps rule out most of them (`bounds`).

A few kept documents that rule out nearly all others need neither prefixes nor frequencies: near-copies of one page are
compared with it and nothing else is made of them. Else the prefixes of all are made first (`crowd_prefixes`), and of
the texts only those are read again whose prefixes meet.

What is held follows the budget that the backend tells (`Sizes.whole`): where the measure is exact, an entry of the
index is a document and 32 bits of a shingle, for a wrong match is a pair that the measure rules out.

Where no exact measure follows (`verify="signature"` or `"none"`), the pairs that pass the filter are the compared ones:
they share a prefix shingle by the frequencies that `CrowdPrefixes` counts over all documents of large buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare.comparison import (
    Advance,
    Readable,
    compare,
    measure_of,
    row_sizes,
    sizes_allow,
    unmeasured,
    untold,
)
from gpulsh.decide.compare.crowd_bitmaps import CrowdBitmaps, product
from gpulsh.decide.compare.crowd_prefixes import CrowdPrefixes, Entries
from gpulsh.decide.relation import ALL, Relation
from gpulsh.errors import DeviceMemoryError
from gpulsh.lsh.collisions import Collisions
from gpulsh.lsh.pairs import distinct, distinct_of, renumbered, unpacked
from gpulsh.method import Method
from gpulsh.ragged import cuts, offsets, within_runs

FIRST_BLOCK, LAST_BLOCK = 64, 8192  # documents joined at once; no bit depends on these bounds
FEW_KEPT = 8  # kept documents that a block is compared with before anything else
LARGEST_JOIN = 1 << 22  # (shingle, pair) rows looked at together
LARGEST_MERGE = 1 << 20  # entries of an index, at least
BLOCK_BYTES = 16 << 20  # text of a block


@dataclass(frozen=True)
class Edges:
    """Verified pairs: `earlier` and `later` int64 [m] in decision order, `similarity` float64 [m]."""

    earlier: Numbers
    later: Numbers
    similarity: NDArray[np.float64]

    @classmethod
    def joined(cls, parts: Sequence[Edges]) -> Edges:
        """Several, end to end."""
        columns = zip(*((part.earlier, part.later, part.similarity) for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))

    def where(self, chosen: NDArray[np.bool_] | Numbers | slice) -> Edges:
        """The edges that `chosen` marks (bool [m]), lists (int64) or spans."""
        return Edges(self.earlier[chosen], self.later[chosen], self.similarity[chosen])

    def named(self, numbers: Numbers) -> Edges:
        """The same edges, each document by its number in `numbers` in place of its place there."""
        return Edges(numbers[self.earlier], numbers[self.later], self.similarity)


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
        crowd: Numbers,
        collisions: Collisions,
        texts: Readable,
        method: Method,
        ops: Backend,
        relation: Relation = ALL,
        advance: Advance = untold,
    ) -> None:
        """`texts` go by the same places, `relation` by the numbers in `crowd`; `advance` is told what is decided."""
        self._crowd, self._relation, self._advance = crowd, relation, advance
        self._rows = np.searchsorted(collisions.crowded, crowd)
        self._collisions = collisions
        self._texts, self._offset, self._ops = texts, offsets(texts.sizes()), ops
        self._measure, self._threshold = measure_of(method), method.threshold
        self._exact = method.verify == "exact"
        self._sizes = np.zeros(len(crowd), np.int64)  # unique shingles, of those read
        self._bitmaps = CrowdBitmaps(texts, method.threshold, ops)
        self._prefixes: CrowdPrefixes | None = None
        self._kept = _PrefixIndex()
        self._entries: Entries | None = None  # of the block in hand; None: no prefixes were made of it
        self._known = np.empty(0, np.int64)  # kept
        whole = ops.sizes().whole
        self._block_bytes, self._largest_join = BLOCK_BYTES, LARGEST_JOIN
        if whole is not None:
            self._block_bytes = min(BLOCK_BYTES, max(whole >> 2, 1))
            self._largest_join = min(LARGEST_JOIN, max(whole >> 5, 1))

    def blocks(self) -> Iterator[Block]:
        """All documents in order, in blocks that grow while they have little in common."""
        start, size = 0, FIRST_BLOCK
        while start < len(self._rows):
            _, stop = next(cuts(self._offset[start:], self._block_bytes, size))
            stop += start
            try:
                block = self._by_few(start, stop) or self._by_prefixes(start, stop)
            except DeviceMemoryError:
                if stop - start == 1:
                    raise
                block = None
            if block is None:
                size = (stop - start) // 2
                continue
            yield block
            self._advance(stop - start)
            start, size = stop, min(size * 2, LAST_BLOCK)

    def keep(self, block: Block, kept: NDArray[np.bool_]) -> None:
        """Documents of the block marked in `kept` [stop - start] stay, and later ones are compared with them."""
        kept = kept & self._relation.can_be_witness(self._crowd[block.start : block.stop])
        stay = block.start + np.flatnonzero(kept)
        self._known = np.concatenate([self._known, stay])
        if self._entries is not None:
            self._kept.add(self._entries.where(kept[self._entries.documents - block.start]))

    def _by_few(self, start: int, stop: int) -> Block | None:
        """The block compared with all kept documents, and with those of its own that these leave, where both are few.

        Near-copies of one page need no prefixes then.
        """
        self._entries = None
        if not self._exact or len(self._known) > FEW_KEPT:
            return None
        here = np.arange(start, stop)
        read = np.concatenate([self._known, here])
        try:
            fingerprints = self._texts.fingerprints(read)
        except DeviceMemoryError:
            if stop - start > 1:
                raise
            return None  # all kept documents and one more are too much
        self._sizes[read] = row_sizes(fingerprints, self._ops)
        with_kept = self._measured(product(self._known, here), read, fingerprints)
        rest = np.setdiff1d(here, with_kept.later)
        if len(rest) > FEW_KEPT and len(here) > FIRST_BLOCK:
            return None
        inner = product(rest, here)
        return Block(start, stop, with_kept, self._measured(inner[inner[:, 0] < inner[:, 1]], read, fingerprints))

    def _by_prefixes(self, start: int, stop: int) -> Block | None:
        """The block joined by its prefixes; None where its documents ask for too much to be looked at together."""
        self._prefixes = self._prefixes or self._read(start)
        here, numbers = np.arange(start, stop), self._crowd[start:stop]
        self._entries = self._prefixes.of(here).sorted()
        queries = self._entries.where(self._relation.can_be_dropped(numbers)[self._entries.documents - start])
        outer = self._pairs(self._kept, queries, here)
        if outer is None:
            return None
        with_kept = self._verified(outer)
        # A document that a kept one rules out is not kept: only the rest can rule out others of the block.
        open_ones = self._relation.can_be_witness(numbers)
        open_ones[with_kept.later - start] = False
        still_open = _PrefixIndex()
        still_open.add(self._entries.where(open_ones[self._entries.documents - start]))
        inner = self._pairs(still_open, queries, here)
        if inner is None:
            return None
        return Block(start, stop, with_kept, self._verified(inner[inner[:, 0] < inner[:, 1]]))

    def _read(self, start: int) -> CrowdPrefixes:
        """The prefixes of all documents from `start` on, and of the kept ones before, which enter the index."""
        read = np.concatenate([self._known, np.arange(start, len(self._rows))])
        prefixes = CrowdPrefixes(read, self._texts, self._threshold, self._ops, exact=self._exact)
        self._sizes[read] = prefixes.sizes[read]
        if len(self._known):
            self._kept.add(prefixes.of(self._known).sorted())
        return prefixes

    def _pairs(self, index: _PrefixIndex, queries: Entries, here: Numbers) -> Numbers | None:
        """Pairs (indexed, asking) [m, 2], lexicographic, that share a prefix shingle and pass the filters.

        Those that share none may be among them, if the exact measure then rules them out. None where the documents of
        a block `here`, more than one, ask for too much to be looked at together.
        """
        known, asking = index.documents(), _distinct_of(queries.documents)
        if len(asking) == 0:
            return np.empty((0, 2), np.int64)
        every = len(known) * len(asking)
        enough = every + self._bitmaps.cost(known, asking, self._sizes) if self._exact else None
        most = self._largest_join if len(here) > 1 else None
        matches = _Matches(index, queries, enough, most)
        if matches.enough:
            return self._near(known, asking, most)
        if matches.too_many:
            return None
        return self._allowed(unpacked(distinct(np.concatenate([np.empty(0, np.uint64), *matches.packed_pairs()]))))

    def _near(self, known: Numbers, asking: Numbers, most: int | None) -> Numbers | None:
        """As `_pairs`, of all pairs those whose bitmaps allow the threshold; None where they are more than `most`."""
        found, count = [], 0
        for pairs in self._bitmaps.near(known, asking):
            found.append(self._allowed(pairs))
            count += len(found[-1])
            if most is not None and count > most:
                return None
        return np.concatenate(found)

    def _allowed(self, pairs: Numbers) -> Numbers:
        """The pairs [m, 2] that count, share a large bucket, and whose sizes allow the threshold."""
        pairs = pairs[self._relation.allows(self._crowd[pairs[:, 0]], self._crowd[pairs[:, 1]])]
        pairs = pairs[sizes_allow(self._sizes[pairs[:, 0]], self._sizes[pairs[:, 1]], self._threshold)]
        rows = self._rows[pairs]
        return pairs[self._collisions.share_large_bucket(rows[:, 0], rows[:, 1])]

    def _measured(self, pairs: Numbers, read: Numbers, fingerprints: Fingerprints) -> Edges:
        """Keep those of `pairs` [m, 2], of documents that were `read`, that count and are similar enough."""
        pairs = self._allowed(pairs)
        return self._similar(pairs, self._measure(np.searchsorted(read, pairs), [fingerprints], self._ops))

    def _verified(self, pairs: Numbers) -> Edges:
        """Read the documents of lexicographic `pairs` [m, 2] again, and keep the pairs at or above the threshold."""
        if self._measure is unmeasured:
            return Edges(pairs[:, 0], pairs[:, 1], np.full(len(pairs), np.nan))
        places, rows = renumbered(pairs, len(self._rows))
        threshold = self._threshold if self._exact else 0.0  # sizes bound the Jaccard, not its estimate
        texts = self._texts.renumbered(places)
        return self._similar(pairs, compare(rows, texts, self._measure, threshold, self._ops))

    def _similar(self, pairs: Numbers, similarity: NDArray[np.float64]) -> Edges:
        edges = Edges(pairs[:, 0], pairs[:, 1], similarity)
        return edges.where(~(similarity < self._threshold))  # NaN, not measured, counts as similar


class _PrefixIndex:
    """Which documents have a shingle in their prefix: sorted runs, merged when the newer outgrow the older.

    Merging takes four times what is merged: of many entries an eighth at most is merged at once.
    """

    def __init__(self) -> None:
        self.runs: list[Entries] = []  # sorted
        self._count = 0
        self._documents: list[Numbers] = []

    def add(self, entries: Entries) -> None:
        if len(entries.shingles) == 0:
            return
        self._documents.append(_distinct_of(entries.documents))
        self._count += len(entries.shingles)
        most = max(LARGEST_MERGE, self._count // 8)
        merged = [entries]
        while self.runs and sum(len(run.shingles) for run in merged) * 2 > len(self.runs[-1].shingles):
            if sum(len(run.shingles) for run in (*merged, self.runs[-1])) > most:
                break
            merged.append(self.runs.pop())
        merged.reverse()
        shingles, documents = ([getattr(run, name) for run in merged] for name in ("shingles", "documents"))
        del entries, merged
        self.runs.append(Entries(np.concatenate(shingles), np.concatenate(documents)).sorted())

    def documents(self) -> Numbers:
        """int64: the documents with a shingle in the index, ascending."""
        return np.concatenate([np.empty(0, np.int64), *self._documents])


class _Matches:
    """Where the shingles of `queries` stand in the runs of `index`; `count` matches in all.

    There may be `enough`, and then they are counted no further, or more than `most`, and then they are `too_many` and
    none is held.
    """

    def __init__(self, index: _PrefixIndex, queries: Entries, enough: int | None, most: int | None) -> None:
        self.queries, self.count = queries, 0
        self.enough = self.too_many = False
        self._places: list[tuple[NDArray[np.uint32], Numbers, Numbers, Numbers]] = []
        for run in index.runs:
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
            for begin, end in cuts(offsets(count), LARGEST_JOIN):
                known = documents[np.repeat(first[begin:end], count[begin:end]) + within_runs(count[begin:end])]
                asking = np.repeat(self.queries.documents[asked[begin:end]], count[begin:end])
                yield distinct_of(known, asking)


def _distinct_of(documents: NDArray[np.uint32]) -> Numbers:
    first = int(documents.min()) if len(documents) else 0
    return np.flatnonzero(np.bincount(documents - np.uint32(first))) + first
