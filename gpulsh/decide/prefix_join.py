"""Joins many documents of large buckets: an exact prefix filter finds their pairs.

Two sets with Jaccard >= t share one of the |A| - ceil(t |A|) + 1 elements of each that come first in any one order of
all elements, and their sizes lie within t (prefix filter: Chaudhuri, Ganti, Kaushik 2006; Xiao, Wang, Lin, Yu 2008).
With the rarest elements first, pages of a common template do not meet over the template.

- Pages made of the same sentences meet nearly all others over their prefixes, again and again. Where there are more
  matches of shingles than pairs, bitmaps of all pairs rule out most of them (`decide.compare`).
- Where few kept documents rule out nearly all others, as with near-copies of one page, the join compares with these
  and needs neither prefixes nor frequencies. Otherwise it makes the prefixes of all documents (`prefixes`), and reads
  only the texts again whose prefixes meet.
- Memory follows the backend's budget (`Sizes.whole`). Where the measure is exact, an index entry is a document and 32
  bits of a shingle: the measure rules out wrong matches.
- Without an exact measure (`verify="signature"` or `"none"`), the filter decides which pairs are compared: those that
  share a prefix shingle by the frequencies that `Prefixes` counts over all documents of large buckets.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.decide.compare import compare, unmeasured
from gpulsh.decide.large_buckets import (
    FIRST_BLOCK,
    LARGEST_JOIN,
    Bitmaps,
    Block,
    BucketDocuments,
    LargeBucketJoin,
    product,
)
from gpulsh.decide.prefixes import Entries, Prefixes
from gpulsh.decide.readable import row_sizes
from gpulsh.decide.relation import Edges
from gpulsh.errors import DeviceMemoryError
from gpulsh.lsh.pairs import chosen_pairs, distinct, distinct_of, renumbered, share, unpacked
from gpulsh.ragged import cuts, offsets, within_runs

FEW_KEPT = 8  # kept documents that a block is compared with before anything else
LARGEST_MERGE = 1 << 20  # entries merged at once, or more in a large index


class PrefixIndex:
    """The documents that have a shingle in their prefix: sorted runs, merged when newer ones outgrow an older one.

    A merge takes four times the memory of its entries, so it takes at most an eighth of a large index.
    """

    def __init__(self) -> None:
        self.runs: list[Entries] = []  # sorted
        self._count = 0
        self._documents: list[Numbers] = []

    def add(self, entries: Entries) -> None:
        """Add sorted entries of new documents."""
        if len(entries.shingles) == 0:
            return
        self._documents.append(entries.owners())
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
        """int64, ascending: the documents with a shingle in the index."""
        return np.concatenate([np.empty(0, np.int64), *self._documents])


class Matches:
    """The places of the shingles of `queries` in the runs of `index`, with `count` matches in all.

    At `enough` matches counting stops. With more than `most` there are `too_many`, and no place is kept.
    """

    def __init__(self, index: PrefixIndex, queries: Entries, enough: int | None, most: int | None) -> None:
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


class PrefixJoin(LargeBucketJoin):
    """A join over prefixes."""

    def __init__(self, given: BucketDocuments) -> None:
        super().__init__(given)
        self._exact = given.method.verify == "exact"
        self._bitmaps = Bitmaps(given.texts, self._threshold, given.ops)
        self._prefixes: Prefixes | None = None
        self._kept = PrefixIndex()
        self._entries: Entries | None = None  # of the current block; None if it has no prefixes

    def keep(self, block: Block, kept: NDArray[np.bool_]) -> None:
        """Keep the documents of the block marked in `kept` [stop - start], and add them to the index."""
        before = len(self._known)
        super().keep(block, kept)
        stay = self._known[before:]
        if self._entries is not None:
            self._kept.add(self._entries_of(stay))
        elif self._prefixes is not None and len(stay):  # the block needed no prefixes, but others do
            self._kept.add(self._prefixes.of(stay).sorted())

    def _block(self, start: int, stop: int) -> Block | None:
        return self._by_few(start, stop) or super()._block(start, stop)

    def _by_few(self, start: int, stop: int) -> Block | None:
        """The block, compared with all kept documents and then with its remaining ones, where both are few.

        So near-copies of one page need no prefixes.
        """
        self._entries = None
        if not self._exact or len(self._known) > FEW_KEPT:
            return None
        here = np.arange(start, stop)
        try:
            with_kept = self._with_few(here)
        except DeviceMemoryError:
            if stop - start > 1:
                raise
            return None  # memory does not hold all kept documents and one more
        is_left = np.ones(len(here), bool)
        is_left[with_kept.later - start] = False
        rest = here[is_left]
        if len(rest) > FEW_KEPT and len(here) > FIRST_BLOCK:
            return None
        inner = product(rest, here)
        inner = inner[inner[:, 0] < inner[:, 1]]
        within = self._within(here, inner) if len(inner) else with_kept.where(slice(0))
        return Block(start, stop, with_kept, within)

    def _with_few(self, here: Numbers) -> Edges:
        """The edges of the few kept documents with the documents `here`."""
        pairs = product(self._known, here)
        both = np.empty(0, np.int64)
        if len(pairs):
            known = self._texts.fingerprints(self._known)
            overlaps, sizes = map(self._ops.asnumpy, self._texts.overlaps(here, known))
            self._sizes[self._known], self._sizes[here] = row_sizes(known, self._ops), sizes
            both = overlaps.T.reshape(-1)
        either = self._sizes[pairs[:, 0]] + self._sizes[pairs[:, 1]] - both
        found = self._similar(pairs, share(both, either))
        return found.where(self._count(np.stack([found.earlier, found.later], axis=1)))

    def _within(self, here: Numbers, pairs: Numbers) -> Edges:
        """The edges among `pairs` [m, 2] of the consecutive documents `here`."""
        fingerprints = self._texts.fingerprints(here)
        self._sizes[here] = row_sizes(fingerprints, self._ops)
        pairs = self._allowed(pairs)
        return self._similar(pairs, self._measure(pairs - here[0], [fingerprints], self._ops))

    def _pairs_with_kept(self, here: Numbers, asking: Numbers, most: int | None) -> Numbers | None:
        self._prefixes = self._prefixes or self._read(int(here[0]))
        self._entries = self._prefixes.of(here).sorted()
        return self._pairs(self._kept, asking, most)

    def _pairs_within(self, still_open: Numbers, asking: Numbers, most: int | None) -> Numbers | None:
        index = PrefixIndex()
        index.add(self._entries_of(still_open))
        return self._pairs(index, asking, most)

    def _entries_of(self, places: Numbers) -> Entries:
        """The entries of some documents of the current block, in order."""
        assert self._entries is not None
        chosen = np.zeros(len(self._rows), bool)
        chosen[places] = True
        return self._entries.where(chosen[self._entries.documents])

    def _read(self, start: int) -> Prefixes:
        """The prefixes of all documents from `start` on, and of earlier kept ones, which go into the index."""
        read = np.concatenate([self._known, np.arange(start, len(self._rows))])
        prefixes = Prefixes(read, self._texts, self._threshold, self._ops, exact=self._exact)
        self._sizes[read] = prefixes.sizes[read]
        if len(self._known):
            self._kept.add(prefixes.of(self._known).sorted())
        return prefixes

    def _pairs(self, index: PrefixIndex, asking: Numbers, most: int | None) -> Numbers | None:
        """Pairs (indexed, later asking) [m, 2], lexicographic, that share a prefix shingle and pass the filters.

        Pairs that share none may be among them where an exact measure then rules them out.
        """
        queries = self._entries_of(asking)
        known, asking = index.documents(), queries.owners()
        if len(asking) == 0:
            return np.empty((0, 2), np.int64)
        every = len(known) * len(asking)
        enough = every + self._bitmaps.cost(known, asking, self._sizes) if self._exact else None
        matches = Matches(index, queries, enough, most)
        if matches.enough:
            return self._near(self._bitmaps.near(known, asking), most)
        if matches.too_many:
            return None
        pairs = unpacked(distinct(np.concatenate([np.empty(0, np.uint64), *matches.packed_pairs()])))
        return self._allowed(chosen_pairs(pairs, pairs[:, 0] < pairs[:, 1]))

    def _verified(self, pairs: Numbers) -> Edges:
        """Read the documents of lexicographic `pairs` [m, 2] again, and keep the pairs at or above the threshold."""
        if self._measure is unmeasured:
            return Edges(pairs[:, 0], pairs[:, 1], np.full(len(pairs), np.nan))
        places, rows = renumbered(pairs, len(self._rows))
        threshold = self._threshold if self._exact else 0.0  # sizes bound the Jaccard, not its estimate
        texts = self._texts.renumbered(places)
        return self._similar(pairs, compare(rows, texts, self._measure, threshold, self._ops))
