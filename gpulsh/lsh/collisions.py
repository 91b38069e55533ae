"""Turns band digests into candidate pairs, and keeps buckets that are too large for all pairs apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, BandDigests, Buckets, Numbers
from gpulsh.backends.parts import run_in_fitting_parts
from gpulsh.backends.protocol import Backend, Result
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_type
from gpulsh.errors import DeviceMemoryError
from gpulsh.ragged import bundles, first_of_runs, merged_distinct

SMALL_BUCKET = 256  # documents whose pairs are all compared; part of the definition of the decision
FEW_DOCUMENTS = 1 << 16  # up to this number a band is work for one thread
SORTED_TOGETHER = 1 << 28  # digests of all bands that a device groups at once: a band of few is mostly waiting
MAX_PARTS = 1 << 12  # ranges of digests in a band
# A decision in memory holds so many pairs, about 100 bytes each, or so many for each document. Each piece of pairs
# reads the texts of its documents again.
MOST_PAIRS, DOCUMENT_PAIRS = 1 << 22, 32


def candidate_pairs(digests: BandDigests, *, backend: BackendName = "auto", threads: int | None = None) -> Array:
    """Every pair of documents that share a digest in some band: int64 [m, 2], i < j, lexicographic, unique.

    Lists all pairs of every bucket, however large; `deduplicate` uses a prefix filter for large buckets instead. Raises
    ParameterError for anything but BandDigests.

    >>> digests = BandDigests(np.array([[7, 1], [7, 2], [3, 2]], np.uint64))
    >>> candidate_pairs(digests, backend="cpu")
    array([[0, 1],
           [1, 2]])
    """
    check_type("digests", digests, BandDigests)
    ops = select_backend(backend, threads=threads)
    values = ops.asarray(digests.values)
    ids = ops.asarray(np.arange(len(digests), dtype=np.int64))
    buckets = list(_map_bands(digests.shape[1], len(digests), ops, lambda one, j: one.collisions(values[:, j], ids)))
    sizes = [bucket.lengths for bucket in buckets]
    return SmallBuckets.concat([bucket.ids for bucket in buckets], sizes, len(digests), ops).pairs()


class Memberships(NamedTuple):
    """Memberships in large buckets: int64 [r] each; the first document of a bucket names it."""

    document: Numbers
    band: Numbers
    bucket: Numbers


@dataclass(frozen=True)
class Collisions:
    """Which documents share a bucket; the members of large buckets are on the host."""

    pairs: Array  # int64 [m, 2] i < j, lexicographic: all pairs of the small buckets, in the backend's memory
    in_large: Numbers  # [c] ascending: documents in a large bucket
    bucket: NDArray[np.signedinteger]  # [c, bands]: the large bucket of each in each band, by any number, or -1
    small: SmallBuckets | None = None  # then `pairs` is empty: they come in pieces

    @classmethod
    def from_buckets(
        cls, pairs: Array, large: Sequence[Memberships], bands: int, small: SmallBuckets | None = None
    ) -> Collisions:
        """The collisions by pairs of small buckets and memberships in large ones."""
        in_large = merged_distinct(part.document for part in large)
        names = max((int(part.bucket.max(initial=0)) + 1 for part in large), default=1)
        return cls(pairs, in_large, bucket_table(in_large, large, names, bands), small)

    def pieces(self) -> Iterator[Array]:
        """All pairs in order, in the backend's memory: `pairs`, or pieces of `small` of about `most_held` or fewer."""
        if self.small is None:
            yield self.pairs
            return
        half = self.small.most_held // 2
        for some in bundles(self.small.pieces(half), half, len):
            yield self.small.ops.asarray(np.concatenate(some))

    def share_large_bucket(self, i: Numbers, j: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether rows i [m] and j [m] of `in_large` share a large bucket."""
        shared = np.zeros(len(i), bool)
        for band in self.bucket.T:
            shared |= (band[i] == band[j]) & (band[i] >= 0)
        return shared


def bucket_table(in_large: Numbers, parts: Iterable[Memberships], names: int, bands: int) -> NDArray[np.signedinteger]:
    """`Collisions.bucket` of the documents `in_large` [c], of buckets whose names are below `names`."""
    bucket = np.full((len(in_large), bands), -1, np.min_scalar_type(-names))
    for part in parts:
        bucket[np.searchsorted(in_large, part.document), part.band] = part.bucket
    return bucket


class Digests(Protocol):
    """Band digests of documents; `band` puts the digests of one band into the backend's memory."""

    documents: int
    bands: int
    ascending: bool  # whether the ids of a band ascend; otherwise only the ids of equal digests do

    def band(self, band: int, part: int, parts: int) -> tuple[Array, Array]:
        """The digests uint64 [m] of a band in range `part` of `parts` equal ranges, and their ids int64 [m]."""


@dataclass(frozen=True)
class SmallBuckets:
    """The small buckets of all bands together, so that a pair found in many bands appears once."""

    ids: Array
    offset: Array
    documents: int
    ops: Backend

    @classmethod
    def concat(cls, members: list[Array], sizes: list[Array], documents: int, ops: Backend) -> SmallBuckets:
        """The buckets of several bands, for `documents` in all."""
        none = ops.asarray(np.zeros(1, np.int64))
        ids, offset = np.concatenate([none[:0], *members]), np.cumsum(np.concatenate([none, *sizes]))
        return cls(ids, offset, documents, ops)

    @property
    def count(self) -> int:
        """The number of pairs, or more: a pair counts once in every band."""
        sizes = np.diff(self.offset)
        return int((sizes * (sizes - 1) // 2).sum())

    @property
    def most_held(self) -> int:
        """How many pairs a decision may hold."""
        return max(MOST_PAIRS, DOCUMENT_PAIRS * self.documents)

    def pairs(self) -> Array:
        """All pairs of each bucket: int64 [m, 2], i < j, lexicographic, unique."""
        return self.ops.candidates(Buckets(self.ids, self.offset))

    def pieces(self, most: int) -> Iterator[Numbers]:
        """Yield the pairs on the host in pieces of at most about `most`; a pair counts once in every band."""
        if self.count <= most:
            yield self.ops.asnumpy(self.pairs())
            return
        members, offset = self.ops.asnumpy(self.ids), self.ops.asnumpy(self.offset)
        sizes = np.diff(offset)
        later = np.repeat(offset[1:], sizes) - np.arange(len(members)) - 1
        document, place = np.unique(members, return_inverse=True)
        ends = np.cumsum(np.bincount(place, later).astype(np.int64))
        begins = document[first_of_runs(np.maximum(ends - 1, 0) // most)]
        for start, stop in zip(begins.tolist(), [*begins[1:].tolist(), self.documents], strict=True):
            yield self.ops.asnumpy(self.ops.candidates(Buckets(self.ids, self.offset), (start, stop)))


def find_buckets(
    digests: Digests, ops: Backend, advance: Callable[[int], None], add_large: Callable[[Memberships], None]
) -> SmallBuckets:
    """The small buckets of all bands; `add_large` takes the members of the large ones of some bands at a time.

    The bands are sorted one after another, or together where a device has room.
    """
    parts = 1  # as memory requires; each band begins with the number that the last one took

    def of_band(ops: Backend, band: int) -> list[tuple[Buckets, Array]]:
        nonlocal parts
        found, parts = run_in_fitting_parts(partial(_buckets, digests, band, ops), parts, MAX_PARTS)
        return [(buckets, np.full_like(buckets.offset[1:], band)) for buckets in found]

    every: Iterable[list[tuple[Buckets, Array]]] = ()  # buckets, and the band of each, int64
    at_once = digests.bands
    if ops.sizes().device and digests.documents * digests.bands <= SORTED_TOGETHER:
        with suppress(DeviceMemoryError), ops.use_device():
            every = [[_buckets_at_once(digests, ops)]]
    if not every:
        every, at_once = _map_bands(digests.bands, digests.documents, ops, of_band), 1
    members, member_sizes = list[Array](), list[Array]()
    for found in every:
        for buckets, band in found:
            ids, sizes = buckets.ids, buckets.lengths
            is_large = sizes > SMALL_BUCKET
            if bool(is_large.any()):
                bucket = bucket_of_member(buckets)
                in_large = is_large[bucket]
                bucket = bucket[in_large]
                add_large(Memberships(*map(ops.asnumpy, (ids[in_large], band[bucket], ids[buckets.offset[bucket]]))))
                ids, sizes = ids[~in_large], sizes[~is_large]
            members.append(ids)
            member_sizes.append(sizes)
        advance(at_once)
    return SmallBuckets.concat(members, member_sizes, digests.documents, ops)


def _buckets_at_once(digests: Digests, ops: Backend) -> tuple[Buckets, Array]:
    """The buckets of all bands by one call of `collisions`, which costs a device little more than one band does."""
    values, ids = zip(*(digests.band(band, 0, 1) for band in range(digests.bands)), strict=True)
    ends = ops.asarray(np.cumsum(list(map(len, values))))
    found = ops.collisions(np.concatenate(values), np.arange(sum(map(len, values)), like=ends))
    band: Array = np.searchsorted(ends, found.ids, side="right")
    # Digests of two bands may be equal: a bucket ends where the band changes too, and a document alone is in none.
    begins = first_of_runs(band)
    begins[found.offset[:-1]] = True
    ends_here = np.ones_like(begins)
    ends_here[:-1] = begins[1:]
    shared = ~(begins & ends_here)
    begins = begins[shared]
    first = np.flatnonzero(begins)
    offset = np.concatenate([first, np.full_like(ends[:1], len(begins))])
    return Buckets(np.concatenate(ids)[found.ids[shared]], offset), band[shared][first]


def _map_bands(bands: int, documents: int, ops: Backend, work: Callable[[Backend, int], Result]) -> Iterable[Result]:
    """`work(backend, band)` of every band, in order; in parallel where a band is work for one thread."""
    return ops.parallel_map(range(bands), work) if documents <= FEW_DOCUMENTS else map(partial(work, ops), range(bands))


def _buckets(digests: Digests, band: int, ops: Backend, parts: int) -> list[Buckets]:
    """The buckets of a band, from one range of digests after another."""
    found = []
    with ops.use_device():
        for part in range(parts):
            values, ids = digests.band(band, part, parts)
            if digests.ascending:
                found.append(ops.collisions(values, ids))
            else:  # places ascend, which saves `collisions` the sort by ids
                buckets = ops.collisions(values, ops.asarray(np.arange(len(ids))))
                found.append(Buckets(ids[buckets.ids], buckets.offset))
    return found


def bucket_of_member(buckets: Buckets) -> Array:
    """int64 [members]: the number of each member's bucket; no bucket is empty."""
    steps = np.zeros(len(buckets.ids), np.int64, like=buckets.ids)
    steps[buckets.offset[1:-1]] = 1
    return np.cumsum(steps)
