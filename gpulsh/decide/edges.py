"""Similar pairs (`Edges`), the rules about who may be dropped for whom (`DropRules`), and a sample of pairs.

Edges and rules are array code, for NumPy's and CuPy's arrays; `moved` puts them into other memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.permutations import splitmix64_array
from gpulsh.sketch.bits import distances

MAX_DRAWN = 4096  # pairs
AT_ONCE = 1 << 14  # pairs that are hashed


class Edges(NamedTuple):
    """Verified pairs: `earlier` and `later` int64 [m] in decision order, `similarity` float64 [m]."""

    earlier: Array
    later: Array
    similarity: Array

    def moved(self, asarray: Callable[[Array], Array]) -> Edges:
        """The same edges in other memory."""
        return Edges(*map(asarray, self))

    @classmethod
    def concat(cls, parts: Sequence[Edges]) -> Edges:
        """The edges of all `parts`, end to end; a single part itself."""
        return parts[0] if len(parts) == 1 else cls(*map(np.concatenate, zip(*parts, strict=True)))

    def select(self, chosen: Array | slice) -> Edges:
        """The edges that `chosen` marks (bool [m]), lists (int64) or spans (slice)."""
        if not isinstance(chosen, slice) and chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)  # once for all columns
        return Edges(*(column[chosen] for column in self))

    def renumber(self, numbers: Array) -> Edges:
        """The same edges between numbers: place i becomes `numbers[i]`."""
        return Edges(numbers[self.earlier], numbers[self.later], self.similarity)


@dataclass(frozen=True)
class DropRules:
    """The rules, for documents by position.

    With `source` int [n], only documents of the same source are duplicates, or, with `across`, only documents of
    different sources. The first `protected` positions come first in decision order, and are never dropped; documents of
    any source may be dropped for them. Documents from position `first_query` on are never a witness. With `words`, bit
    signatures uint64 [v, words] of documents that have `places` int64 [n] in them, two documents must differ in at most
    `distance` bits, too (`also=` of a run).
    """

    source: Array | None = None
    protected: int = 0
    across: bool = False
    first_query: int | None = None
    words: Array | None = None
    places: Array | None = None
    distance: int = 0

    def moved(self, asarray: Callable[[Array], Array]) -> DropRules:
        """The same rules in other memory."""
        there = {name: asarray(array) for name in RULE_ARRAYS if (array := getattr(self, name)) is not None}
        return replace(self, **there) if there else self

    def can_be_witness(self, documents: Array) -> Array:
        """bool [m]: whether others may be dropped for each of `documents` [m]."""
        return np.ones_like(documents, bool) if self.first_query is None else documents < self.first_query

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


RULE_ARRAYS = ("source", "words", "places")
NO_RULES = DropRules()


class Sample(NamedTuple):
    """The hashes of sampled pairs, ascending, and their similarities."""

    hash: NDArray[np.uint64]
    similarity: NDArray[np.float64]

    def merge(self, other: Sample) -> Sample:
        """The sample of the pairs of both."""
        hashes = np.concatenate([self.hash, other.hash])
        order = np.argsort(hashes, kind="stable")[:MAX_DRAWN]
        return Sample(hashes[order], np.concatenate([self.similarity, other.similarity])[order])


NO_SAMPLE = Sample(np.empty(0, np.uint64), np.empty(0, np.float64))


class PairSampler:
    """Draws a sample of candidate pairs; `positions` [n] are their positions in the run.

    Bounds rule out most candidates below the threshold without measuring them. A few are measured all the same, to show
    how similar candidates are: the pairs with the least hashes of their documents' positions. The sample of all pairs
    is then the sample of the samples of their parts, however the work is cut. No decision depends on it.
    """

    def __init__(self, positions: Numbers) -> None:
        self._positions, self._hash, self.sample = positions, NO_SAMPLE.hash, NO_SAMPLE

    def draw(self, pairs: Array, numbers: Array, ops: Backend) -> Numbers:
        """int64 [s]: which of `pairs` [m, 2] of places are drawn; `numbers` are the documents of the places."""
        hashes, drawn = NO_SAMPLE.hash, np.empty(0, np.int64)
        for start in range(0, len(pairs), AT_ONCE):
            first, second = self._positions[ops.asnumpy(numbers[pairs[start : start + AT_ONCE]])].astype(np.uint64).T
            found = splitmix64_array(splitmix64_array(first) + second)
            near = np.flatnonzero(found < hashes[-1]) if len(hashes) == MAX_DRAWN else np.arange(len(found))
            hashes, drawn = np.concatenate([hashes, found[near]]), np.concatenate([drawn, start + near])
            order = np.argsort(hashes, kind="stable")[:MAX_DRAWN]
            hashes, drawn = hashes[order], drawn[order]
        self._hash = hashes
        return drawn

    def complete(self, similarity: NDArray[np.float64]) -> None:
        """Complete the sample with the similarities of the drawn pairs, float64 [s]."""
        self.sample = Sample(self._hash, similarity)
