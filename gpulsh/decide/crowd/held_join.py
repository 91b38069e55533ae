"""The join of few documents, whose fingerprints are all held: bitmaps find their pairs, and nothing is read again.

Up to some thousands all pairs of bitmaps cost less than making all prefixes, for which the texts are read three times.
"""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare.bounds import words_for
from gpulsh.decide.compare.edges import Edges
from gpulsh.decide.compare.readable import Readable, row_sizes
from gpulsh.decide.crowd.bitmaps import near
from gpulsh.decide.crowd.join import Crowded, CrowdJoin
from gpulsh.method import Method

MOST_DOCUMENTS = 4096
MOST_BYTES = 16 << 20  # of text


def can_be_held(texts: Readable, method: Method, ops: Backend) -> bool:
    """Whether the fingerprints of all `texts` fit; only an exact measure needs no prefixes to say what is compared."""
    whole = ops.sizes().whole
    most = MOST_BYTES if whole is None else min(MOST_BYTES, whole >> 2)
    sizes = texts.text_sizes()
    return method.verify == "exact" and len(sizes) <= MOST_DOCUMENTS and int(sizes.sum()) <= most


class HeldJoin(CrowdJoin):
    """Documents that `can_be_held`; DeviceMemoryError where they do not fit after all."""

    def __init__(self, crowd: Crowded) -> None:
        super().__init__(crowd)
        self._fingerprints = crowd.texts.fingerprints(np.arange(len(crowd.documents)))
        self._sizes = row_sizes(self._fingerprints, crowd.ops)
        words = words_for(self._sizes, len(self._sizes), self._threshold)
        self._bitmaps = crowd.ops.bitmaps(self._fingerprints, words)

    def _pairs_with_kept(self, here: Numbers, asking: Numbers, most: int | None) -> Numbers | None:
        return self._pairs(self._known, asking, most)

    def _pairs_within(self, still_open: Numbers, asking: Numbers, most: int | None) -> Numbers | None:
        return self._pairs(still_open, asking, most)

    def _pairs(self, known: Numbers, asking: Numbers, most: int | None) -> Numbers | None:
        of_all = self._bitmaps, self._fingerprints.lengths
        return self._near(near(known, asking, *of_all, self._threshold, self._ops), most)

    def _verified(self, pairs: Numbers) -> Edges:
        return self._similar(pairs, self._measure(pairs, [self._fingerprints], self._ops))
