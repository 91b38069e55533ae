"""Finds the pairs by containment of documents that share shingles with many others, without comparing all of them.

A document is compared only with *kept* earlier ones, block by block, as in `decide.large_buckets`. A document that
contains a share t of a set A has one of the shingles in A's prefix (`decide.prefixes`). So the index
of a kept document holds its shingles that are in the prefix of any document.

Clusters follow from all pairs, and so from pairs of two dropped documents, too. But a pair whose documents are
connected already changes no cluster, and near-copies of one page are connected by that page. So `connecting_pairs`
compares a dropped document only with documents of other components.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.backends.protocol import min_share, prefix_lengths
from gpulsh.decide.edges import Edges
from gpulsh.decide.fingerprint_source import read_in_runs
from gpulsh.decide.large_buckets import LARGEST_JOIN, MATCH_COST, Block, LargeBucketJoin, all_pairs, check_count
from gpulsh.decide.prefixes import MIN_BITS, SHINGLE_BYTES, Entries, PrefixIndex
from gpulsh.lsh.pairs import pack_pairs, select_pairs, unpack_pairs
from gpulsh.ragged import (
    bundles,
    expand_ranges,
    find_equal_runs,
    first_of_runs,
    offsets,
    row_ranges,
    select_rows,
    sorted_distinct,
    stable_order,
)

MAX_BITS = 26  # of a slot
OWNED, HELD = 0, 1  # kinds of entries: the prefix of a document, and its shingles that are in some prefix


@dataclass(eq=False)
class ContainmentJoin(LargeBucketJoin):
    """`LargeBucketJoin` by containment; `collisions` only says which documents it joins."""

    def __post_init__(self) -> None:
        super().__post_init__()
        whole, every = self.ops.sizes().whole, np.arange(len(self.documents))
        self._whole, self._share = math.inf if whole is None else whole, min_share(self.method.threshold)
        max_bits = MAX_BITS if whole is None else min(MAX_BITS, whole.bit_length() - 1)
        bits = int(np.clip(int(self._text_sizes.sum() // SHINGLE_BYTES).bit_length(), MIN_BITS, max_bits))
        self._counts, in_prefix = (self.ops.asarray(np.zeros(1 << bits, np.uint8)) for _ in range(2))
        self._sizes = np.zeros(len(every), np.int64)  # of fingerprints
        for some, sets in self._read(every):
            self._sizes[some] += self.ops.asnumpy(sets.lengths)
            self._counts = self.ops.frequencies(sets, self._counts)
        for read in self._read(every):
            in_prefix = self.ops.frequencies(self._prefixes_of(*read), in_prefix)
        self._in_prefix = self.ops.asnumpy(in_prefix)  # by slot
        # The kinds of entries by which the earlier and the later document of a pair meet.
        self._ways = [(HELD, OWNED)] if self.method.drop_contained_only else [(HELD, OWNED), (OWNED, HELD)]
        self._of_kept, self._of_block = [PrefixIndex(), PrefixIndex()], list[Entries]()  # by kind

    def _read(self, places: Numbers) -> Iterator[tuple[Numbers, Fingerprints]]:
        """Some of `places`, and their unique fingerprints. A document that is read in ranges comes once for each."""
        held, sizes = self._held, self._text_sizes[places]
        read = self.texts.fingerprints if held is None else lambda some: select_rows(held, self.ops.asarray(some))
        yield from read_in_runs(places[sizes <= self._whole], self._text_sizes, self.ops.sizes().tile, read)
        for at in np.flatnonzero(sizes > self._whole).tolist():
            here, parts = places[at : at + 1], math.ceil(sizes[at] / self._whole)
            yield from ((here, sets) for sets in self.texts.fingerprints_by_range(here, parts))

    def _prefixes_of(self, places: Numbers, sets: Fingerprints) -> Fingerprints:
        """The prefix of each document; of a range its part, as any fingerprints do."""
        sizes = self._sizes[places]
        lengths = -(-prefix_lengths(sizes, self._share) * self.ops.asnumpy(sets.lengths) // sizes)
        return self.ops.prefixes(sets, self._counts, self.ops.asarray(lengths))

    def _entries_of(self, places: Numbers, sets: Fingerprints, kind: int) -> Entries:
        """The sorted entries of a kind of the documents at `places`, which have these fingerprints."""
        rows = self._prefixes_of(places, sets) if kind == OWNED else sets
        values, documents = self.ops.asnumpy(rows.values), np.repeat(places, self.ops.asnumpy(rows.lengths))
        if kind == HELD:
            chosen = np.flatnonzero(self._in_prefix[values >> np.uint64(65 - len(self._in_prefix).bit_length())])
            values, documents = values[chosen], documents[chosen]
        return Entries((values >> np.uint64(32)).astype(np.uint32), documents.astype(np.uint32)).sorted()

    def _block(self, start: int, stop: int) -> Block:
        sets = self._read(np.arange(start, stop))
        both = [[self._entries_of(*some, kind) for kind in (OWNED, HELD)] for some in sets]
        self._of_block = [Entries.concat(parts).sorted() for parts in zip(*both, strict=True)]
        return super()._block(start, stop)

    def _index(self, stay: Numbers) -> None:
        for known, _ in self._ways:
            self._of_kept[known].add(self._of_block[known].select(stay))

    def _find_pairs(self, known: Numbers, new: Numbers, here: Numbers) -> Numbers:
        if len(known) == 0 or len(new) == 0:
            return np.empty((0, 2), np.int64)
        most, every = self._largest_join if len(here) > 1 else math.inf, len(known) * len(new)
        found = [np.empty(0, np.uint64)]
        for of_known, of_new in self._ways:
            is_kept = known[0] < here[0]
            index = self._of_kept[of_known] if is_kept else PrefixIndex(self._of_block[of_known].select(known))
            matches = index.matches(self._of_block[of_new].select(new))
            if matches.count >= MATCH_COST * every:  # near-copies meet over each shingle
                check_count(every, most)
                return self._allowed_pairs(all_pairs(known, new))
            check_count(matches.count, most)
            found += matches.pairs(LARGEST_JOIN)
        return self._allowed_pairs(unpack_pairs(sorted_distinct(np.concatenate(found))))

    def _allowed_pairs(self, pairs: Numbers) -> Numbers:
        """The `pairs` [m, 2] that are in order, allowed by the rules, and large enough."""
        earlier, later = pairs.T
        allowed = earlier < later
        if self.method.drop_contained_only:
            allowed &= self._sizes[earlier] >= self._share * self._sizes[later]
        allowed &= self.rules.allows(self.documents[earlier], self.documents[later])
        counted: Numbers = select_pairs(pairs, allowed)
        return counted

    def connecting_pairs(self, label: Numbers, kept: Numbers) -> Iterator[Edges]:
        """Verified pairs (dropped, later) of documents that no pair so far connects, until all components are known.

        `label` int64 [c] has the component of each document, a number below c; it is updated. `kept` is bool [c].
        """
        every, dropped = np.arange(len(label)), np.flatnonzero(~kept)
        # Of each pair, one document is outside the largest component. Those are tabled: of near-copies these are few.
        inside = label == np.bincount(label).argmax()
        for of_dropped, of_later in self._ways:
            tabled = dropped[~inside[dropped]], of_dropped
            yield from self._pairs_between(label, tabled, (every, of_later))
            tabled = every[~inside], of_later
            yield from self._pairs_between(label, tabled, (dropped[inside[dropped]], of_dropped), later_is_tabled=True)

    def _pairs_between(
        self, label: Numbers, tabled: tuple[Numbers, int], others: tuple[Numbers, int], *, later_is_tabled: bool = False
    ) -> Iterator[Edges]:
        """`connecting_pairs` of some documents with others, each by a kind of entries."""
        places, kind = tabled
        table = Entries.concat(self._entries_of(*some, kind) for some in self._read(places))
        order = np.lexsort((label[table.documents], table.shingles))
        shingles, documents = table.shingles[order], table.documents[order]
        # Runs of a shingle and a component, so that documents of the same component are left out together.
        first = np.flatnonzero(first_of_runs(shingles) | first_of_runs(label[documents]))
        begins, counts = shingles[first], np.diff(np.append(first, len(documents)))

        def possible_pairs() -> Iterator[Numbers]:
            places, kind = others
            for some in self._read(places) if len(first) else ():
                queries = self._entries_of(*some, kind)
                asked, run, several = find_equal_runs(begins, queries.shingles)
                order = stable_order(queries.documents[asked].astype(np.int64))  # a pair's matches come together
                asking, run, several = queries.documents[asked[order]], run[order], several[order]
                for which, runs in _expand(run, several, self._largest_join):
                    apart = np.flatnonzero(label[documents[first[runs]]] != label[asking[which]])
                    new, runs = asking[which[apart]], runs[apart]
                    for which, rows in _expand(first[runs], counts[runs], self._largest_join):
                        both = (new[which], documents[rows]) if later_is_tabled else (documents[rows], new[which])
                        yield self._allowed_pairs(unpack_pairs(sorted_distinct(pack_pairs(*both))))

        for found in bundles(possible_pairs(), self._largest_join, len):
            pairs = unpack_pairs(sorted_distinct(pack_pairs(*np.concatenate(found).T)))
            edges = self._verify(select_pairs(pairs, label[pairs[:, 0]] != label[pairs[:, 1]]))
            if len(edges.later):
                ends = np.stack([label[edges.earlier], label[edges.later]], axis=1)
                label[:] = self.ops.asnumpy(self.ops.components(len(label), self.ops.asarray(ends)))[label]
                yield edges


def _expand(begin: Numbers, counts: Numbers, most: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Rows begin, begin + 1, ... of each range [n], `counts` [n], and the numbers of the ranges; `most` at a time."""
    for start, stop in row_ranges(offsets(counts), most):
        some = counts[start:stop]
        yield np.repeat(np.arange(start, stop), some), expand_ranges(begin[start:stop], some)
