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
from gpulsh.lsh.collisions import Collisions, Memberships
from gpulsh.lsh.pairs import distinct, packed, unpacked
from gpulsh.method import Method
from gpulsh.ragged import offsets, within_runs

# Documents of a bucket from which on it is joined, not compared in all pairs. `SMALL_BUCKET` is larger, as a run hands
# out all pairs below it as evidence; an index hands out none, no decision depends on this, and a join costs less.
CROWDED = 64
AT_ONCE = 1 << 18  # digests of arriving documents, of as many bands as have no more together


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
        return Meeting(self.collisions, np.arange(len(readable.text_sizes())), relation, readable, method, ops)


def meet(digests: NDArray[np.uint64], holdings: Holdings, ops: Backend, *, one_another: bool = True) -> Meetings:
    """Arriving documents have the places h, h + 1, ... by their rows in `digests` [m, bands]; each has a token.

    Pairs of held documents are left out, and without `one_another` those of arriving ones in small buckets.
    """
    step = max(1, AT_ONCE // max(len(digests), 1))
    parts = [_Buckets.of(holdings, digests, band, band + step) for band in range(0, digests.shape[1], step)]
    held = np.unique(np.concatenate([part.held for part in parts]))
    pairs, crowds = [], []
    for part in parts:
        places = np.searchsorted(held, part.held)
        pairs.append(distinct(part.small_pairs(places, len(held), ops if one_another else None)))
        if part.is_large.any():
            crowds.append(part.crowd(places, len(held)))
    found = unpacked(distinct(np.concatenate(pairs)))
    return Meetings(held, Collisions.of(found, Memberships.joined(crowds), digests.shape[1]))


@dataclass(frozen=True)
class _Buckets:
    """Buckets of some bands that have arriving documents, [b] in all."""

    band: Numbers  # [b]
    rows: Numbers  # [m] of arriving documents, bucket after bucket, ascending in each
    arriving: Numbers  # [b] how many each bucket has of them
    held: Numbers  # [k] numbers of held documents
    held_bucket: Numbers  # [k] the bucket of each
    is_large: NDArray[np.bool_]  # [b]

    @classmethod
    def of(cls, holdings: Holdings, digests: NDArray[np.uint64], first: int, stop: int) -> _Buckets:
        """The buckets of the bands from `first` to `stop`."""
        columns = digests[:, first:stop].T
        order = np.argsort(columns, axis=1, kind="stable")
        ranked = np.take_along_axis(columns, order, axis=1)
        begins = np.ones(ranked.shape, bool)
        begins[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
        starts = np.flatnonzero(begins)
        band = starts // max(len(digests), 1) + first
        held_bucket, held = holdings.holders(band, ranked.ravel()[starts])
        arriving = np.diff(starts, append=order.size)
        is_large = np.bincount(held_bucket, minlength=len(starts)) + arriving > CROWDED
        return cls(band, order.ravel(), arriving, held, held_bucket, is_large)

    def small_pairs(self, held: Numbers, base: int, ops: Backend | None) -> NDArray[np.uint64]:
        """Packed pairs of small buckets, `held` [k] being the places of the held ones; of arriving ones with `ops`."""
        small = np.flatnonzero(~self.is_large[self.held_bucket])
        bucket = self.held_bucket[small]
        count = self.arriving[bucket]
        starts = np.cumsum(self.arriving) - self.arriving
        partner = self.rows[np.repeat(starts[bucket], count) + within_runs(count)]
        found = packed(np.repeat(held[small], count), partner + base)
        several = ~self.is_large & (self.arriving > 1)
        if ops is None or not several.any():
            return found
        rows = self.rows[np.repeat(several, self.arriving)] + base
        buckets = Buckets(ops.asarray(rows), ops.asarray(offsets(self.arriving[several])))
        among = ops.asnumpy(ops.candidates(buckets))
        return np.concatenate([found, packed(*among.T)])

    def crowd(self, held: Numbers, base: int) -> Memberships:
        """The members of large buckets, by place."""
        known = np.flatnonzero(self.is_large[self.held_bucket])
        bucket = np.repeat(np.arange(len(self.arriving)), self.arriving)
        fresh = self.is_large[bucket]
        members = np.concatenate([held[known], self.rows[fresh] + base])
        bucket = np.concatenate([self.held_bucket[known], bucket[fresh]])
        return Memberships(members, self.band[bucket], bucket)
