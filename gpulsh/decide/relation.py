"""Similar pairs (`Edges`), and the rules for which document may be dropped for which other one (`Relation`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        """The edges that `chosen` marks (bool [m]), lists (int64) or spans (slice)."""
        if not isinstance(chosen, slice) and chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)  # once for all columns
        return Edges(self.earlier[chosen], self.later[chosen], self.similarity[chosen])

    def named(self, numbers: Numbers) -> Edges:
        """The same edges between numbers: place i becomes `numbers[i]`."""
        return Edges(numbers[self.earlier], numbers[self.later], self.similarity)


@dataclass(frozen=True)
class Relation:
    """The rules, for documents by position.

    With `source` int [n], only documents of the same source are duplicates, or, with `across`, only documents of
    different sources. The first `protected` positions come first in decision order, and are never dropped. Documents
    from position `asking` on are never a witness.
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


@dataclass(frozen=True, kw_only=True)
class NearRelation(Relation):
    """`also=` of a run: in addition, bit signatures must differ in at most `distance` bits."""

    words: NDArray[np.uint64]  # [v, words] by place
    places: Numbers  # the place of each document
    distance: int

    def allows(self, earlier: Numbers, later: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether each later document may be dropped for the earlier one."""
        apart = distances(self.words[self.places[earlier]], self.words[self.places[later]])
        allowed: NDArray[np.bool_] = super().allows(earlier, later) & (apart <= self.distance)
        return allowed


def near_relation(
    relation: Relation, near: NearBits, texts: ShingledTexts, places: Numbers, ops: Backend
) -> NearRelation:
    """`relation` and the distance of `near`; `texts` go by place, and `places` has the place of each document."""
    words = [np.empty((0, near.bits // 64), np.uint64)]
    for start, stop in cuts(offsets(texts.text_sizes()), ops.sizes().batch):
        words.append(ops.asnumpy(texts.simhash(np.arange(start, stop), near)))
    return NearRelation(**vars(relation), words=np.concatenate(words), places=places, distance=near.distance)
