"""Bitmaps of the documents of large buckets, from when they first pay: all pairs of them at a few instructions each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare.bounds import PAIRS_AT_ONCE, bounds_allow, words_for
from gpulsh.decide.compare.readable import Readable, in_runs, row_sizes
from gpulsh.lsh.pairs import chosen_pairs

TEXT_AT_ONCE = 16 << 20  # bytes


class CrowdBitmaps:
    """Documents go by their place in the crowd."""

    def __init__(self, texts: Readable, threshold: float, ops: Backend) -> None:
        self._texts, self._text_sizes, self._threshold, self._ops = texts, texts.text_sizes(), threshold, ops
        self._made = np.zeros(len(self._text_sizes), bool)
        self._bitmaps: Array | None = None  # uint64 [c, words]
        self._sizes: Array | None = None  # int64 [c]

    def cost(self, known: Numbers, asking: Numbers, sizes: Numbers) -> int:
        """Fingerprints, of the `sizes` [c] of all, that are still to be read for bitmaps of these documents."""
        return int(sizes[self._missing(known, asking)].sum())

    def near(self, known: Numbers, asking: Numbers) -> Iterator[Numbers]:
        """Pairs (known, later asking) [m, 2] whose bitmaps allow the threshold, lexicographic, some at a time."""
        self._make(self._missing(known, asking))
        yield from near(known, asking, self._bitmaps, self._sizes, self._threshold, self._ops)

    def _missing(self, *documents: Numbers) -> Numbers:
        wanted = np.zeros(len(self._made), bool)
        for places in documents:
            wanted[places] = True
        return np.flatnonzero(wanted & ~self._made)

    def _make(self, missing: Numbers) -> None:
        for places, fingerprints in in_runs(missing, self._text_sizes, TEXT_AT_ONCE, self._texts.fingerprints):
            if self._bitmaps is None or self._sizes is None:
                documents = len(self._made)
                words = words_for(row_sizes(fingerprints, self._ops), documents, self._threshold)
                self._bitmaps = self._ops.asarray(np.zeros((documents, words), np.uint64))
                self._sizes = self._ops.asarray(np.zeros(documents, np.int64))
            rows = self._ops.asarray(places)
            self._bitmaps[rows] = self._ops.bitmaps(fingerprints, self._bitmaps.shape[1])
            self._sizes[rows] = fingerprints.lengths
            self._made[places] = True


def near(
    known: Numbers, asking: Numbers, bitmaps: Array, sizes: Array, threshold: float, ops: Backend
) -> Iterator[Numbers]:
    """Pairs (known, later asking) [m, 2] whose bitmaps allow the threshold, lexicographic, some at a time.

    `bitmaps` uint64 [c, words] and `sizes` int64 [c] are those of all documents that these may name.
    """
    if len(asking) == 0:
        return
    at_once = max(1, PAIRS_AT_ONCE // len(asking))
    for start in range(0, len(known), at_once):
        pairs = product(known[start : start + at_once], asking)
        if known[-1] >= asking[0]:  # of one block, where every pair is there twice
            pairs = chosen_pairs(pairs, pairs[:, 0] < pairs[:, 1])
        yield chosen_pairs(pairs, bounds_allow(pairs, bitmaps, sizes, threshold, ops))


def product(known: Numbers, asking: Numbers) -> Numbers:
    """Each known document with each asking one: int64 [known * asking, 2], lexicographic."""
    pairs = np.empty((len(known), len(asking), 2), np.int64)
    pairs[:, :, 0], pairs[:, :, 1] = known[:, None], asking
    return pairs.reshape(-1, 2)
