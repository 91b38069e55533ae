"""Finds the pairs of large buckets in decision order, without comparing all of them.

A document is compared only with *kept* earlier ones, so near-copies of one page are compared with that page and not
with one another. One join over the documents of all large buckets serves every bucket: a pair counts if it shares one
of them. There are three ways to find the pairs of a block of documents. If an exact measure follows, no result depends
on the way.

- The fingerprints of some thousands of documents are held, so that each text is read once. Bitmaps of all pairs rule
  out most of them (`decide.compare`). They cost less than prefixes, which take three passes over the texts.
- Few kept documents, as of near-copies of one page, are compared with every document.
- Otherwise prefixes find the pairs (`decide.prefixes`), and only the texts whose prefixes meet are read again. Pages
  made of the same sentences meet nearly all others over their prefixes, again and again. Where there are a quarter as
  many matches of shingles as pairs, bitmaps rule out pairs here, too.

Without an exact measure (`verify="signature"` or `"none"`), pairs are compared if they share a prefix shingle. The
prefixes then follow from frequencies that `Prefixes` counts over all documents of large buckets. Memory follows the
backend's budget (`Sizes.whole`). Here the number of a document is its place among the documents of all large buckets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare import BOUNDS_AT_ONCE, bitmap_words, bounds_allow, compare, measure_of
from gpulsh.decide.edges import NO_RULES, DropRules, Edges
from gpulsh.decide.fingerprint_source import FingerprintSource, read_in_runs
from gpulsh.decide.prefixes import Entries, Prefixes, PrefixIndex
from gpulsh.errors import DeviceMemoryError
from gpulsh.lsh.collisions import Collisions
from gpulsh.lsh.pairs import renumber, select_pairs, unpack_pairs
from gpulsh.method import Method
from gpulsh.ragged import offsets, row_ranges, sorted_distinct
from gpulsh.stats.stages import Advance, no_progress

FIRST_BLOCK, LAST_BLOCK = 64, 8192  # documents joined together; no bit depends on these bounds
BLOCK_BYTES = 16 << 20  # text of a block
LARGEST_JOIN = 1 << 22  # matches, or pairs, in memory together
TEXT_AT_ONCE = 16 << 20  # bytes
FEW_KEPT = 8  # kept documents to compare with first
FEW_DOCUMENTS = 64  # documents to compare with those
MAX_DOCUMENTS = 4096  # fingerprints of up to so many documents are held
MAX_BYTES = 16 << 20  # of their text
MATCH_COST = 4  # of a match of shingles, in pairs of bitmaps: matches are sorted, and each is looked up in the buckets


@dataclass(frozen=True)
class Block:
    """Documents [start, stop), with all pairs that could decide them."""

    start: int
    stop: int
    with_kept: Edges  # earlier: kept documents before the block
    within: Edges  # earlier: documents of the block that no kept document rules out yet


@dataclass(eq=False)
class LargeBucketJoin:
    """The c documents of all large buckets, joined block by block.

    For each block of `blocks()` the caller decides its documents, and calls `keep` before it takes the next.
    """

    documents: Numbers  # [c] in decision order: their numbers in `collisions` and `rules`
    collisions: Collisions
    texts: FingerprintSource  # by place
    method: Method
    ops: Backend
    rules: DropRules = NO_RULES
    advance: Advance = no_progress  # called with the number of documents that were decided

    def __post_init__(self) -> None:
        self.known = np.empty(0, np.int64)  # kept documents
        self._rows = np.searchsorted(self.collisions.in_large, self.documents)
        self._text_sizes, self._is_exact = self.ops.asnumpy(self.texts.text_sizes()), self.method.verify == "exact"
        # Sizes bound the exact Jaccard similarity, but neither its estimate nor containment.
        self._bound = self.method.threshold if self._is_exact and self.method.measure == "jaccard" else 0.0
        self._block_bytes, self._largest_join, max_bytes = BLOCK_BYTES, LARGEST_JOIN, MAX_BYTES
        whole = self.ops.sizes().whole
        if whole is not None:
            self._block_bytes = min(BLOCK_BYTES, max(whole >> 2, 1))
            self._largest_join = min(LARGEST_JOIN, max(whole >> 5, 1))
            max_bytes = min(MAX_BYTES, whole >> 2)
        self._bitmaps = Bitmaps(self.texts, self.method.threshold, self.ops)
        self._prefixes: Prefixes | None = None
        self._kept = PrefixIndex()
        self._entries: Entries | None = None  # of the current block; None if it has no prefixes
        self._held: Fingerprints | None = None  # of all documents, if these are few
        if self._is_exact and len(self.documents) <= MAX_DOCUMENTS and int(self._text_sizes.sum()) <= max_bytes:
            every = np.arange(len(self.documents))
            try:
                self._held = self.texts.fingerprints(every)
                self._bitmaps.add(every, self._held)
            except DeviceMemoryError:
                self._held, self._bitmaps = None, Bitmaps(self.texts, self.method.threshold, self.ops)

    def blocks(self) -> Iterator[Block]:
        """All documents in order, in blocks that grow while they have little in common."""
        start, size, offset = 0, FIRST_BLOCK, offsets(self._text_sizes)
        while start < len(self._rows):
            _, stop = next(row_ranges(offset[start:], self._block_bytes, size))
            stop += start
            try:
                block = self._block(start, stop)
            except DeviceMemoryError:
                size = (stop - start) // 2
                if size == 0:
                    raise
                continue
            yield block
            self.advance(stop - start)
            start, size = stop, min(size * 2, LAST_BLOCK)

    def keep(self, block: Block, kept: NDArray[np.bool_]) -> None:
        """Keep the documents of the block marked in `kept` [stop - start]; later ones are compared with them."""
        can_be_witness = self.rules.can_be_witness(self.documents[block.start : block.stop])
        stay = block.start + np.flatnonzero(kept & can_be_witness)
        self.known = np.concatenate([self.known, stay])
        self._index(stay)

    def _index(self, stay: Numbers) -> None:
        """Find later documents by these documents of the block, which are kept."""
        if self._entries is not None:
            self._kept.add(self._entries.select(stay))
        elif self._prefixes is not None and len(stay):  # the block needed no prefixes, but others do
            self._kept.add(self._prefixes.entries(stay))

    def _block(self, start: int, stop: int) -> Block:
        """The block; DeviceMemoryError if several documents have too many matches to look at together."""
        self._entries = None
        here, numbers = np.arange(start, stop), self.documents[start:stop]
        new = here[self.rules.can_be_dropped(numbers)]
        with_kept = self._verify(self._find_pairs(self.known, new, here))
        # A document that a kept one rules out is not kept: only the others can rule out documents of the block.
        is_open = self.rules.can_be_witness(numbers)
        is_open[with_kept.later - start] = False
        return Block(start, stop, with_kept, self._verify(self._find_pairs(here[is_open], new, here)))

    def _find_pairs(self, known: Numbers, new: Numbers, here: Numbers) -> Numbers:
        """Pairs (known, later new) [m, 2], lexicographic, that count and may be similar enough.

        `known` are kept documents, or documents of the block `here`, to which all `new` belong. DeviceMemoryError
        where the search would look at too many matches or pairs of several documents.
        """
        if len(known) == 0 or len(new) == 0:
            return np.empty((0, 2), np.int64)
        most = self._largest_join if len(here) > 1 else math.inf
        if self._held is not None:
            return self._pairs_by_bitmaps(known, new, most)
        if self._is_exact and (len(known) <= FEW_KEPT or max(len(known), len(new)) <= FEW_DOCUMENTS):
            return self._allowed_pairs(all_pairs(known, new))
        if self._prefixes is None:  # of all documents from here on, and of earlier kept ones, which go into the index
            read = np.concatenate([self.known, np.arange(here[0], len(self._rows))])
            self._prefixes = Prefixes(read, self.texts, self.method.threshold, self.ops, exact=self._is_exact)
            if len(self.known):
                self._kept.add(self._prefixes.entries(self.known))
        if self._entries is None:
            self._entries = self._prefixes.entries(here)
        index = self._kept if known[0] < here[0] else PrefixIndex(self._entries.select(known))
        queries, sizes = self._entries.select(new), self._prefixes.sizes
        known, new, matches = index.documents(), queries.owners(), index.matches(queries)
        every = len(known) * len(new)
        if self._is_exact and MATCH_COST * matches.count >= every + self._bitmaps.cost(known, new, sizes):
            return self._pairs_by_bitmaps(known, new, most)
        check_count(matches.count, most)
        pairs = unpack_pairs(sorted_distinct(np.concatenate([np.empty(0, np.uint64), *matches.pairs(LARGEST_JOIN)])))
        allowed = bounds_allow(pairs, None, sizes, self.method.threshold, self.ops)
        return self._allowed_pairs(select_pairs(pairs, allowed))

    def _pairs_by_bitmaps(self, known: Numbers, new: Numbers, most: float) -> Numbers:
        """The pairs of `_find_pairs` whose bitmaps allow the threshold."""
        near, count = [np.empty((0, 2), np.int64)], 0
        for pairs in self._bitmaps.near_pairs(known, new):
            near.append(self._allowed_pairs(pairs))
            count += len(near[-1])
            check_count(count, most)
        return np.concatenate(near)

    def _allowed_pairs(self, pairs: Numbers) -> Numbers:
        """The `pairs` [m, 2] that count: in order, allowed by the rules, and of one large bucket."""
        pairs = select_pairs(pairs, pairs[:, 0] < pairs[:, 1])
        earlier, later = pairs.T
        allowed = self.rules.allows(self.documents[earlier], self.documents[later])
        shares = self.collisions.share_large_bucket(self._rows[earlier], self._rows[later])
        counted: Numbers = select_pairs(pairs, allowed & shares)
        return counted

    def _verify(self, pairs: Numbers) -> Edges:
        """The lexicographic `pairs` [m, 2] at or above the threshold; reads their documents unless they are held."""
        measure, similarity = measure_of(self.method), np.full(len(pairs), np.nan)
        if self._held is not None:
            similarity = self.ops.asnumpy(measure(self.ops.asarray(pairs), [self._held], self.ops))
        elif self.method.verify != "none":
            places, rows = renumber(pairs, len(self._rows))
            texts = self.texts.select(places)
            similarity = self.ops.asnumpy(compare(self.ops.asarray(rows), texts, measure, self._bound, self.ops))
        edges = Edges(pairs[:, 0], pairs[:, 1], similarity)
        return edges.select(~(similarity < self.method.threshold))  # NaN, which is not measured, counts as similar


class Bitmaps:
    """Bitmaps of documents, each made when it first pays; then all pairs take a few instructions each."""

    def __init__(self, texts: FingerprintSource, threshold: float, ops: Backend) -> None:
        self._texts, self._threshold, self._ops = texts, threshold, ops
        self._text_sizes = ops.asnumpy(texts.text_sizes())
        self._made = np.zeros(len(self._text_sizes), bool)
        self._bitmaps: Array | None = None  # uint64 [c, words]
        self._sizes: Array | None = None  # int64 [c]

    def cost(self, known: Numbers, new: Numbers, sizes: Numbers) -> int:
        """Fingerprints, by `sizes` [c], to read for the missing bitmaps of these documents."""
        return int(sizes[self._missing(known, new)].sum())

    def near_pairs(self, known: Numbers, new: Numbers) -> Iterator[Numbers]:
        """Pairs (known, new) [m, 2] whose bitmaps allow the threshold, lexicographic, some at a time."""
        missing = self._missing(known, new)
        for read in read_in_runs(missing, self._text_sizes, TEXT_AT_ONCE, self._texts.fingerprints):
            self.add(*read)
        at_once = max(1, BOUNDS_AT_ONCE // max(len(new), 1))
        for start in range(0, len(known), at_once):
            pairs = all_pairs(known[start : start + at_once], new)
            if len(new) and known[-1] >= new[0]:  # both of one block: each pair occurs twice
                pairs = select_pairs(pairs, pairs[:, 0] < pairs[:, 1])
            given = self._ops.asarray(pairs), self._bitmaps, self._sizes
            yield select_pairs(pairs, self._ops.asnumpy(bounds_allow(*given, self._threshold, self._ops)))

    def add(self, places: Numbers, fingerprints: Fingerprints) -> None:
        """Make the bitmaps of the documents at `places` [m] from their fingerprints."""
        if self._bitmaps is None or self._sizes is None:
            documents = len(self._made)
            words = bitmap_words(self._ops.asnumpy(fingerprints.lengths), documents, self._threshold)
            self._bitmaps = self._ops.asarray(np.zeros((documents, words), np.uint64))
            self._sizes = self._ops.asarray(np.zeros(documents, np.int64))
        rows = self._ops.asarray(places)
        self._bitmaps[rows] = self._ops.bitmaps(fingerprints, self._bitmaps.shape[1])
        self._sizes[rows] = fingerprints.lengths
        self._made[places] = True

    def _missing(self, *documents: Numbers) -> Numbers:
        wanted = np.zeros(len(self._made), bool)
        for places in documents:
            wanted[places] = True
        return np.flatnonzero(wanted & ~self._made)


def check_count(count: int, most: float) -> None:
    """DeviceMemoryError if a block has more than `most` matches."""
    if count > most:
        raise DeviceMemoryError(f"a block of large buckets has {count} matches, and memory has room for {most}")


def all_pairs(known: Numbers, new: Numbers) -> Numbers:
    """Each known document with each new one: int64 [known * new, 2], lexicographic."""
    pairs = np.empty((len(known), len(new), 2), np.int64)
    pairs[:, :, 0], pairs[:, :, 1] = known[:, None], new
    return pairs.reshape(-1, 2)
