"""Who meets whom: arriving documents with held ones, and with one another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Buckets
from gpulsh.backends.protocol import Backend
from gpulsh.index.holdings import Holdings
from gpulsh.lsh.collisions import Collisions, distinct, packed, unpacked
from gpulsh.store.segments import Numbers

CROWDED = 64  # documents of a bucket from which on it is joined, not compared in all pairs; no decision depends on it


@dataclass(frozen=True)
class Meetings:
    """Held documents that share a bucket with arriving ones come first in the places of `collisions`."""

    held: Numbers  # [h] ascending: their numbers
    collisions: Collisions


def meet(digests: NDArray[np.uint64], holdings: Holdings, ops: Backend) -> Meetings:
    """Arriving documents have the places h, h + 1, ... by their rows in `digests` [m, bands]; each has a token.

    Pairs of held documents are left out.
    """
    bands = [holdings.sharing(band, column) for band, column in enumerate(digests.T)]
    held = np.unique(np.concatenate([np.empty(0, np.int64), *(numbers for _, numbers in bands)]))
    pairs = [np.empty(0, np.uint64)]
    large: list[tuple[Numbers, NDArray[np.int32]]] = []
    for (rows, numbers), column in zip(bands, digests.T, strict=True):
        found, members, bucket = _of_band(column, rows, np.searchsorted(held, numbers), len(held), ops)
        pairs.append(distinct(found))
        large.append((members, bucket))
    crowded = np.unique(np.concatenate([np.empty(0, np.int64), *(members for members, _ in large)]))
    buckets = np.full((len(crowded), len(large)), -1, np.int32)
    for band, (members, bucket) in enumerate(large):
        buckets[np.searchsorted(crowded, members), band] = bucket
    return Meetings(held, Collisions(unpacked(distinct(np.concatenate(pairs))), crowded, buckets))


def _of_band(
    digests: NDArray[np.uint64], rows: Numbers, held: Numbers, base: int, ops: Backend
) -> tuple[NDArray[np.uint64], Numbers, NDArray[np.int32]]:
    """Of one band: packed pairs of its small buckets, the members of its large ones and which bucket each is in.

    `rows` [k] share their digest with the held places `held` [k]; places of arriving documents are `base` + row.
    """
    _, bucket, arriving = np.unique(digests, return_inverse=True, return_counts=True)
    met = bucket[rows]
    # A held document is matched once by each arriving one of its bucket.
    size = np.bincount(met, minlength=len(arriving)) // arriving + arriving
    is_large = size > CROWDED
    small = ~is_large[met]
    with_held = packed(held[small], rows[small] + base)

    order = np.argsort(bucket, kind="stable")
    of_small = order[(~is_large & (arriving > 1))[bucket[order]]]
    counts = arriving[~is_large & (arriving > 1)]
    offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    # Ids ascend within a bucket, as the sort is stable.
    among = ops.asnumpy(ops.candidates(Buckets(ops.asarray(of_small + base), ops.asarray(offset))))
    in_large = np.flatnonzero(is_large[bucket])
    known = packed(held[~small], met[~small])  # repeated, by each arriving member
    known = distinct(known)
    members = np.concatenate([unpacked(known)[:, 0], in_large + base])
    numbers = np.concatenate([unpacked(known)[:, 1], bucket[in_large]]).astype(np.int32)
    return np.concatenate([with_held, packed(*among.T)]), members, numbers


def candidates(digests: NDArray[np.uint64], holdings: Holdings) -> tuple[Numbers, NDArray[np.int64]]:
    """Held numbers [h], ascending, that share a bucket with asking documents, and pairs (place in them, row) [m, 2]."""
    bands = [holdings.sharing(band, column) for band, column in enumerate(digests.T)]
    held = np.unique(np.concatenate([np.empty(0, np.int64), *(numbers for _, numbers in bands)]))
    found = [distinct(packed(np.searchsorted(held, numbers), rows)) for rows, numbers in bands]
    return held, unpacked(distinct(np.concatenate([np.empty(0, np.uint64), *found])))
