"""A sample of candidate pairs that are measured whatever bounds say of them: how similar candidates are to one another.

Bounds rule out most candidates below the threshold, and so nobody knows how similar those are. A few are measured all
the same, where they are compared anyway. The pairs with the least hashes of their documents' positions are drawn: the
sample of all pairs is then the sample of the samples of their parts, however the work is cut. No decision depends on
it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.permutations import mixed

MOST = 4096  # pairs
AT_ONCE = 1 << 14  # pairs that are hashed


class Sample(NamedTuple):
    """Pairs by their hashes, ascending, and how similar they are."""

    hash: NDArray[np.uint64]
    similarity: NDArray[np.float64]

    def and_of(self, other: Sample) -> Sample:
        """The sample of all pairs that both are samples of."""
        hashes = np.concatenate([self.hash, other.hash])
        order = np.argsort(hashes, kind="stable")[:MOST]
        return Sample(hashes[order], np.concatenate([self.similarity, other.similarity])[order])


NOTHING = Sample(np.empty(0, np.uint64), np.empty(0, np.float64))


class Draw:
    """Draws from pairs of documents that go by numbers, and have `positions` [n] among all of a run."""

    def __init__(self, positions: Numbers) -> None:
        self._positions, self._hash, self.sample = positions, NOTHING.hash, NOTHING

    def of(self, pairs: Numbers, numbers: Numbers) -> Numbers:
        """int64 [s]: which of `pairs` [m, 2] of places, of documents of those `numbers`, are drawn."""
        hashes, drawn = NOTHING.hash, np.empty(0, np.int64)
        for start in range(0, len(pairs), AT_ONCE):
            first, second = self._positions[numbers[pairs[start : start + AT_ONCE]]].astype(np.uint64).T
            found = mixed(mixed(first) + second)
            near = np.flatnonzero(found < hashes[-1]) if len(hashes) == MOST else np.arange(len(found))
            hashes, drawn = np.concatenate([hashes, found[near]]), np.concatenate([drawn, start + near])
            order = np.argsort(hashes, kind="stable")[:MOST]
            hashes, drawn = hashes[order], drawn[order]
        self._hash = hashes
        return drawn

    def tell(self, similarity: NDArray[np.float64]) -> None:
        """Take in how similar those are that were drawn, float64 [s]."""
        self.sample = Sample(self._hash, similarity)
