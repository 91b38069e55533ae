"""Similar pairs (`Edges`), and the rules for which document may be dropped for which other one (`Relation`).

Both are array code, for NumPy's and CuPy's arrays; `moved` puts them into other memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.protocol import Backend
from gpulsh.decide.readable import ShingledTexts
from gpulsh.params import NearBits
from gpulsh.ragged import first_of_runs, offsets
from gpulsh.sketch.bits import distances


@dataclass(frozen=True)
class Edges:
    """Verified pairs: `earlier` and `later` int64 [m] in decision order, `similarity` float64 [m]."""

    earlier: Array
    later: Array
    similarity: Array

    def moved(self, asarray: Callable[[Array], Array]) -> Edges:
        """The same edges in other memory."""
        return Edges(*map(asarray, (self.earlier, self.later, self.similarity)))

    @classmethod
    def joined(cls, parts: Sequence[Edges]) -> Edges:
        """The edges of all `parts`, end to end."""
        columns = zip(*((part.earlier, part.later, part.similarity) for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))

    def where(self, chosen: Array | slice) -> Edges:
        """The edges that `chosen` marks (bool [m]), lists (int64) or spans (slice)."""
        if not isinstance(chosen, slice) and chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)  # once for all columns
        return Edges(self.earlier[chosen], self.later[chosen], self.similarity[chosen])

    def named(self, numbers: Array) -> Edges:
        """The same edges between numbers: place i becomes `numbers[i]`."""
        return Edges(numbers[self.earlier], numbers[self.later], self.similarity)


@dataclass(frozen=True)
class Relation:
    """The rules, for documents by position.

    With `source` int [n], only documents of the same source are duplicates, or, with `across`, only documents of
    different sources. The first `protected` positions come first in decision order, and are never dropped; documents of
    any source may be dropped for them. Documents from position `asking` on are never a witness.
    """

    source: Array | None = None
    protected: int = 0
    across: bool = False
    asking: int | None = None

    def moved(self, asarray: Callable[[Array], Array]) -> Self:
        """The same rules in other memory."""
        return self if self.source is None else replace(self, source=asarray(self.source))

    def can_be_witness(self, documents: Array) -> Array:
        """bool [m]: whether others may be dropped for each of `documents` [m]."""
        return np.ones_like(documents, bool) if self.asking is None else documents < self.asking

    def can_be_dropped(self, documents: Array) -> Array:
        """bool [m]: whether each of `documents` [m] may be dropped for others."""
        return documents >= self.protected

    def allows(self, earlier: Array, later: Array) -> Array:
        """bool [m]: whether each later document may be dropped for the earlier one."""
        allowed = self.can_be_dropped(later) & self.can_be_witness(earlier)
        if self.source is not None:
            related = (self.source[earlier] != self.source[later]) == self.across
            allowed &= related | (earlier < self.protected)
        return allowed


ALL = Relation()


@dataclass(frozen=True, kw_only=True)
class NearRelation(Relation):
    """`also=` of a run: in addition, bit signatures must differ in at most `distance` bits."""

    words: Array  # uint64 [v, words] by place
    places: Array  # the place of each document
    distance: int

    def moved(self, asarray: Callable[[Array], Array]) -> Self:
        """The same rules in other memory."""
        return replace(super().moved(asarray), words=asarray(self.words), places=asarray(self.places))

    def allows(self, earlier: Array, later: Array) -> Array:
        """bool [m]: whether each later document may be dropped for the earlier one."""
        apart = distances(self.words[self.places[earlier]], self.words[self.places[later]])
        return super().allows(earlier, later) & (apart <= self.distance)


def near_relation(
    relation: Relation, near: NearBits, texts: ShingledTexts, places: Array, ops: Backend
) -> NearRelation:
    """`relation` and the distance of `near`; `texts` go by place, and `places` has the place of each document."""
    words = [ops.asarray(np.empty((0, near.bits // 64), np.uint64))]
    begins = offsets(texts.text_sizes())[:-1]
    starts = ops.asnumpy(np.flatnonzero(first_of_runs(begins // ops.sizes().batch))).tolist()
    for start, stop in pairwise([*starts, len(begins)]):
        words.append(texts.simhash(np.arange(start, stop, like=begins), near))
    return NearRelation(**vars(relation), words=np.concatenate(words), places=places, distance=near.distance)
