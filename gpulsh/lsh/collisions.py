"""Band digests to candidate pairs, buckets too large for all pairs set apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, BandDigests, Buckets
from gpulsh.backends.parts import in_fitting_parts
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.params import check_type

SMALL_BUCKET = 256  # documents up to which all pairs of a bucket are compared; part of the decision's definition
MOST_PARTS = 1 << 12  # ranges of digests that a band is cut into at most


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
    return _pairs([bucket.ids for bucket in buckets], [np.diff(bucket.offset) for bucket in buckets], ops)


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


class Digests(Protocol):
    """Band digests of documents, band by band, in the backend's memory when they are asked for."""

    documents: int
    bands: int

    def band(self, band: int, part: int, parts: int) -> tuple[Array, Array]:
        """The digests uint64 [m] of a band in range `part` of `parts` equal ones, and the ids int64 [m], ascending."""
        ...


def collide(digests: Digests, ops: Backend, advance: Callable[[int], None]) -> Collisions:
    """Collisions of documents, band after band."""
    small: list[tuple[Array, Array]] = []
    large: list[list[tuple[NDArray[np.int64], NDArray[np.int32]]]] = []
    parts = 1
    for band in range(digests.bands):
        found, parts = in_fitting_parts(partial(_buckets, digests, band, ops), parts, MOST_PARTS)
        large.append([])
        numbered = 0
        for buckets in found:
            sizes = np.diff(buckets.offset)
            is_large = sizes > SMALL_BUCKET
            if not bool(is_large.any()):
                small.append((buckets.ids, sizes))
                continue
            of_member = _bucket_of_member(buckets)
            crowded = is_large[of_member]
            small.append((buckets.ids[~crowded], sizes[~is_large]))
            number = np.cumsum(is_large)[of_member[crowded]] + (numbered - 1)
            large[band].append((ops.asnumpy(buckets.ids[crowded]), ops.asnumpy(number).astype(np.int32)))
            numbered += int(is_large.sum())
        advance(1)
    pairs = ops.asnumpy(_pairs([ids for ids, _ in small], [sizes for _, sizes in small], ops))
    return _collisions(pairs, large, digests.documents)


def _buckets(digests: Digests, band: int, ops: Backend, parts: int) -> list[Buckets]:
    """The buckets of a band, from ranges of digests, one after another."""
    return [ops.collisions(*digests.band(band, part, parts)) for part in range(parts)]


def _bucket_of_member(buckets: Buckets) -> Array:
    """int64 [members]: the number of each one's bucket; no bucket is empty."""
    steps = np.zeros(len(buckets.ids), np.int64, like=buckets.ids)
    steps[buckets.offset[1:-1]] = 1
    return np.cumsum(steps)


def _collisions(
    pairs: NDArray[np.int64], large: list[list[tuple[NDArray[np.int64], NDArray[np.int32]]]], documents: int
) -> Collisions:
    if not any(large):
        return Collisions(pairs, np.empty(0, np.int64), np.empty((0, len(large)), np.int32))
    row = np.full(documents, -1, np.int64)
    for band in large:
        for members, _ in band:
            row[members] = 0
    everyone = np.flatnonzero(row == 0)
    row[everyone] = np.arange(len(everyone))
    bucket = np.full((len(everyone), len(large)), -1, np.int32)
    for number, band in enumerate(large):
        for members, buckets in band:
            bucket[row[members], number] = buckets
    return Collisions(pairs, everyone, bucket)


def _pairs(members: list[Array], sizes: list[Array], ops: Backend) -> Array:
    """All pairs of the buckets of all bands at once, so that a pair found in many bands is told once."""
    none = ops.asarray(np.zeros(1, np.int64))
    return ops.candidates(Buckets(np.concatenate([none[:0], *members]), np.cumsum(np.concatenate([none, *sizes]))))


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


def within_runs(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ... count - 1 for each count, end to end."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
