"""Who meets whom: arriving documents with held ones, and with one another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Buckets, Fingerprints, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.meeting import Meeting
from gpulsh.decide.relation import Relation
from gpulsh.index.holdings import Holdings
from gpulsh.index.readable import HeldSets
from gpulsh.lsh.collisions import Collisions
from gpulsh.lsh.pairs import distinct, packed, unpacked
from gpulsh.method import Method
from gpulsh.ragged import offsets, within_runs

# Documents of a bucket from which on it is joined, not compared in all pairs. `SMALL_BUCKET` is larger, as a run hands
# out all pairs below it as evidence; an index hands out none, no decision depends on this, and a join costs less.
CROWDED = 64


@dataclass(frozen=True)
class Meetings:
    """Held documents that share a bucket with arriving ones come first in the places of `collisions`."""

    held: Numbers  # [h] ascending: their numbers
    collisions: Collisions

    def compared_by(
        self, sets: Fingerprints, holdings: Holdings, relation: Relation, method: Method, ops: Backend
    ) -> Meeting:
        """As it is decided; `sets` are the unique fingerprints of the arriving documents, row after row."""
        readable = HeldSets.of(holdings, self.held, sets, ops)
        return Meeting(self.collisions, np.arange(len(readable.sizes())), relation, readable, method, ops)


def meet(digests: NDArray[np.uint64], holdings: Holdings, ops: Backend, *, one_another: bool = True) -> Meetings:
    """Arriving documents have the places h, h + 1, ... by their rows in `digests` [m, bands]; each has a token.

    Pairs of held documents are left out, and without `one_another` those of arriving ones in small buckets.
    """
    bands = [_BandBuckets.of(holdings, band, column) for band, column in enumerate(digests.T)]
    held = np.unique(np.concatenate([np.empty(0, np.int64), *(band.held for band in bands)]))
    pairs = [np.empty(0, np.uint64)]
    large: list[tuple[Numbers, NDArray[np.int32]]] = []
    for band in bands:
        places = np.searchsorted(held, band.held)
        pairs.append(distinct(band.small_pairs(places, len(held), ops if one_another else None)))
        large.append(band.large_members(places, len(held)))
    crowded = np.unique(np.concatenate([np.empty(0, np.int64), *(members for members, _ in large)]))
    buckets = np.full((len(crowded), len(large)), -1, np.int32)
    for number, (members, bucket) in enumerate(large):
        buckets[np.searchsorted(crowded, members), number] = bucket
    return Meetings(held, Collisions(unpacked(distinct(np.concatenate(pairs))), crowded, buckets))


@dataclass(frozen=True)
class _BandBuckets:
    """Buckets of one band that have arriving documents."""

    rows: Numbers  # [m] of arriving documents, bucket after bucket, ascending in each
    arriving: Numbers  # [b] how many each bucket has of them
    held: Numbers  # [k] numbers of held documents
    held_bucket: Numbers  # [k] the bucket of each

    @classmethod
    def of(cls, holdings: Holdings, band: int, digests: NDArray[np.uint64]) -> _BandBuckets:
        values, bucket, arriving = np.unique(digests, return_inverse=True, return_counts=True)
        held_bucket, held = holdings.holders(band, values)
        return cls(np.argsort(bucket, kind="stable"), arriving, held, held_bucket)

    def _is_large(self) -> NDArray[np.bool_]:
        known = np.bincount(self.held_bucket, minlength=len(self.arriving))
        large: NDArray[np.bool_] = known + self.arriving > CROWDED
        return large

    def small_pairs(self, held: Numbers, base: int, ops: Backend | None) -> NDArray[np.uint64]:
        """Packed pairs of small buckets, `held` [k] being the places of the held ones; of arriving ones with `ops`."""
        is_large = self._is_large()
        small = np.flatnonzero(~is_large[self.held_bucket])
        bucket = self.held_bucket[small]
        count = self.arriving[bucket]
        starts = np.cumsum(self.arriving) - self.arriving
        partner = self.rows[np.repeat(starts[bucket], count) + within_runs(count)]
        found = packed(np.repeat(held[small], count), partner + base)
        if ops is None:
            return found
        several = ~is_large & (self.arriving > 1)
        rows = self.rows[np.repeat(several, self.arriving)] + base
        buckets = Buckets(ops.asarray(rows), ops.asarray(offsets(self.arriving[several])))
        among = ops.asnumpy(ops.candidates(buckets))
        return np.concatenate([found, packed(*among.T)])

    def large_members(self, held: Numbers, base: int) -> tuple[Numbers, NDArray[np.int32]]:
        """Places of the members of large buckets, each once, and their buckets."""
        is_large = self._is_large()
        known = np.flatnonzero(is_large[self.held_bucket])
        bucket = np.repeat(np.arange(len(self.arriving)), self.arriving)
        fresh = is_large[bucket]
        members = np.concatenate([held[known], self.rows[fresh] + base])
        return members, np.concatenate([self.held_bucket[known], bucket[fresh]]).astype(np.int32)
