"""Pairs that are similar enough.

Which documents may be dropped for which: all for all, or only within or only across sources; protected for none.

Only documents whose bit signatures are near each other are duplicates: `also=` of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.readable import ShingledTexts
from gpulsh.params import NearBits
from gpulsh.ragged import cuts, offsets
from gpulsh.sketch.bits import distances


@dataclass(frozen=True)
class Edges:
    """Verified pairs: `earlier` and `later` int64 [m] in decision order, `similarity` float64 [m]."""

    earlier: Numbers
    later: Numbers
    similarity: NDArray[np.float64]

    @classmethod
    def joined(cls, parts: Sequence[Edges]) -> Edges:
        """Several, end to end."""
        columns = zip(*((part.earlier, part.later, part.similarity) for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))

    def where(self, chosen: NDArray[np.bool_] | Numbers | slice) -> Edges:
        """The edges that `chosen` marks (bool [m]), lists (int64) or spans."""
        if not isinstance(chosen, slice) and chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)  # once for all columns
        return Edges(self.earlier[chosen], self.later[chosen], self.similarity[chosen])

    def named(self, numbers: Numbers) -> Edges:
        """The same edges, each document by its number in `numbers` in place of its place there."""
        return Edges(numbers[self.earlier], numbers[self.later], self.similarity)


@dataclass(frozen=True)
class Relation:
    """By position: where `source` int [n] is given, only documents of one source are duplicates, or, with `across`,
    only those of two. The first `protected` positions, which also come first in decision order, are never dropped. No
    document is dropped for those from `asking` on.
    """

    source: Numbers | None = None
    protected: int = 0
    across: bool = False
    asking: int | None = None

    def can_be_witness(self, documents: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether others may be dropped for each of `documents` [m]."""
        return np.ones(len(documents), bool) if self.asking is None else documents < self.asking

    def can_be_dropped(self, documents: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether each of `documents` [m] may be dropped for others."""
        return documents >= self.protected

    def allows(self, earlier: Numbers, later: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether each later document may be dropped for the earlier one."""
        allowed = self.can_be_dropped(later) & self.can_be_witness(earlier)
        if self.source is not None:
            allowed &= (self.source[earlier] != self.source[later]) == self.across
        return allowed


ALL = Relation()


@dataclass(frozen=True)
class NearRelation(Relation):
    """A relation that also asks for signatures, uint64 [v, words] by place, which differ in at most `distance` bits."""

    words: NDArray[np.uint64] = field(default_factory=lambda: np.empty((0, 1), np.uint64))
    places: Numbers = field(default_factory=lambda: np.empty(0, np.int64))  # of each document, by its number
    distance: int = 0

    def allows(self, earlier: Numbers, later: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether each later document may be dropped for the earlier one."""
        apart = distances(self.words[self.places[earlier]], self.words[self.places[later]])
        allowed: NDArray[np.bool_] = super().allows(earlier, later) & (apart <= self.distance)
        return allowed


def near_relation(
    relation: Relation, near: NearBits, texts: ShingledTexts, places: Numbers, ops: Backend
) -> NearRelation:
    """`relation`, and near each other; `texts` go by place, and `places` are those of documents, by number."""
    sizes, words = texts.text_sizes(), [np.empty((0, near.bits // 64), np.uint64)]
    for start, stop in cuts(offsets(sizes), ops.sizes().batch):
        words.append(ops.asnumpy(texts.simhash(np.arange(start, stop), near)))
    return NearRelation(**vars(relation), words=np.concatenate(words), places=places, distance=near.distance)
