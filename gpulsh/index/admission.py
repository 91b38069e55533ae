"""Decide about a batch of new documents: hold all, admit those that duplicate none, or find similar held ones.

The index *holds* its kept documents. `admit` decides as `deduplicate` does, with the held documents first. A document
is dropped exactly when it is an exact copy of an earlier one, or when a held one from a shared bucket is at least
`threshold` similar. Its witness is the most similar one, ties to the earlier. By containment, the witness contains that
much of it. So the result does not depend on how a sequence of documents is cut into batches.

By Jaccard, candidates share a bucket. By containment, a document that contains a share t of a set A has one of any
|A| - ceil(t |A|) + 1 fingerprints of A (`decide.prefixes`). Here these are the fingerprints that the fewest held
documents have, looked up in the one band of all fingerprints. Where too many fingerprints of A are new for any held
document to contain enough of it, nothing is looked up. Documents that share such a fingerprint with many others are
compared with kept ones only (`decide.containment`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Buckets, Fingerprints, Numbers, TextBatch
from gpulsh.backends.parts import rows_in_part
from gpulsh.backends.protocol import Backend, min_share, prefix_lengths
from gpulsh.decide.compare import compare, measure_of
from gpulsh.decide.copies import first_copies
from gpulsh.decide.edges import DropRules, Edges
from gpulsh.decide.fingerprint_source import FingerprintSource
from gpulsh.decide.meeting import Meeting, witnesses
from gpulsh.decide.prefixes import Owners, containing_pairs
from gpulsh.index.evidence.blocks import NO_SETS, rows_by_place
from gpulsh.index.evidence.texts import TEXT_BYTES, fingerprint_sets
from gpulsh.index.segment import Documents, Segment, make_segment
from gpulsh.index.snapshot import ABSENT, Snapshot
from gpulsh.lsh.collisions import Collisions, Memberships, SmallBuckets
from gpulsh.lsh.pairs import pack_pairs, unpack_pairs
from gpulsh.method import Method
from gpulsh.ragged import (
    expand_ranges,
    hash_order,
    merged_distinct,
    offsets,
    own_values,
    run_places,
    select_rows,
    sorted_distinct,
)
from gpulsh.secret import EvidenceKeys
from gpulsh.stats.stages import Funnel

# A bucket of more documents is joined by prefixes instead of compared in all pairs, and so is a fingerprint in more
# prefixes. A run's `SMALL_BUCKET` is larger, as it hands out all pairs of small buckets as evidence. An index hands out
# none, and no decision depends on this.
LARGE_BUCKET = 64
DIGESTS_AT_ONCE = 1 << 18  # digests of new documents, in as many bands as fit
PAIRS_AT_ONCE = 1 << 22  # of held documents compared together; more in memory if one document has more


@dataclass(frozen=True)
class SignedDocuments:
    """Documents of a batch with their hashes in host memory."""

    batch: TextBatch
    exact: NDArray[np.uint64]  # [n, 2]
    digests: NDArray[np.uint64]  # [n, bands]
    with_token: Numbers  # ascending rows of documents with a token
    shingles: int  # of all of them
    method: Method
    keys: EvidenceKeys
    ops: Backend

    def __len__(self) -> int:
        return len(self.exact)

    def sets(self, rows: Numbers) -> Fingerprints:
        """The unique fingerprints, as evidence, of the documents `rows` [m], in host memory."""
        return fingerprint_sets(self.batch, rows, self.method.backend_shingling, self.keys, self.ops)

    def meeting(
        self, rows: Numbers, sets: Fingerprints, snapshot: Snapshot, *, querying: bool = False
    ) -> tuple[Numbers, Meeting]:
        """The numbers of held documents that may be similar to new ones, and the comparison, where they come first.

        The new ones are `rows` [m], with fingerprints `sets` [m]; `querying` compares none with another.
        """
        method, ops = self.method, self.ops
        if method.measure == "containment":
            held, met = containment_candidates(sets, snapshot, method.threshold, ops, one_another=not querying)
        else:
            held, met = bucket_candidates(self.digests[rows], snapshot, ops, one_another=not querying)
        base = len(held)
        rules = DropRules(protected=base, first_query=base if querying else None)
        source = HeldSets.of(snapshot, held, sets, ops)
        met = replace(met, pairs=ops.asarray(met.pairs))
        return held, Meeting(met, ops.asarray(source.chosen), rules, source, method, ops)

    def segment(
        self, numbers: Numbers, witness: Numbers, similarity: NDArray[np.float64], rows: Numbers, sets: Fingerprints
    ) -> Segment:
        """A segment that holds the documents of the ascending `rows` [m], with the fingerprints `sets` [m]."""
        size = np.zeros(len(numbers), np.int64)
        size[rows] = sets.lengths
        fingerprints = Fingerprints(own_values(sets), offsets(size))
        digests = None if self.method.measure == "containment" else self.digests
        return make_segment(Documents(numbers, witness, similarity, size), self.exact, digests, fingerprints)


def hold_all(signed: SignedDocuments, start: int) -> Segment:
    """A segment of all documents, numbered from `start`, each held."""
    numbers = np.arange(start, start + len(signed))
    return signed.segment(numbers, numbers, np.ones(len(numbers)), signed.with_token, signed.sets(signed.with_token))


def admit(signed: SignedDocuments, start: int, snapshot: Snapshot, tally: Funnel) -> Segment:
    """A segment of all documents, numbered from `start`. It holds those without an earlier witness; `tally` counts."""
    count, ops, with_token = len(signed), signed.ops, signed.with_token
    numbers = np.arange(start, start + count)
    witness, similarity = numbers.copy(), np.ones(count)
    known, how_similar, is_own = snapshot.first_copies(signed.exact[with_token])
    is_known = known != ABSENT
    copies_of_held = with_token[is_known]
    witness[copies_of_held], similarity[copies_of_held] = known[is_known], how_similar[is_known]

    rest = with_token[~is_known]
    with ops.use_device():
        copies, first = map(ops.asnumpy, first_copies(ops.asarray(signed.exact), ops.asarray(rest), None, ops))
    taking_part = np.setdiff1d(rest, copies, assume_unique=True) if len(copies) else rest
    sets = signed.sets(taking_part)
    with ops.use_device():
        earlier, meeting = signed.meeting(taking_part, sets, snapshot)
        base = len(earlier)  # held documents, which are never dropped
        small = meeting.similar_pairs()
        parts, verified = list[Edges](), 0
        for kept, edges in meeting.resolve_by_block(small):
            parts.append(witnesses(kept, edges))
            verified += len(edges.later)
        dropped = Edges.concat(parts).moved(ops.asnumpy)
    later = taking_part[dropped.later - base]
    witness[later] = np.concatenate([earlier, numbers[taking_part]])[dropped.earlier]
    similarity[later] = dropped.similarity
    witness[copies], similarity[copies] = witness[first], similarity[first]

    tally.documents += count
    tally.empty += count - len(with_token)
    tally.shingles += signed.shingles
    of_kept = int(is_own[is_known].sum()) + int((witness[first] == numbers[first]).sum())
    all_copies = len(copies) + len(copies_of_held)
    tally.exact_copies += all_copies
    tally.copies_of_kept += of_kept
    tally.copies_of_dropped += all_copies - of_kept
    tally.near_duplicates += int(np.count_nonzero(witness[taking_part] != numbers[taking_part]))
    tally.similar += verified
    tally.dissimilar += len(meeting.collisions.pairs) - len(small.later)
    tally.candidates += len(meeting.collisions.pairs) + verified - len(small.later)
    tally.verified += verified + all_copies

    stays = witness[taking_part] == numbers[taking_part]
    held = select_rows(sets, np.flatnonzero(stays))
    return signed.segment(numbers, witness, similarity, taking_part[stays], held)


def find_similar(
    signed: SignedDocuments, snapshot: Snapshot, top: int | None = None
) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    """Ascending rows [m] of the batch, numbers [m] of held documents and similarities, highest first for each row.

    There are at most `top` of a row, ties to the earlier.
    """
    rows, ops = signed.with_token, signed.ops
    sets = signed.sets(rows)
    with ops.use_device():
        held, meeting = signed.meeting(rows, sets, snapshot, querying=True)
        parts = [Edges(rows[:0], rows[:0], np.empty(0))]
        for _, block in meeting.resolve_by_block(meeting.similar_pairs()):
            edges = block.moved(ops.asnumpy)
            edges = edges.select(np.lexsort((edges.earlier, -edges.similarity, edges.later)))
            if top is not None:
                edges = edges.select(run_places(np.bincount(edges.later)) < top)
            parts.append(edges)
    edges = Edges.concat(parts)
    return rows[edges.later - len(held)], held[edges.earlier], edges.similarity


def held_candidates(signed: SignedDocuments, snapshot: Snapshot, *, querying: bool = False) -> Numbers:
    """The numbers of held documents that share a bucket with one of the batch: those that `admit` or a query reads."""
    rows = signed.with_token
    if not querying:  # copies are admitted by their exact hashes
        rows = rows[snapshot.first_copies(signed.exact[rows])[0] == ABSENT]
    return bucket_candidates(signed.digests[rows], snapshot, signed.ops, one_another=False)[0]


@dataclass(frozen=True)
class HeldSets(FingerprintSource):
    """First the documents `held` [h] of a snapshot, by number, then the documents of `sets`; all in host memory."""

    snapshot: Snapshot
    held: Numbers
    sets: Fingerprints
    sizes: Numbers  # how many fingerprints each has
    cached: Fingerprints | None  # of `held`; None: read as often as needed

    @classmethod
    def of(cls, snapshot: Snapshot, held: Numbers, sets: Fingerprints, ops: Backend) -> HeldSets:
        """All of them."""
        sizes = np.concatenate([snapshot.sizes(held), sets.lengths])
        once, met = None, snapshot.met if snapshot.reads_files else None
        if len(held) and met is not None and 8 * int(sizes[: len(held)].sum()) <= met.max_bytes:
            once = met.take(snapshot, held, ops)
        return cls(np.arange(len(sizes)), ops, snapshot, held, sets, sizes, once)

    def text_sizes(self) -> Array:
        """int64 [places]: about the bytes of text of each."""
        return self.ops.asarray(self.sizes * TEXT_BYTES)[self.ops.asarray(self.chosen)]

    def fingerprints(self, places: Array) -> Fingerprints:
        """The unique fingerprints of the documents at `places` [m], in that order."""
        return self._sets(places).moved(self.ops.asarray)

    def fingerprints_by_range(self, places: Array, parts: int) -> Iterator[Fingerprints]:
        """The fingerprints in `parts` equal ranges of values, one after another."""
        whole = self._sets(places)
        for part in range(parts):
            yield rows_in_part(whole, part, parts).moved(self.ops.asarray)

    def _sets(self, places: Array) -> Fingerprints:
        chosen = self.ops.asnumpy(self.documents(places))
        old, new = np.flatnonzero(chosen < len(self.held)), np.flatnonzero(chosen >= len(self.held))
        parts = []
        if len(old) and self.cached is not None:
            parts.append(select_rows(self.cached, chosen[old]))
        elif len(old):
            parts.append(self.snapshot.fingerprints(self.held[chosen[old]], self.ops))
        if len(new):
            parts.append(select_rows(self.sets, chosen[new] - len(self.held)))
        return rows_by_place(parts, [old, new])


def bucket_candidates(
    digests: NDArray[np.uint64], snapshot: Snapshot, ops: Backend, *, one_another: bool
) -> tuple[Numbers, Collisions]:
    """Candidates by Jaccard: the numbers of held documents [h], and the collisions, in whose places they come first.

    New documents, each with a token, have the places h, h + 1, ... by row of `digests` [m, bands]. Pairs of held
    documents are left out and, without `one_another`, pairs of new ones in small buckets.
    """
    step = max(1, DIGESTS_AT_ONCE // max(len(digests), 1))
    parts = [_Buckets.of(snapshot, digests, band, band + step) for band in range(0, digests.shape[1], step)]
    numbers = sorted_distinct(np.concatenate([part.held for part in parts]))
    base = len(numbers)
    pairs, large = [], []
    for part in parts:
        rows, held = part.rows + base, np.searchsorted(numbers, part.held)
        is_large = part.is_large[part.held_bucket]
        bucket = part.held_bucket[~is_large]
        count = part.new[bucket]
        partner = rows[expand_ranges((np.cumsum(part.new) - part.new)[bucket], count)]
        found = [pack_pairs(np.repeat(held[~is_large], count), partner)]
        several = ~part.is_large & (part.new > 1)
        if one_another and several.any():
            members = rows[np.repeat(several, part.new)]
            buckets = Buckets(ops.asarray(members), ops.asarray(offsets(part.new[several])))
            found.append(pack_pairs(*ops.asnumpy(ops.candidates(buckets)).T))
        pairs.append(sorted_distinct(np.concatenate(found)))
        if part.is_large.any():
            bucket = np.repeat(np.arange(len(part.new)), part.new)
            fresh = part.is_large[bucket]
            bucket = np.concatenate([part.held_bucket[is_large], bucket[fresh]])
            large.append(Memberships(np.concatenate([held[is_large], rows[fresh]]), part.band[bucket], bucket))
    found = unpack_pairs(sorted_distinct(np.concatenate(pairs)))
    return numbers, Collisions.from_buckets(found, large, digests.shape[1])


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
        held_bucket, held = snapshot.documents_with(band, ranked.ravel()[starts])
        new = np.diff(starts, append=order.size)
        is_large = np.bincount(held_bucket, minlength=len(starts)) + new > LARGE_BUCKET
        return cls(band, order.ravel(), new, held, held_bucket, is_large)


def containment_candidates(
    sets: Fingerprints, snapshot: Snapshot, threshold: float, ops: Backend, *, one_another: bool
) -> tuple[Numbers, Collisions]:
    """Candidates by containment, as `bucket_candidates`, of the unique fingerprints `sets` [m], none of them empty."""
    sizes, share = sets.lengths, min_share(threshold)
    prefixes = _rarest_fingerprints(sets, snapshot, prefix_lengths(sizes, share))
    places, numbers = snapshot.documents_with(np.zeros(len(prefixes.known), np.int64), prefixes.known)
    held, holders = np.unique(numbers, return_inverse=True)
    held_sizes, base, found = snapshot.sizes(held), len(held), [np.empty(0, np.uint64)]
    holders, slots = prefixes.find(prefixes.known[places], holders)
    is_large = np.minimum(np.bincount(slots)[slots], prefixes.counts(slots)) > LARGE_BUCKET  # on both sides
    shared = sorted_distinct(slots[is_large])
    large = [holders[is_large], *(row + base for _, row in prefixes.pairs_at(shared, shared))]
    for holder, row in prefixes.pairs_at(holders[~is_large], slots[~is_large]):
        may = held_sizes[holder] >= share * sizes[row]
        found.append(sorted_distinct(pack_pairs(holder[may], row[may] + base)))
    if one_another and len(sets) > 1:
        new = HeldSets.of(snapshot, held[:0], sets, ops)
        pairs, rows = containing_pairs(new, threshold, ops, max_owners=LARGE_BUCKET)
        found.append(pack_pairs(*(pairs + base).T))
        large.append(rows + base)
    members = merged_distinct(large)
    joined = Memberships(members, np.zeros_like(members), np.zeros_like(members))
    return held, Collisions.from_buckets(unpack_pairs(sorted_distinct(np.concatenate(found))), [joined], 1)


def _rarest_fingerprints(sets: Fingerprints, snapshot: Snapshot, lengths: Numbers) -> Owners:
    """The first `lengths` [m] fingerprints of each set by the number of held documents, without those that none has."""
    sizes = sets.lengths
    values, row = own_values(sets), np.repeat(np.arange(len(sizes)), sizes)
    order, count = hash_order(values), np.empty(len(values), np.int64)
    count[order] = snapshot.frequencies(values[order])
    known = np.flatnonzero(count)
    have = np.bincount(row[known], minlength=len(sizes))
    left = lengths - (sizes - have)
    known = known[(left > 0)[row[known]]]
    have = np.where(left > 0, have, 0)
    known = known[np.lexsort((count[known], row[known]))]
    chosen = known[run_places(have) < np.repeat(left, have)]
    return Owners(values[chosen], row[chosen])


def held_buckets(snapshot: Snapshot, bands: int, ops: Backend) -> Iterator[Buckets]:
    """The buckets of two or more held documents, by number; in host memory, one band at a time."""
    for band in range(bands):
        digests, numbers = snapshot.band(band)
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
        with ops.use_device():
            pairs, _ = containing_pairs(sets, threshold, ops)
            found = ops.asnumpy(compare(ops.asarray(pairs), sets, measure, 0.0, ops))  # sizes bound no containment
        enough = found >= threshold
        return held[pairs[enough]], found[enough]
    buckets = list(held_buckets(snapshot, method.banding.bands, ops))
    held = sorted_distinct(np.concatenate([np.empty(0, np.int64), *(band.ids for band in buckets)]))
    sets = HeldSets.of(snapshot, held, NO_SETS, ops)
    similar, similarity = [np.empty((0, 2), np.int64)], [np.empty(0)]
    with ops.use_device():
        members = [ops.asarray(np.searchsorted(held, band.ids)) for band in buckets]
        sizes = [ops.asarray(band.lengths) for band in buckets]
        for piece in SmallBuckets.concat(members, sizes, len(held), ops).pieces(PAIRS_AT_ONCE):
            found = ops.asnumpy(compare(ops.asarray(piece), sets, measure, threshold, ops))
            similar.append(piece[found >= threshold])
            similarity.append(found[found >= threshold])
    return held[np.concatenate(similar)], np.concatenate(similarity)
