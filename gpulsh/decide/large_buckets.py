"""Finds the pairs of large buckets in decision order, without comparing all of them.

A document is compared only with *kept* earlier ones, so near-copies of one page meet that page and not one another. One
join over the documents of all large buckets serves every bucket: a pair counts where it shares one of them. `HeldJoin`
finds the pairs of a block where documents are few, and `PrefixJoin` (`prefix_join`) where they are many. Up to some
thousands of documents, all pairs of bitmaps cost less than prefixes, which take three passes over the texts.

Here documents go by their place among the documents of all large buckets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare import BOUNDS_AT_ONCE, bounds_allow, measure_of, sizes_allow, words_for
from gpulsh.decide.readable import Readable, in_runs, row_sizes
from gpulsh.decide.relation import ALL, Edges, Relation
from gpulsh.errors import DeviceMemoryError
from gpulsh.lsh.collisions import Collisions
from gpulsh.lsh.pairs import chosen_pairs
from gpulsh.method import Method
from gpulsh.ragged import cuts, offsets
from gpulsh.stats.stages import Advance, no_progress

FIRST_BLOCK, LAST_BLOCK = 64, 8192  # documents joined together; no bit depends on these bounds
BLOCK_BYTES = 16 << 20  # text of a block
LARGEST_JOIN = 1 << 22  # matches, or pairs, in memory together
TEXT_AT_ONCE = 16 << 20  # bytes
MOST_DOCUMENTS = 4096  # whose fingerprints a `HeldJoin` holds
MOST_BYTES = 16 << 20  # of their text


@dataclass(frozen=True)
class Block:
    """Documents [start, stop), with all pairs that could decide them."""

    start: int
    stop: int
    with_kept: Edges  # earlier: kept documents before the block
    within: Edges  # earlier: documents of the block that no kept document rules out yet


@dataclass(frozen=True)
class BucketDocuments:
    """The c documents of all large buckets."""

    documents: Numbers  # [c] in decision order: their numbers in `collisions` and `relation`
    collisions: Collisions
    texts: Readable  # by place
    method: Method
    ops: Backend
    relation: Relation = ALL
    advance: Advance = no_progress  # called with the number of documents that were decided


class LargeBucketJoin(ABC):
    """The documents of large buckets, joined block by block.

    For each block of `blocks()` the caller decides its documents, and calls `keep` before it takes the next.
    """

    def __init__(self, given: BucketDocuments) -> None:
        texts, method, ops = given.texts, given.method, given.ops
        self._documents, self._relation, self._advance = given.documents, given.relation, given.advance
        self._rows = np.searchsorted(given.collisions.in_large, given.documents)
        self._collisions = given.collisions
        self._texts, self._offset, self._ops = texts, offsets(texts.text_sizes()), ops
        self._measure, self._threshold = measure_of(method), method.threshold
        self._sizes = np.zeros(len(given.documents), np.int64)  # unique shingles of the documents read so far
        self._known = np.empty(0, np.int64)  # kept documents
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
                block = self._block(start, stop)
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
        """Keep the documents of the block marked in `kept` [stop - start]; later ones are compared with them."""
        kept = kept & self._relation.can_be_witness(self._documents[block.start : block.stop])
        self._known = np.concatenate([self._known, block.start + np.flatnonzero(kept)])

    def _block(self, start: int, stop: int) -> Block | None:
        """The block; None where its documents, more than one, have too many matches to look at together."""
        here, numbers = np.arange(start, stop), self._documents[start:stop]
        asking = here[self._relation.can_be_dropped(numbers)]
        most = self._largest_join if len(here) > 1 else None
        outer = self._pairs_with_kept(here, asking, most)
        if outer is None:
            return None
        with_kept = self._verified(outer)
        # A document that a kept one rules out is not kept: only the others can rule out documents of the block.
        is_open = self._relation.can_be_witness(numbers)
        is_open[with_kept.later - start] = False
        inner = self._pairs_within(here[is_open], asking, most)
        if inner is None:
            return None
        return Block(start, stop, with_kept, self._verified(inner))

    @abstractmethod
    def _pairs_with_kept(self, here: Numbers, asking: Numbers, most: int | None) -> Numbers | None:
        """Pairs (kept, later asking) [m, 2], lexicographic, that may be similar enough, for a block of places `here`.

        None where the search would look at more than `most` matches or pairs.
        """

    @abstractmethod
    def _pairs_within(self, still_open: Numbers, asking: Numbers, most: int | None) -> Numbers | None:
        """The same for documents of that block with one another."""

    @abstractmethod
    def _verified(self, pairs: Numbers) -> Edges:
        """The lexicographic `pairs` [m, 2] at or above the threshold."""

    def _allowed(self, pairs: Numbers) -> Numbers:
        """The pairs [m, 2] that count, share a large bucket, and whose sizes allow the threshold."""
        pairs = chosen_pairs(pairs, sizes_allow(self._sizes[pairs[:, 0]], self._sizes[pairs[:, 1]], self._threshold))
        return chosen_pairs(pairs, self._count(pairs))

    def _count(self, pairs: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether `pairs` [m, 2] count, and share a large bucket."""
        earlier, later = pairs.T
        allowed = self._relation.allows(self._documents[earlier], self._documents[later])
        return allowed & self._collisions.share_large_bucket(self._rows[earlier], self._rows[later])

    def _near(self, found: Iterator[Numbers], most: int | None) -> Numbers | None:
        """The allowed pairs of parts; None where they are more than `most`."""
        near, count = [np.empty((0, 2), np.int64)], 0
        for pairs in found:
            near.append(self._allowed(pairs))
            count += len(near[-1])
            if most is not None and count > most:
                return None
        return np.concatenate(near)

    def _similar(self, pairs: Numbers, similarity: NDArray[np.float64]) -> Edges:
        edges = Edges(pairs[:, 0], pairs[:, 1], similarity)
        return edges.where(~(similarity < self._threshold))  # NaN, which is not measured, counts as similar


class HeldJoin(LargeBucketJoin):
    """A join that holds all fingerprints (`can_be_held`): bitmaps find its pairs, and nothing is read again.

    Raises DeviceMemoryError where memory does not hold them after all.
    """

    def __init__(self, given: BucketDocuments) -> None:
        super().__init__(given)
        self._fingerprints = given.texts.fingerprints(np.arange(len(given.documents)))
        self._sizes = row_sizes(self._fingerprints, given.ops)
        words = words_for(self._sizes, len(self._sizes), self._threshold)
        self._bitmaps = given.ops.bitmaps(self._fingerprints, words)

    def _pairs_with_kept(self, here: Numbers, asking: Numbers, most: int | None) -> Numbers | None:
        return self._pairs(self._known, asking, most)

    def _pairs_within(self, still_open: Numbers, asking: Numbers, most: int | None) -> Numbers | None:
        return self._pairs(still_open, asking, most)

    def _pairs(self, known: Numbers, asking: Numbers, most: int | None) -> Numbers | None:
        bitmaps = self._bitmaps, self._fingerprints.lengths
        return self._near(near(known, asking, *bitmaps, self._threshold, self._ops), most)

    def _verified(self, pairs: Numbers) -> Edges:
        return self._similar(pairs, self._measure(pairs, [self._fingerprints], self._ops))


def can_be_held(texts: Readable, method: Method, ops: Backend) -> bool:
    """Whether memory holds the fingerprints of all `texts`; without an exact measure prefixes decide instead."""
    whole = ops.sizes().whole
    most = MOST_BYTES if whole is None else min(MOST_BYTES, whole >> 2)
    sizes = texts.text_sizes()
    return method.verify == "exact" and len(sizes) <= MOST_DOCUMENTS and int(sizes.sum()) <= most


class Bitmaps:
    """Bitmaps of documents, each made when it first pays; then all pairs take a few instructions each."""

    def __init__(self, texts: Readable, threshold: float, ops: Backend) -> None:
        self._texts, self._text_sizes, self._threshold, self._ops = texts, texts.text_sizes(), threshold, ops
        self._made = np.zeros(len(self._text_sizes), bool)
        self._bitmaps: Array | None = None  # uint64 [c, words]
        self._sizes: Array | None = None  # int64 [c]

    def cost(self, known: Numbers, asking: Numbers, sizes: Numbers) -> int:
        """Fingerprints, by `sizes` [c], to read for the missing bitmaps of these documents."""
        return int(sizes[self._missing(known, asking)].sum())

    def near(self, known: Numbers, asking: Numbers) -> Iterator[Numbers]:
        """`near` for these documents."""
        self._make(self._missing(known, asking))
        yield from near(known, asking, self._bitmaps, self._sizes, self._threshold, self._ops)

    def _missing(self, *documents: Numbers) -> Numbers:
        wanted = np.zeros(len(self._made), bool)
        for places in documents:
            wanted[places] = True
        return np.flatnonzero(wanted & ~self._made)

    def _make(self, missing: Numbers) -> None:
        for places, fingerprints in in_runs(missing, self._text_sizes, TEXT_AT_ONCE, self._texts.fingerprints):
            if self._bitmaps is None or self._sizes is None:
                documents = len(self._made)
                words = words_for(row_sizes(fingerprints, self._ops), documents, self._threshold)
                self._bitmaps = self._ops.asarray(np.zeros((documents, words), np.uint64))
                self._sizes = self._ops.asarray(np.zeros(documents, np.int64))
            rows = self._ops.asarray(places)
            self._bitmaps[rows] = self._ops.bitmaps(fingerprints, self._bitmaps.shape[1])
            self._sizes[rows] = fingerprints.lengths
            self._made[places] = True


def near(
    known: Numbers, asking: Numbers, bitmaps: Array, sizes: Array, threshold: float, ops: Backend
) -> Iterator[Numbers]:
    """Pairs (known, later asking) [m, 2] whose bitmaps allow the threshold, lexicographic, some at a time.

    `bitmaps` uint64 [c, words] and `sizes` int64 [c] go by place.
    """
    if len(asking) == 0:
        return
    at_once = max(1, BOUNDS_AT_ONCE // len(asking))
    for start in range(0, len(known), at_once):
        pairs = product(known[start : start + at_once], asking)
        if known[-1] >= asking[0]:  # both of one block: each pair occurs twice
            pairs = chosen_pairs(pairs, pairs[:, 0] < pairs[:, 1])
        yield chosen_pairs(pairs, bounds_allow(pairs, bitmaps, sizes, threshold, ops))


def product(known: Numbers, asking: Numbers) -> Numbers:
    """Each known document with each asking one: int64 [known * asking, 2], lexicographic."""
    pairs = np.empty((len(known), len(asking), 2), np.int64)
    pairs[:, :, 0], pairs[:, :, 1] = known[:, None], asking
    return pairs.reshape(-1, 2)
