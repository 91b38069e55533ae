"""Bitmaps of the documents of large buckets, from when they first pay: all pairs of them at a few instructions each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.protocol import Backend
from gpulsh.lsh.bounds import PAIRS_AT_ONCE, bounds_allow, words_for
from gpulsh.lsh.comparison import Readable, row_sizes, runs_within

TEXT_AT_ONCE = 16 << 20  # bytes


class CrowdBitmaps:
    """Documents go by their place in the crowd, `text_sizes` [c] are their bytes."""

    def __init__(self, texts: Readable, text_sizes: NDArray[np.int64], threshold: float, ops: Backend) -> None:
        self._texts, self._text_sizes, self._threshold, self._ops = texts, text_sizes, threshold, ops
        self._made = np.zeros(len(text_sizes), bool)
        self._bitmaps: Array | None = None  # uint64 [c, words]
        self._sizes: Array | None = None  # int64 [c]

    def cost(self, known: NDArray[np.int64], sizes: NDArray[np.int64], block: slice) -> int:
        """Fingerprints, of the `sizes` [c] of all, that are still to be read for bitmaps of `known` and of a block."""
        return int(sizes[self._missing(known)].sum()) + int(sizes[block][~self._made[block]].sum())

    def near(
        self, known: NDArray[np.int64], asking: NDArray[np.int64], block: slice, fingerprints: Fingerprints
    ) -> Iterator[NDArray[np.int64]]:
        """Pairs (known, asking) [m, 2] whose bitmaps allow the threshold, lexicographic, some at a time.

        Those that ask are of a block, with its `fingerprints`, and those known of it or earlier.
        """
        self._make(known, block, fingerprints)
        at_once = max(1, PAIRS_AT_ONCE // len(asking))
        for start in range(0, len(known), at_once):
            pairs = product(known[start : start + at_once], asking)
            yield pairs[bounds_allow(pairs, self._bitmaps, self._sizes, self._threshold, self._ops)]

    def _missing(self, known: NDArray[np.int64]) -> NDArray[np.int64]:
        return known[~self._made[known]]

    def _make(self, known: NDArray[np.int64], block: slice, fingerprints: Fingerprints) -> None:
        if self._bitmaps is None:
            documents = len(self._made)
            words = words_for(row_sizes(fingerprints, self._ops), documents, self._threshold)
            self._bitmaps = self._ops.asarray(np.zeros((documents, words), np.uint64))
            self._sizes = self._ops.asarray(np.zeros(documents, np.int64))
        if not self._made[block].all():
            self._take(block, fingerprints)
        missing = self._missing(known)
        for start, stop in runs_within(np.cumsum(self._text_sizes[missing]), TEXT_AT_ONCE):
            places = missing[start:stop]
            self._take(places, self._texts.fingerprints(places))

    def _take(self, places: slice | NDArray[np.int64], fingerprints: Fingerprints) -> None:
        assert self._bitmaps is not None and self._sizes is not None
        rows = places if isinstance(places, slice) else self._ops.asarray(places)
        self._bitmaps[rows] = self._ops.bitmaps(fingerprints, self._bitmaps.shape[1])
        self._sizes[rows] = np.diff(fingerprints.offset)
        self._made[places] = True


def product(known: NDArray[np.int64], asking: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each known document with each asking one: int64 [known * asking, 2], lexicographic."""
    pairs = np.empty((len(known), len(asking), 2), np.int64)
    pairs[:, :, 0], pairs[:, :, 1] = known[:, None], asking
    return pairs.reshape(-1, 2)
