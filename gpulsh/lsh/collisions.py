"""Band digests to candidate pairs, buckets too large for all pairs set apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, BandDigests, Buckets
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.params import check_type

SMALL_BUCKET = 256  # documents up to which all pairs of a bucket are compared; part of the decision's definition


def candidate_pairs(digests: BandDigests, *, backend: BackendName = "auto", threads: int | None = None) -> Array:
    """Every pair of documents that share a digest in some band: int64 [m, 2], i < j, lexicographic, unique.

    All pairs of every bucket, however large; `deduplicate` compares large buckets by a prefix filter instead.

    >>> digests = BandDigests(np.array([[7, 1], [7, 2], [3, 2]], np.uint64))
    >>> candidate_pairs(digests, backend="cpu")
    array([[0, 1],
           [1, 2]])
    """
    check_type("digests", digests, BandDigests)
    ops = select_backend(backend, threads=threads)
    values = ops.asarray(digests.values)
    ids = ops.asarray(np.arange(len(digests), dtype=np.int64))
    buckets = [ops.collisions(values[:, band], ids) for band in range(digests.shape[1])]
    members = [ops.asnumpy(bucket.ids) for bucket in buckets]
    sizes = [np.diff(ops.asnumpy(bucket.offset)) for bucket in buckets]
    return _pairs(members, sizes, ops)


@dataclass(frozen=True)
class Collisions:
    """Who shares a bucket with whom."""

    pairs: NDArray[np.int64]  # [m, 2] i < j, lexicographic: all pairs of the small buckets
    crowded: NDArray[np.int64]  # [c] ascending: documents in a large bucket
    bucket: NDArray[np.int32]  # [c, bands]: each one's large bucket in each band, numbered within the band, or -1

    def share_large_bucket(self, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool [m]: whether rows i [m] and j [m] of `crowded` stand in one large bucket."""
        shared = np.zeros(len(i), bool)
        for band in self.bucket.T:
            shared |= (band[i] == band[j]) & (band[i] >= 0)
        return shared


def collide(
    digests: NDArray[np.uint64], ids: NDArray[np.int64], ops: Backend, advance: Callable[[int], None]
) -> Collisions:
    """Collisions of the documents `ids` (ascending rows of `digests` [n, bands]), band after band."""
    small_members, small_sizes = [], []
    large: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
    on_device = ops.asarray(ids)
    for band in range(digests.shape[1]):
        buckets = ops.collisions(ops.asarray(digests[ids, band]), on_device)
        members, offset = ops.asnumpy(buckets.ids), ops.asnumpy(buckets.offset)
        sizes = np.diff(offset)
        is_large = sizes > SMALL_BUCKET
        number = np.where(is_large, np.cumsum(is_large) - 1, -1).astype(np.int32)
        of_member = np.repeat(number, sizes)
        crowded = of_member >= 0
        large.append((members[crowded], of_member[crowded]))
        small_members.append(members[~crowded])
        small_sizes.append(sizes[~is_large])
        advance(1)
    row = np.full(len(digests), -1, np.int64)
    for members, _ in large:
        row[members] = 0
    everyone = np.flatnonzero(row == 0)
    row[everyone] = np.arange(len(everyone))
    bucket = np.full((len(everyone), len(large)), -1, np.int32)
    for band, (members, number) in enumerate(large):
        bucket[row[members], band] = number
    return Collisions(ops.asnumpy(_pairs(small_members, small_sizes, ops)), everyone, bucket)


def _pairs(members: list[NDArray[np.int64]], sizes: list[NDArray[np.int64]], ops: Backend) -> Array:
    """All pairs of the buckets of all bands at once, so that a pair found in many bands is told once."""
    ids = np.concatenate([np.empty(0, np.int64), *members])
    offset = np.cumsum(np.concatenate([[0], *sizes]), dtype=np.int64)
    return ops.candidates(Buckets(ops.asarray(ids), ops.asarray(offset)))


def packed(i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Pairs as i << 32 | j, whose order is the pairs' lexicographic order."""
    return i.astype(np.uint64) << np.uint64(32) | j.astype(np.uint64)


def unpacked(pairs: NDArray[np.uint64]) -> NDArray[np.int64]:
    """int64 [m, 2] of packed pairs [m]."""
    both = np.empty((len(pairs), 2), np.int64)
    both[:, 0], both[:, 1] = pairs >> np.uint64(32), pairs & np.uint64(0xFFFFFFFF)
    return both


def distinct(pairs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Packed pairs ascending, each once; `numpy.unique` would hash them, where a vector sort serves."""
    pairs = np.sort(pairs)
    return pairs[first_of_runs(pairs)]


def first_of_runs(values: NDArray[np.int64] | NDArray[np.uint64]) -> NDArray[np.bool_]:
    """bool [n]: whether a value differs from the one before it."""
    return np.concatenate([np.ones(min(len(values), 1), bool), values[1:] != values[:-1]])
