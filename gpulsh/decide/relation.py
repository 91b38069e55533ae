"""Similar pairs (`Edges`), and the rules for which document may be dropped for which other one (`Relation`).

Both are array code, for NumPy's and CuPy's arrays; `moved` puts them into other memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpulsh.arrays import Array
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
        """The edges of all `parts`, end to end; a single part itself."""
        if len(parts) == 1:
            return parts[0]
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
    any source may be dropped for them. Documents from position `asking` on are never a witness. With `words`, bit
    signatures uint64 [v, words] of documents that have `places` int64 [n] in them, two documents must differ in at most
    `distance` bits, too (`also=` of a run).
    """

    source: Array | None = None
    protected: int = 0
    across: bool = False
    asking: int | None = None
    words: Array | None = None
    places: Array | None = None
    distance: int = 0

    def moved(self, asarray: Callable[[Array], Array]) -> Relation:
        """The same rules in other memory."""
        there = {name: asarray(array) for name in ARRAYS if (array := getattr(self, name)) is not None}
        return replace(self, **there) if there else self

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
        if self.words is not None and self.places is not None:
            one, other = self.words[self.places[earlier]], self.words[self.places[later]]
            allowed &= distances(one, other) <= self.distance
        return allowed


ARRAYS = ("source", "words", "places")
ALL = Relation()
