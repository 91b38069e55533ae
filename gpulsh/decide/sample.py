"""Samples candidate pairs, to show how similar candidates are.

Bounds rule out most candidates below the threshold without measuring them. A few are measured all the same: the pairs
with the least hashes of their documents' positions. The sample of all pairs is then the sample of the samples of their
parts, however the work is cut. No decision depends on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.permutations import mixed

MOST = 4096  # pairs
AT_ONCE = 1 << 14  # pairs that are hashed


class Sample(NamedTuple):
    """The hashes of sampled pairs, ascending, and their similarities."""

    hash: NDArray[np.uint64]
    similarity: NDArray[np.float64]

    def and_of(self, other: Sample) -> Sample:
        """The sample of the pairs of both."""
        hashes = np.concatenate([self.hash, other.hash])
        order = np.argsort(hashes, kind="stable")[:MOST]
        return Sample(hashes[order], np.concatenate([self.similarity, other.similarity])[order])


NOTHING = Sample(np.empty(0, np.uint64), np.empty(0, np.float64))


class Draw:
    """Draws pairs of documents by number; `positions` [n] are their positions in the run."""

    def __init__(self, positions: Numbers) -> None:
        self._positions, self._hash, self.sample = positions, NOTHING.hash, NOTHING

    def of(self, pairs: Array, numbers: Array, ops: Backend) -> Numbers:
        """int64 [s]: the drawn ones of `pairs` [m, 2] of places, whose documents have `numbers`."""
        hashes, drawn = NOTHING.hash, np.empty(0, np.int64)
        for start in range(0, len(pairs), AT_ONCE):
            first, second = self._positions[ops.asnumpy(numbers[pairs[start : start + AT_ONCE]])].astype(np.uint64).T
            found = mixed(mixed(first) + second)
            near = np.flatnonzero(found < hashes[-1]) if len(hashes) == MOST else np.arange(len(found))
            hashes, drawn = np.concatenate([hashes, found[near]]), np.concatenate([drawn, start + near])
            order = np.argsort(hashes, kind="stable")[:MOST]
            hashes, drawn = hashes[order], drawn[order]
        self._hash = hashes
        return drawn

    def measured(self, similarity: NDArray[np.float64]) -> None:
        """Take the similarities of the drawn pairs, float64 [s]."""
        self.sample = Sample(self._hash, similarity)
