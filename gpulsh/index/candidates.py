"""Candidate pairs: of new documents with held ones and with each other, and of all held documents.

By Jaccard, candidates share a bucket. By containment, a document that contains a share t of a set A has one of any
|A| - ceil(t |A|) + 1 fingerprints of A (`decide.prefixes`). Here these are the fingerprints that the fewest held
documents have, looked up in the one band of all fingerprints. Where too many fingerprints of A are new for any held
document to contain enough of it, nothing is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Buckets, Fingerprints, Numbers
from gpulsh.backends.parts import in_part
from gpulsh.backends.protocol import Backend, least_share, prefix_lengths
from gpulsh.decide.compare import compare, measure_of
from gpulsh.decide.meeting import Meeting
from gpulsh.decide.prefixes import Owners, containing_pairs
from gpulsh.decide.readable import Readable
from gpulsh.decide.relation import Relation
from gpulsh.index.evidence.blocks import in_places
from gpulsh.index.evidence.texts import TEXT_BYTES
from gpulsh.index.snapshot import Snapshot
from gpulsh.lsh.collisions import Collisions, Memberships, SmallBuckets
from gpulsh.lsh.pairs import packed, unpacked
from gpulsh.method import Method
from gpulsh.ragged import chosen_rows, offsets, ranges, sorted_distinct, within_runs

# A bucket of more documents is joined by prefixes instead of compared in all pairs. A run's `SMALL_BUCKET` is larger,
# as it hands out all pairs of small buckets as evidence. An index hands out none, and no decision depends on this.
LARGE_BUCKET = 64
AT_ONCE = 1 << 18  # digests of new documents, in as many bands as have no more together
PAIRS_AT_ONCE = 1 << 22  # of held documents compared together; more in memory if one document has more
Read = Callable[[Numbers, Backend], Fingerprints]
HELD_BYTES = 256 << 20  # of fingerprints whose texts are read again once; more are read again as often as needed
NO_SETS = Fingerprints(np.empty(0, np.uint64), np.zeros(1, np.int64))
NO_LARGE_BUCKETS = np.empty(0, np.int64), np.empty((0, 1), np.int32)


@dataclass(frozen=True)
class HeldSets(Readable):
    """Documents for which `read` gives the unique fingerprints, in host memory."""

    read: Read
    text_bytes: Numbers  # about, of all documents, chosen or not

    @classmethod
    def of(cls, snapshot: Snapshot, held: Numbers, sets: Fingerprints, ops: Backend) -> HeldSets:
        """First the documents `held` [h], by number, then the documents of `sets`."""
        sizes = np.concatenate([snapshot.sizes(held), sets.lengths])
        again = None
        if snapshot.again is not None and 8 * int(sizes[: len(held)].sum()) <= HELD_BYTES:
            again = snapshot.fingerprints(held, ops)

        def read_held(places: Numbers, ops: Backend) -> Fingerprints:
            return snapshot.fingerprints(held[places], ops) if again is None else chosen_rows(again, places)

        def read(places: Numbers, ops: Backend) -> Fingerprints:
            old, new = np.flatnonzero(places < len(held)), np.flatnonzero(places >= len(held))
            if len(new) == 0:
                return read_held(places, ops)
            fresh = chosen_rows(sets, places[new] - len(held))
            return in_places([read_held(places[old], ops), fresh], [old, new]) if len(old) else fresh

        return cls(np.arange(len(sizes)), ops, read, sizes * TEXT_BYTES)

    def text_sizes(self) -> Array:
        """int64 [places]: about the bytes of text of each."""
        return self.ops.asarray(self.text_bytes)[self.ops.asarray(self.chosen)]

    def fingerprints(self, places: Array) -> Fingerprints:
        """The unique fingerprints of the documents at `places` [m], in that order."""
        return self._sets(places).moved(self.ops.asarray)

    def fingerprints_by_range(self, places: Array, parts: int) -> Iterator[Fingerprints]:
        """The fingerprints in `parts` equal ranges of values, one after another."""
        whole = self._sets(places)
        for part in range(parts):
            inside = in_part(whole.values, part, parts)
            yield Fingerprints(whole.values[inside], offsets(inside)[whole.offset]).moved(self.ops.asarray)

    def _sets(self, places: Array) -> Fingerprints:
        return self.read(self.ops.asnumpy(self.documents(places)), self.ops)


@dataclass(frozen=True)
class Candidates:
    """Candidate pairs of new documents. In the places of `collisions`, the held documents of the pairs come first."""

    held: Numbers  # [h] ascending: their numbers
    collisions: Collisions

    def compared_by(
        self, sets: Fingerprints, snapshot: Snapshot, relation: Relation, method: Method, ops: Backend
    ) -> Meeting:
        """The comparison that decides; `sets` are the unique fingerprints of the new documents, row after row."""
        readable = HeldSets.of(snapshot, self.held, sets, ops)
        met = replace(self.collisions, pairs=ops.asarray(self.collisions.pairs))
        return Meeting(met, ops.asarray(np.arange(len(readable.text_bytes))), relation, readable, method, ops)


def sharing_buckets(
    digests: NDArray[np.uint64], snapshot: Snapshot, ops: Backend, *, one_another: bool = True
) -> Candidates:
    """Candidates by Jaccard. New documents, each with a token, have the places h, h + 1, ... by row of `digests`.

    `digests` are [m, bands]. Pairs of held documents are left out and, without `one_another`, pairs of new ones in
    small buckets.
    """
    step = max(1, AT_ONCE // max(len(digests), 1))
    parts = [_Buckets.of(snapshot, digests, band, band + step) for band in range(0, digests.shape[1], step)]
    held = sorted_distinct(np.concatenate([part.held for part in parts]))
    pairs, large = [], []
    for part in parts:
        places = np.searchsorted(held, part.held)
        pairs.append(sorted_distinct(part.small_pairs(places, len(held), ops if one_another else None)))
        if part.is_large.any():
            large.append(part.large_buckets(places, len(held)))
    found = unpacked(sorted_distinct(np.concatenate(pairs)))
    return Candidates(held, Collisions.of(found, Memberships.joined(large), digests.shape[1]))


@dataclass(frozen=True)
class _Buckets:
    """Buckets of some bands that have new documents, [b] in all."""

    band: Numbers  # [b]
    rows: Numbers  # [m] of new documents, bucket after bucket, ascending in each
    new: Numbers  # [b] how many new documents each bucket has
    held: Numbers  # [k] numbers of held documents
    held_bucket: Numbers  # [k] the bucket of each
    is_large: NDArray[np.bool_]  # [b]

    @classmethod
    def of(cls, snapshot: Snapshot, digests: NDArray[np.uint64], first: int, stop: int) -> _Buckets:
        """The buckets of the bands from `first` to `stop`."""
        columns = digests[:, first:stop].T
        order = np.argsort(columns, axis=1, kind="stable")
        ranked = np.take_along_axis(columns, order, axis=1)
        begins = np.ones(ranked.shape, bool)
        begins[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
        starts = np.flatnonzero(begins)
        band = starts // max(len(digests), 1) + first
        held_bucket, held = snapshot.holders(band, ranked.ravel()[starts])
        new = np.diff(starts, append=order.size)
        is_large = np.bincount(held_bucket, minlength=len(starts)) + new > LARGE_BUCKET
        return cls(band, order.ravel(), new, held, held_bucket, is_large)

    def small_pairs(self, held: Numbers, base: int, ops: Backend | None) -> NDArray[np.uint64]:
        """Packed pairs of small buckets. `held` [k] are the places of held documents; `ops` adds pairs of new ones."""
        small = np.flatnonzero(~self.is_large[self.held_bucket])
        bucket = self.held_bucket[small]
        count = self.new[bucket]
        starts = np.cumsum(self.new) - self.new
        partner = self.rows[ranges(starts[bucket], count)]
        found: NDArray[np.uint64] = packed(np.repeat(held[small], count), partner + base)
        several = ~self.is_large & (self.new > 1)
        if ops is None or not several.any():
            return found
        rows = self.rows[np.repeat(several, self.new)] + base
        buckets = Buckets(ops.asarray(rows), ops.asarray(offsets(self.new[several])))
        among = ops.asnumpy(ops.candidates(buckets))
        return np.concatenate([found, packed(*among.T)])

    def large_buckets(self, held: Numbers, base: int) -> Memberships:
        """The members of large buckets, by place."""
        known = np.flatnonzero(self.is_large[self.held_bucket])
        bucket = np.repeat(np.arange(len(self.new)), self.new)
        fresh = self.is_large[bucket]
        members = np.concatenate([held[known], self.rows[fresh] + base])
        bucket = np.concatenate([self.held_bucket[known], bucket[fresh]])
        return Memberships(members, self.band[bucket], bucket)


def possible_containers(
    sets: Fingerprints, snapshot: Snapshot, threshold: float, ops: Backend, *, one_another: bool = True
) -> Candidates:
    """Candidates by containment, as `sharing_buckets`, of the unique fingerprints `sets` [m], none of them empty."""
    sizes, share = sets.lengths, least_share(threshold)
    prefixes = _rarest(sets, snapshot, prefix_lengths(sizes, share))
    places, numbers = snapshot.holders(np.zeros(len(prefixes.known), np.int64), prefixes.known)
    held, holders = np.unique(numbers, return_inverse=True)
    held_sizes = snapshot.sizes(held)
    found = [np.empty(0, np.uint64)]
    for holder, row in prefixes.met_by(prefixes.known[places], holders):
        may = held_sizes[holder] >= share * sizes[row]
        found.append(sorted_distinct(packed(holder[may], row[may] + len(held))))
    if one_another and len(sets) > 1:
        new = HeldSets.of(snapshot, held[:0], sets, ops)
        found.append(packed(*(containing_pairs(new, threshold, ops) + len(held)).T))
    return Candidates(held, Collisions(unpacked(sorted_distinct(np.concatenate(found))), *NO_LARGE_BUCKETS))


def _rarest(sets: Fingerprints, snapshot: Snapshot, lengths: Numbers) -> Owners:
    """The first `lengths` [m] fingerprints of each set by the number of held documents, without those that none has."""
    sizes = sets.lengths
    values, row = sets.values[sets.offset[0] : sets.offset[-1]], np.repeat(np.arange(len(sizes)), sizes)
    order, count = np.argsort(values, kind="stable"), np.empty(len(values), np.int64)
    count[order] = snapshot.frequencies(values[order])
    known = np.flatnonzero(count)
    have = np.bincount(row[known], minlength=len(sizes))
    left = lengths - (sizes - have)
    known = known[(left > 0)[row[known]]]
    have = np.where(left > 0, have, 0)
    known = known[np.lexsort((count[known], row[known]))]
    chosen = known[within_runs(have) < np.repeat(left, have)]
    return Owners(values[chosen], row[chosen])


def held_buckets(snapshot: Snapshot, bands: int, ops: Backend) -> Iterator[Buckets]:
    """The buckets of two or more held documents, by number; in host memory, one band at a time."""
    for band in range(bands):
        digests, numbers = snapshot.band(band)
        with ops.here():
            found = ops.collisions(ops.asarray(digests), ops.asarray(numbers))
            yield Buckets(ops.asnumpy(found.ids), ops.asnumpy(found.offset))


def similar_pairs(snapshot: Snapshot, method: Method, ops: Backend) -> tuple[Numbers, NDArray[np.float64]]:
    """Pairs of held documents that share a bucket and are similar: int64 [m, 2] numbers, i < j, each pair once.

    By containment, the earlier document contains enough of the later.
    """
    measure, threshold = measure_of(method), method.threshold
    if method.measure == "containment":
        held = sorted_distinct(snapshot.band(0)[1])
        sets = HeldSets.of(snapshot, held, NO_SETS, ops)
        with ops.here():
            pairs = containing_pairs(sets, threshold, ops)
            found = ops.asnumpy(compare(ops.asarray(pairs), sets, measure, 0.0, ops))  # sizes bound no containment
        enough = found >= threshold
        return held[pairs[enough]], found[enough]
    buckets = list(held_buckets(snapshot, method.banding.bands, ops))
    held = sorted_distinct(np.concatenate([np.empty(0, np.int64), *(band.ids for band in buckets)]))
    sets = HeldSets.of(snapshot, held, NO_SETS, ops)
    similar, similarity = [np.empty((0, 2), np.int64)], [np.empty(0)]
    with ops.here():
        members = [ops.asarray(np.searchsorted(held, band.ids)) for band in buckets]
        sizes = [ops.asarray(band.lengths) for band in buckets]
        for piece in SmallBuckets.joined(members, sizes, len(held), ops).pieces(PAIRS_AT_ONCE):
            found = ops.asnumpy(compare(ops.asarray(piece), sets, measure, threshold, ops))
            similar.append(piece[found >= threshold])
            similarity.append(found[found >= threshold])
    return held[np.concatenate(similar)], np.concatenate(similarity)
