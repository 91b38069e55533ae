"""The prefixes of the documents of large buckets, and an index of them: an exact filter that finds similar pairs.

Two sets with Jaccard >= t share one of the |A| - ceil(t |A|) + 1 elements of each that come first in any one order of
all elements, and their sizes are within t (prefix filter: Chaudhuri, Ganti, Kaushik 2006; Xiao, Wang, Lin, Yu 2008).
With the rarest elements first, pages of a common template do not meet over the template. Where the measure is exact,
an index entry is a document and 32 bits of a shingle: the measure rules out wrong matches.

An exact table of counts would cost a pass over all texts. If an exact measure follows, a sample of one document in
thirty-two shows the common shingles. One pass then takes all shingles of each document that are rare in the sample, or
its prefix if that has more. Only taken shingles are counted, and the prefix is the rarest of them. Both steps together
give one order of all shingles, and the filter needs no more. A shingle that only one document took leads nowhere, so
nothing is left of a page of a common template, whose prefix is its own content.

The taken shingles are a tenth to a half of the texts. They are held where the budget allows; otherwise only their
counts are, and a document is read again for its prefix.

Documents that may contain a share of later ones (`containing_pairs`) are found by an exact prefix filter on one side
only. A document that contains a share t of a set A has one of any |A| - ceil(t |A|) + 1 elements of A. The filter takes
A's rarest, and looks up all elements of every other document among them. Containment bounds no size from above, unlike
Jaccard similarity, and a sketch of fixed length would miss a short document within a long one. Runs over files and
indexes join their own tables by `Owners`, too. Near-copies of one page meet in all pairs over every prefix shingle, so
time grows with the square of their number. Runs over files and indexes compare such documents with kept ones only
(`decide.containment`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Numbers, Rows
from gpulsh.backends.protocol import Backend, min_share, prefix_lengths
from gpulsh.decide.fingerprint_source import TEXT_OF_A_SHINGLE, FingerprintSource, read_in_runs
from gpulsh.lsh.pairs import pack_pairs, unpack_pairs
from gpulsh.ragged import (
    concat_rows,
    expand_ranges,
    find_equal_runs,
    find_sorted,
    first_of_runs,
    hash_order,
    mask_of,
    merged_distinct,
    offsets,
    row_ranges,
    select_rows,
    sorted_distinct,
    stable_order,
)

SAMPLED = 32  # the sample has at least one of so many documents
SAMPLE_BYTES = 2 << 20  # text of a sample, at least
SLOTS_OF_A_SHINGLE = 6  # per prefix shingle: shingles that share a slot look like matches
MIN_TABLE, MAX_TABLE = 16, 27  # bits: 128 MB of counts
LARGEST_OF_ALL = 26  # bits of a table that decides which pairs are compared
AT_ONCE = 16 << 20  # bytes of text
MET = 2  # first count of a sample, so that `Backend.prefixes` leaves nothing out
RARE = MET + 2  # lower counts: at most one in a sample
LARGEST_MERGE = 1 << 20  # entries merged at once, or more in a large index


@dataclass(frozen=True)
class Entries:
    """Prefix shingles, uint64 [e] or uint32 [e] (their upper halves), and their documents, uint32 [e]."""

    shingles: NDArray[np.unsignedinteger]
    documents: NDArray[np.uint32]

    def sorted(self) -> Entries:
        """By shingle: sorted queries walk an index in its order."""
        if self.shingles.dtype == np.uint32:  # both fit into a word, which a vector sort orders in a tenth of the time
            both = pack_pairs(self.shingles, self.documents)
            both.sort()
            return Entries((both >> np.uint64(32)).astype(np.uint32), both.astype(np.uint32))
        order = hash_order(self.shingles)
        return Entries(self.shingles[order], self.documents[order])

    @classmethod
    def concat(cls, parts: Iterable[Entries]) -> Entries:
        """The entries of all parts, end to end."""
        every = [cls(np.empty(0, np.uint32), np.empty(0, np.uint32)), *parts]
        return cls(
            np.concatenate([part.shingles for part in every]), np.concatenate([part.documents for part in every])
        )

    def select(self, documents: Numbers) -> Entries:
        """The entries of some documents, in the same order."""
        count = int(self.documents.max(initial=0)) + 1
        chosen = mask_of(documents[documents < count], count)[self.documents]
        return Entries(self.shingles[chosen], self.documents[chosen])

    def owners(self) -> Numbers:
        """int64, ascending: the documents, each once; their numbers are close, as they come from one block."""
        first = int(self.documents.min()) if len(self.documents) else 0
        return np.flatnonzero(np.bincount(self.documents - np.uint32(first))) + first


class PrefixIndex:
    """The documents that have a shingle in their prefix: sorted runs, merged when newer ones outgrow an older one.

    A merge takes four times the memory of its entries, so it takes at most an eighth of a large index.
    """

    def __init__(self, *entries: Entries) -> None:
        self.runs: list[Entries] = []  # sorted
        self._count = 0
        self._documents: list[Numbers] = []
        for some in entries:
            self.add(some)

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

    def matches(self, queries: Entries) -> Matches:
        """The places of the shingles of `queries`, which are sorted."""
        runs = [(run.documents, *find_equal_runs(run.shingles, queries.shingles)) for run in self.runs]
        return Matches(queries, runs, sum(int(count.sum()) for *_, count in runs))


@dataclass(frozen=True)
class Matches:
    """The matches of `queries` in the runs of an index: from `first` on, `count` documents have the shingle `asked`."""

    queries: Entries
    runs: list[tuple[NDArray[np.uint32], Numbers, Numbers, Numbers]]  # documents, asked, first, count
    count: int  # of all matches

    def pairs(self, most: int) -> Iterator[NDArray[np.uint64]]:
        """Pairs (known, asking), packed, of at most `most` matches at a time."""
        for documents, asked, first, count in self.runs:
            for begin, end in row_ranges(offsets(count), most):
                known = documents[expand_ranges(first[begin:end], count[begin:end])]
                asking = np.repeat(self.queries.documents[asked[begin:end]], count[begin:end])
                yield sorted_distinct(pack_pairs(known, asking))


class Prefixes:
    """Prefixes of the documents of large buckets, numbered by place."""

    def __init__(
        self, places: Numbers, texts: FingerprintSource, threshold: float, ops: Backend, *, exact: bool
    ) -> None:
        """Read the documents at the ascending `places` [p], which `entries` takes.

        `exact` says that an exact measure follows: then any counts serve, and shingles may be mistaken for others.
        """
        self._places, self._texts, self._text_sizes = places, texts, ops.asnumpy(texts.text_sizes())
        self._ops, self._exact = ops, exact
        self._share = min_share(threshold)
        whole, tile = ops.sizes().whole, ops.sizes().tile
        self._at_once, self._max_held, self._largest_table = min(AT_ONCE, tile), math.inf, MAX_TABLE
        if whole is not None:
            self._at_once, self._max_held = min(self._at_once, max(whole >> 2, 1)), whole >> 2
            self._largest_table = min(MAX_TABLE, max(whole.bit_length() - 1, MIN_TABLE))
        self.sizes = np.zeros(len(self._text_sizes), np.int64)  # fingerprints of the documents read
        self._counts = self._frequencies()
        self._several, held = self._read()
        self._held = None if held is None else self._prefixes(self._places, held)

    def entries(self, places: Numbers) -> Entries:
        """The sorted entries of documents [m], without shingles that no other document has."""
        if self._held is None:
            rows = self._prefixes(places, [self._held_rows(taken) for taken in self._rare_shingles(places)])
        else:
            rows = select_rows(self._held, np.searchsorted(self._places, places))
        return Entries(rows.values, np.repeat(places.astype(np.uint32), rows.lengths)).sorted()

    def _frequencies(self) -> Array:
        """The counts of each slot of shingles; any counts give an exact join, good counts a fast one.

        Without an exact measure they decide which pairs are compared, and depend on the texts alone.
        """
        everything, documents = int(self._text_sizes.sum()), len(self._text_sizes)
        if not self._exact:
            return self._count_slots(np.arange(documents), 0, _bits(everything / 3, LARGEST_OF_ALL))
        step = int(np.clip(everything // SAMPLE_BYTES, 1, SAMPLED))
        bits = _bits(everything / step / TEXT_OF_A_SHINGLE, self._largest_table)
        return self._count_slots(np.arange(0, documents, step), MET, bits)

    def _count_slots(self, places: Numbers, first: int, bits: int) -> Array:
        """A table of 2^bits counts of the shingles of documents, each starting at `first`."""
        counts = self._ops.asarray(np.full(1 << bits, first, np.uint8))
        for start, stop in row_ranges(offsets(self._text_sizes[places]), self._at_once):
            counts = self._texts.frequencies(places[start:stop], counts)
        return counts

    def _read(self) -> tuple[Array, list[Rows] | None]:
        """The number of documents with each slot taken, and the shingles taken, if they are not too many."""
        entries = (1 - self._share) * float(self._text_sizes.sum()) / TEXT_OF_A_SHINGLE + len(self._places)
        slots = 1 << _bits(SLOTS_OF_A_SHINGLE * entries, self._largest_table)
        several, held, size = self._ops.asarray(np.zeros(slots, np.uint8)), [], 0
        for taken in self._rare_shingles(self._places):
            several = self._ops.frequencies(taken, several)
            if size <= self._max_held:
                held.append(self._held_rows(taken))
                size += held[-1].values.nbytes
            else:
                held.clear()
        return several, held if size <= self._max_held else None

    def _rare_shingles(self, places: Numbers) -> Iterator[Fingerprints]:
        """The rare shingles of documents, or their prefixes, some at a time, in order."""
        rare = RARE if self._exact else 0
        read = partial(self._texts.prefixes, counts=self._counts, rare=rare, share=self._share)
        for some, (taken, sizes) in read_in_runs(places, self._text_sizes, self._at_once, read):
            self.sizes[some] = self._ops.asnumpy(sizes)
            yield taken

    def _held_rows(self, taken: Fingerprints) -> Rows:
        """The rows as they are held, like the shingles of `Entries`: 32 bits of each where that is enough."""
        values, offset = self._ops.asnumpy(taken.values), self._ops.asnumpy(taken.offset)
        return Rows((values >> np.uint64(32)).astype(np.uint32) if self._exact else values, offset)

    def _prefixes(self, places: Numbers, taken: list[Rows]) -> Rows:
        """Cut taken shingles down to prefixes, without shingles that only one document took."""
        lengths = prefix_lengths(self.sizes[places], self._share)
        found, done = [], 0
        for rows in taken:
            end = done + len(rows)
            values = rows.values.astype(np.uint64) << np.uint64(32) if self._exact else rows.values
            fingerprints = Fingerprints(values, rows.offset).moved(self._ops.asarray)
            chosen = self._ops.prefixes(fingerprints, self._several, self._ops.asarray(lengths[done:end]))
            found.append(self._held_rows(chosen))
            done = end
        return concat_rows(found)


def _bits(slots: float, most: int) -> int:
    """The number of bits for at least so many slots, at most `most`."""
    return int(np.clip(np.ceil(np.log2(max(slots, 1))), MIN_TABLE, most))


SHINGLE_BYTES = 8  # of text, or fewer, for a slot of the table of frequencies
MIN_BITS, MAX_BITS = 10, 28
SLOTS_OF_KNOWN = 4  # for each known fingerprint, or up to twice as many
LARGEST_JOIN = 1 << 20  # (fingerprint, pair) rows in memory together


def containing_pairs(
    texts: FingerprintSource, threshold: float, ops: Backend, *, either: bool = False, max_owners: float = math.inf
) -> tuple[Numbers, Numbers]:
    """int64 [m, 2], lexicographic and unique: places (i, j), i < j, where text i may contain `threshold` of text j.

    With `either` also those where text j may contain `threshold` of text i. Places are in decision order; no text is
    empty. A fingerprint in more than `max_owners` prefixes makes no pairs. The texts that have one come second,
    ascending.
    """
    text_sizes, at_once = ops.asnumpy(texts.text_sizes()), ops.sizes().tile
    every = np.arange(len(text_sizes))
    # Counts of each slot of shingles: any counts give an exact join, good ones a fast one.
    bits = int(np.clip(int(text_sizes.sum() // SHINGLE_BYTES).bit_length(), MIN_BITS, MAX_BITS))
    counts = ops.asarray(np.zeros(1 << bits, np.uint8))
    for start, stop in row_ranges(offsets(text_sizes), at_once):
        counts = texts.frequencies(every[start:stop], counts)
    share = min_share(threshold)
    owners, owned, sizes = [np.empty(0, np.int64)], [np.empty(0, np.uint64)], np.zeros(len(every), np.int64)
    for places, (prefixes, numbers) in read_in_runs(
        every, text_sizes, at_once, lambda some: texts.prefixes(some, counts, rare=0, share=share)
    ):
        sizes[places] = ops.asnumpy(numbers)
        owners.append(np.repeat(places, ops.asnumpy(prefixes.lengths)))
        owned.append(ops.asnumpy(prefixes.values))
    owned_by = Owners(np.concatenate(owned), np.concatenate(owners))
    found, large = [np.empty(0, np.uint64)], [every[:0]]
    for places, rows in read_in_runs(every, text_sizes, at_once, texts.fingerprints):
        met = owned_by.find(ops.asnumpy(rows.values), np.repeat(places, ops.asnumpy(rows.lengths)))
        met, (holders, _) = owned_by.split(*met, max_owners)
        large.append(sorted_distinct(holders))
        for holder, owner in owned_by.pairs_at(*met):
            may = (holder != owner if either else holder < owner) & (sizes[holder] >= share * sizes[owner])
            holder, owner = holder[may], owner[may]
            found.append(sorted_distinct(pack_pairs(np.minimum(holder, owner), np.maximum(holder, owner))))
    return unpack_pairs(sorted_distinct(np.concatenate(found))), merged_distinct(large)


class Owners:
    """The owners of each prefix fingerprint; `known` are the distinct fingerprints, ascending."""

    def __init__(self, fingerprints: NDArray[np.uint64], owners: Numbers) -> None:
        order = hash_order(fingerprints)
        ordered = fingerprints[order]
        begins = np.flatnonzero(first_of_runs(ordered))
        self.known, self._offset, self._owners = ordered[begins], np.append(begins, len(ordered)), owners[order]
        # By the lower bits of a fingerprint, whether it may be known: most are not, and a search takes longer.
        slots = SLOTS_OF_KNOWN << len(self.known).bit_length()
        self._lower_bits = np.uint64(slots - 1)
        self._may_be_known = mask_of(self.known & self._lower_bits, slots)
        self._most = int(np.diff(self._offset).max(initial=0))  # owners of a fingerprint

    def find(self, fingerprints: NDArray[np.uint64], holders: Numbers) -> tuple[Numbers, Numbers]:
        """The holders of those `fingerprints` [h] that have owners, ascending, and the place of each in `known`."""
        may = np.flatnonzero(self._may_be_known[fingerprints & self._lower_bits])
        met, slots = find_sorted(self.known, fingerprints[may])
        met = may[met]
        order = stable_order(holders[met])
        return holders[met][order], slots[order]

    def first(self, slots: Numbers) -> Numbers:
        """An owner of each place in `known`."""
        owners: Numbers = self._owners[self._offset[slots]]
        return owners

    def counts(self, slots: Numbers) -> Numbers:
        """How many owners each place in `known` has."""
        counts: Numbers = self._offset[slots + 1] - self._offset[slots]
        return counts

    def split(self, holders: Numbers, slots: Numbers, max_owners: float) -> tuple[tuple[Numbers, Numbers], ...]:
        """The holders and places that `find` returned: of at most `max_owners` owners each, then of more."""
        if self._most <= max_owners:
            return (holders, slots), (holders[:0], slots[:0])
        is_large = self.counts(slots) > max_owners
        return (holders[~is_large], slots[~is_large]), (holders[is_large], slots[is_large])

    def pairs_at(self, holders: Numbers, slots: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
        """Pairs (holder, owner), some at a time, of each of `holders` [h] with every owner of its place in `known`.

        If holders ascend, the rows of a pair come together, one for each place, and a caller can make them one.
        """
        begin, counts = self._offset[slots], self.counts(slots)
        for start, stop in row_ranges(offsets(counts), LARGEST_JOIN):
            some = counts[start:stop]
            yield np.repeat(holders[start:stop], some), self._owners[expand_ranges(begin[start:stop], some)]
