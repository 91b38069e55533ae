"""Band digests to candidate pairs, buckets too large for all pairs set apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, BandDigests, Buckets, Numbers
from gpulsh.backends.parts import in_fitting_parts
from gpulsh.backends.protocol import Backend, Result
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.lsh.pairs import renumbered
from gpulsh.params import check_type
from gpulsh.ragged import first_of_runs

SMALL_BUCKET = 256  # documents up to which all pairs of a bucket are compared; part of the decision's definition
FEW_DOCUMENTS = 1 << 16  # of which a band is work for one thread
MOST_PARTS = 1 << 12  # ranges of digests that a band is cut into at most
MOST_PACKED = 1 << 32  # documents whose numbers `candidates` packs two of into 64 bits


def candidate_pairs(digests: BandDigests, *, backend: BackendName = "auto", threads: int | None = None) -> Array:
    """Every pair of documents that share a digest in some band: int64 [m, 2], i < j, lexicographic, unique.

    All pairs of every bucket, however large; `deduplicate` compares large buckets by a prefix filter instead. Raises
    ParameterError where it is given anything but BandDigests.

    >>> digests = BandDigests(np.array([[7, 1], [7, 2], [3, 2]], np.uint64))
    >>> candidate_pairs(digests, backend="cpu")
    array([[0, 1],
           [1, 2]])
    """
    check_type("digests", digests, BandDigests)
    ops = select_backend(backend, threads=threads)
    values = ops.asarray(digests.values)
    ids = ops.asarray(np.arange(len(digests), dtype=np.int64))
    buckets = list(_each_band(digests.shape[1], len(digests), ops, lambda one, j: one.collisions(values[:, j], ids)))
    sizes = [bucket.lengths for bucket in buckets]
    return SmallBuckets.joined([bucket.ids for bucket in buckets], sizes, len(digests), ops).pairs()


class Crowd(NamedTuple):
    """Memberships in large buckets: int64 [r] each; a bucket is named by the first of its documents."""

    document: Numbers
    band: Numbers
    bucket: Numbers

    @classmethod
    def joined(cls, parts: Sequence[Crowd]) -> Crowd:
        """Several, end to end."""
        none = np.empty(0, np.int64)
        return cls(*map(np.concatenate, zip((none, none, none), *parts, strict=True)))


@dataclass(frozen=True)
class Collisions:
    """Who shares a bucket with whom."""

    pairs: Numbers  # [m, 2] i < j, lexicographic: all pairs of the small buckets
    crowded: Numbers  # [c] ascending: documents in a large bucket
    bucket: NDArray[np.signedinteger]  # [c, bands]: each one's large bucket in each band, by any number, or -1

    @classmethod
    def of(cls, pairs: Numbers, crowd: Crowd, bands: int) -> Collisions:
        """From pairs and memberships."""
        crowded, place = renumbered(crowd.document, int(crowd.document.max(initial=-1)) + 1)
        bucket = np.full((len(crowded), bands), -1, np.int64)
        bucket[place, crowd.band] = crowd.bucket
        return cls(pairs, crowded, bucket)

    def share_large_bucket(self, i: Numbers, j: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether rows i [m] and j [m] of `crowded` stand in one large bucket."""
        shared = np.zeros(len(i), bool)
        for band in self.bucket.T:
            shared |= (band[i] == band[j]) & (band[i] >= 0)
        return shared


class Digests(Protocol):
    """Band digests of documents, band by band, in the backend's memory when they are asked for."""

    documents: int
    bands: int
    ascending: bool  # whether the ids of a band ascend; otherwise those of equal digests do

    def band(self, band: int, part: int, parts: int) -> tuple[Array, Array]:
        """The digests uint64 [m] of a band in range `part` of `parts` equal ones, and the ids int64 [m]."""


@dataclass(frozen=True)
class SmallBuckets:
    """The small buckets of all bands at once, so that a pair found in many bands is given once."""

    ids: Array
    offset: Array
    documents: int
    ops: Backend

    @classmethod
    def joined(cls, members: list[Array], sizes: list[Array], documents: int, ops: Backend) -> SmallBuckets:
        """The buckets of several bands, of `documents` in all."""
        none = ops.asarray(np.zeros(1, np.int64))
        ids, offset = np.concatenate([none[:0], *members]), np.cumsum(np.concatenate([none, *sizes]))
        return cls(ids, offset, documents, ops)

    def pairs(self) -> Array:
        """All pairs of each: int64 [m, 2], i < j, lexicographic, unique."""
        ids, known = self._numbered()
        found = self.ops.candidates(Buckets(ids, self.offset))
        return found if known is None else known[found]

    def pieces(self, most: int) -> Iterator[Numbers]:
        """Yield the pairs on the host, in pieces of about `most` at most, a pair counted in every band."""
        members, offset = self.ops.asnumpy(self.ids), self.ops.asnumpy(self.offset)
        sizes = np.diff(offset)
        if int((sizes * (sizes - 1) // 2).sum()) <= most:
            yield self.ops.asnumpy(self.pairs())
            return
        later = np.repeat(offset[1:], sizes) - np.arange(len(members)) - 1
        document, place = np.unique(members, return_inverse=True)
        ends = np.cumsum(np.bincount(place, later).astype(np.int64))
        begins = document[first_of_runs(np.maximum(ends - 1, 0) // most)]
        ids, known = self._numbered()
        if known is not None:
            begins = np.searchsorted(document, begins)
        for start, stop in zip(begins.tolist(), [*begins[1:].tolist(), self.documents], strict=True):
            found = self.ops.candidates(Buckets(ids, self.offset), (start, stop))
            yield self.ops.asnumpy(found if known is None else known[found])

    def _numbered(self) -> tuple[Array, Array | None]:
        """The ids, or numbers that fit where those among all documents do not, and the ids that these stand for."""
        if self.documents <= MOST_PACKED:
            return self.ids, None
        involved = np.unique(self.ids)
        return np.searchsorted(involved, self.ids), involved


def collide(digests: Digests, ops: Backend, advance: Callable[[int], None]) -> tuple[Numbers, Crowd]:
    """All pairs [m, 2] of the small buckets, i < j, lexicographic, and the members of large ones."""
    small, crowd = bucketed(digests, ops, advance)
    return ops.asnumpy(small.pairs()), crowd


def bucketed(digests: Digests, ops: Backend, advance: Callable[[int], None]) -> tuple[SmallBuckets, Crowd]:
    """The small buckets, and the members of large ones, of band after band."""
    parts = 1  # that memory asks for; a band begins with as many as the last one took

    def of_band(ops: Backend, band: int) -> list[Buckets]:
        nonlocal parts
        found, parts = in_fitting_parts(partial(_buckets, digests, band, ops), parts, MOST_PARTS)
        return found

    small: list[tuple[Array, Array]] = []
    large: list[Crowd] = []
    for band, found in enumerate(_each_band(digests.bands, digests.documents, ops, of_band)):
        for buckets in found:
            sizes = buckets.lengths
            is_large = sizes > SMALL_BUCKET
            if not bool(is_large.any()):
                small.append((buckets.ids, sizes))
                continue
            of_member = bucket_of_member(buckets)
            crowded = is_large[of_member]
            small.append((buckets.ids[~crowded], sizes[~is_large]))
            first = buckets.ids[buckets.offset[:-1]][of_member[crowded]]
            members = ops.asnumpy(buckets.ids[crowded])
            large.append(Crowd(members, np.full(len(members), band), ops.asnumpy(first)))
        advance(1)
    members, member_sizes = [ids for ids, _ in small], [sizes for _, sizes in small]
    return SmallBuckets.joined(members, member_sizes, digests.documents, ops), Crowd.joined(large)


def _each_band(bands: int, documents: int, ops: Backend, work: Callable[[Backend, int], Result]) -> Iterable[Result]:
    """`work(backend, band)` of every band, in order; in parallel where a band is work for one thread."""
    return ops.parallel_map(range(bands), work) if documents <= FEW_DOCUMENTS else map(partial(work, ops), range(bands))


def _buckets(digests: Digests, band: int, ops: Backend, parts: int) -> list[Buckets]:
    """The buckets of a band, from ranges of digests, one after another."""
    return [_buckets_of(*digests.band(band, part, parts), digests.ascending, ops) for part in range(parts)]


def _buckets_of(digests: Array, ids: Array, ascending: bool, ops: Backend) -> Buckets:
    if ascending:
        return ops.collisions(digests, ids)
    found = ops.collisions(digests, ops.asarray(np.arange(len(ids))))  # spares it the sort by ids
    return Buckets(ids[found.ids], found.offset)


def bucket_of_member(buckets: Buckets) -> Array:
    """int64 [members]: the number of each one's bucket; no bucket is empty."""
    steps = np.zeros(len(buckets.ids), np.int64, like=buckets.ids)
    steps[buckets.offset[1:-1]] = 1
    return np.cumsum(steps)
