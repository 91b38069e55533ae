"""A walk over what an index holds: every bucket, and every pair of documents that share one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Buckets, Fingerprints, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare import compare, measure_of
from gpulsh.decide.containment import containing_pairs
from gpulsh.index.holdings import Holdings
from gpulsh.index.readable import HeldSets
from gpulsh.lsh.collisions import SmallBuckets
from gpulsh.method import Method

NOTHING = Fingerprints(np.empty(0, np.uint64), np.zeros(1, np.int64))
PAIRS_AT_ONCE = 1 << 22  # looked at together; more in memory where one document has more


def held_buckets(holdings: Holdings, bands: int, ops: Backend) -> Iterator[Buckets]:
    """The buckets of each band, of two held documents or more, by number; in host memory, one band at a time."""
    for band in range(bands):
        digests, numbers = holdings.band(band)
        with ops.here():
            found = ops.collisions(ops.asarray(digests), ops.asarray(numbers))
            yield Buckets(ops.asnumpy(found.ids), ops.asnumpy(found.offset))


def similar_pairs(holdings: Holdings, method: Method, ops: Backend) -> tuple[Numbers, NDArray[np.float64]]:
    """Pairs of held documents that share a bucket and are similar: int64 [m, 2] numbers, i < j, each pair once.

    By containment, those of which the earlier contains enough of the later.
    """
    if method.measure == "containment":
        return _containing_pairs(holdings, method, ops)
    buckets = list(held_buckets(holdings, method.banding.bands, ops))
    held = np.unique(np.concatenate([np.empty(0, np.int64), *(band.ids for band in buckets)]))
    sets = HeldSets.of(holdings, held, NOTHING, ops)
    pairs, similarity = [np.empty((0, 2), np.int64)], [np.empty(0)]
    with ops.here():
        members = [ops.asarray(np.searchsorted(held, band.ids)) for band in buckets]
        sizes = [ops.asarray(band.lengths) for band in buckets]
        for piece in SmallBuckets.joined(members, sizes, len(held), ops).pieces(PAIRS_AT_ONCE):
            found = compare(piece, sets, measure_of(method), method.threshold, ops)
            pairs.append(piece[found >= method.threshold])
            similarity.append(found[found >= method.threshold])
    return held[np.concatenate(pairs)], np.concatenate(similarity)


def _containing_pairs(holdings: Holdings, method: Method, ops: Backend) -> tuple[Numbers, NDArray[np.float64]]:
    held = np.unique(holdings.band(0)[1])
    sets = HeldSets.of(holdings, held, NOTHING, ops)
    with ops.here():
        pairs = containing_pairs(sets, method.threshold, ops)
        found = compare(pairs, sets, measure_of(method), 0.0, ops)  # sizes bound no containment
    enough = found >= method.threshold
    return held[pairs[enough]], found[enough]
