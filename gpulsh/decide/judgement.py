"""The decision about documents once it is known who meets whom: read again, verify, resolve, put copies back.

The documents may be all of a run, or a group that shares no bucket and no copy with the rest: of a group the decision
is the same as of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpulsh.account.funnel import Funnel
from gpulsh.account.progress import Progress
from gpulsh.account.stages import OF_MEMORY
from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare.comparison import compare
from gpulsh.decide.compare.measure import measure_of, similar_pairs
from gpulsh.decide.compare.prefix_join import Edges, PrefixJoin
from gpulsh.decide.compare.shingled_texts import ShingledTexts
from gpulsh.decide.decision import Decision
from gpulsh.decide.relation import Relation
from gpulsh.decide.resolve import distinct_edges, heads, resolve_kept, witnesses
from gpulsh.io.source import ChosenTexts
from gpulsh.lsh.collisions import Collisions, packed
from gpulsh.method import Method
from gpulsh.secret import EvidenceKeys


def involved_in(met: Collisions, documents: int) -> Numbers:
    """The documents that meet others, ascending."""
    meets = np.zeros(documents, bool)
    meets[met.pairs] = meets[met.crowded] = True
    return np.flatnonzero(meets)


def is_read(method: Method, crowded: int) -> bool:
    """Whether texts are read again: without a measure only the prefix filter of large buckets does."""
    return method.verify != "none" or crowded > 0


@dataclass(frozen=True)
class Compared:
    """Documents that are connected with one another, whose pairs of small buckets were compared before, by position."""

    involved: Numbers  # [v] ascending: those that meet others
    edges: Callable[[], Edges]  # reads those at or above the threshold, which are many and asked for once


@dataclass(frozen=True)
class Case:
    """Documents to decide about, n of them, by position."""

    met: Collisions
    copies: Numbers  # [c] ascending: exact copies, which take part in no pair
    first: Numbers  # [c] the first copy of each in decision order
    rank: Numbers  # [n] numbers that ascend in decision order
    relation: Relation
    texts: ChosenTexts  # of the documents that meet others, ascending
    method: Method
    keys: EvidenceKeys
    ops: Backend
    compared: Compared | None = None  # then `met` has no pairs

    def decide(self, funnel: Funnel, progress: Progress, *, tell_pairs: bool = True) -> Decision:
        """The decision; counts pairs and documents in `funnel`, whose documents are counted.

        Without `tell_pairs` its pairs are in no order and without similarity: there may be many.
        """
        with self.ops.here(), funnel.stage(progress, OF_MEMORY["verify"], len(self.met.pairs)):
            small = self._verified_small(progress)
        with self.ops.here(), funnel.stage(progress, OF_MEMORY["resolve"], len(self.met.crowded)):
            kept, edges = self._resolved(small, progress.advance)
            funnel.candidates = len(self.met.pairs) + len(edges.later) - len(small.later)
            decision = self._put_back(kept, edges, funnel, tell_pairs)
            progress.count(dropped=funnel.dropped)
            return decision

    @cached_property
    def involved(self) -> Numbers:
        """The documents that meet others in decision order; pairs and edges go by places in it."""
        return self._ascending[np.argsort(self.rank[self._ascending], kind="stable")]

    @cached_property
    def _ascending(self) -> Numbers:
        return involved_in(self.met, len(self.rank)) if self.compared is None else self.compared.involved

    @cached_property
    def _shingled(self) -> ShingledTexts:
        places = np.searchsorted(self._ascending, self.involved)
        return ShingledTexts(self.texts, places, self.method, self.keys, self.ops)

    @cached_property
    def _place(self) -> Numbers:
        """int64 [n]: places in decision order of those that have one."""
        place = np.empty(len(self.rank), np.int64)
        place[self.involved] = np.arange(len(self.involved))
        return place

    @cached_property
    def _pairs(self) -> Numbers:
        """The pairs of small buckets as places, the earlier document first."""
        first, second = self._place[self.met.pairs].T
        return np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)

    def _verified_small(self, progress: Progress) -> Edges:
        """The pairs of small buckets at or above the threshold."""
        if self.compared is not None:
            edges = self.compared.edges()
            return Edges(self._place[edges.earlier], self._place[edges.later], edges.similarity)
        return similar_pairs(
            *(self._pairs, self.involved, self.relation, self._shingled, self.method, self.ops), progress.advance
        )

    def _resolved(self, small: Edges, advance: Callable[[int], None]) -> tuple[NDArray[np.bool_], Edges]:
        """Which of the involved are kept, and all verified pairs."""
        count = len(self.involved)
        crowd = np.flatnonzero(np.isin(self.involved, self.met.crowded))
        if len(crowd) == 0:
            return resolve_kept(count, small, None, crowd)
        if self.method.verify == "exact":
            return resolve_kept(count, small, self._join(crowd, advance), crowd)
        # Without an exact measure the filter's frequencies decide which pairs count: they are those of a connected
        # component, whatever else is decided with it.
        label = self._component_of(crowd)
        kept, found = np.ones(count, bool), []
        for component in np.unique(label[crowd]).tolist():
            members = np.flatnonzero(label == component)
            own = _renumbered(small.where(label[small.later] == component), members)
            chosen = crowd[label[crowd] == component]
            join = self._join(chosen, advance)
            stays, edges = resolve_kept(len(members), own, join, np.searchsorted(members, chosen))
            kept[members] = stays
            found.append(Edges(members[edges.earlier], members[edges.later], edges.similarity))
        rest = small.where(~np.isin(label[small.later], label[crowd]))
        stays, edges = resolve_kept(count, rest, None, crowd[:0])
        return kept & stays, distinct_edges([*found, edges])

    def _component_of(self, crowd: Numbers) -> Numbers:
        """int64 [involved]: of documents connected by candidate pairs and large buckets the same number."""
        if self.compared is not None:
            return np.zeros(len(self.involved), np.int64)
        rows = np.searchsorted(self.met.crowded, self.involved[crowd])
        edges = [self._pairs]
        for band in self.met.bucket.T:
            bucket = band[rows]
            members, bucket = crowd[bucket >= 0], bucket[bucket >= 0]
            _, first, which = np.unique(bucket, return_index=True, return_inverse=True)
            edges.append(np.stack([members[first][which], members], axis=1))
        ops = self.ops
        label: Numbers = ops.asnumpy(ops.components(len(self.involved), ops.asarray(np.concatenate(edges))))
        return label

    def _join(self, crowd: Numbers, advance: Callable[[int], None]) -> PrefixJoin:
        method, readable = self.method, self._shingled.renumbered(crowd)
        return PrefixJoin(
            *(
                self.involved[crowd],
                self.met,
                readable,
                readable.sizes(),
                measure_of(method),
                method.threshold,
                self.ops,
            ),
            exact=method.verify == "exact",
            allows=self.relation.allows,
            advance=advance,
        )

    def _put_back(self, kept: NDArray[np.bool_], edges: Edges, funnel: Funnel, tell_pairs: bool) -> Decision:
        """The decision about all documents: those that met nobody stay, each copy follows its first copy."""
        count, ops = len(self.rank), self.ops
        counted = self.copies >= self.relation.protected
        copies, first = self.copies[counted], self.first[counted]
        like, heads_of = ops.asarray(copies), ops.asarray(first)
        place = np.arange(count, dtype=np.int64, like=like)
        target, similarity = place.copy(), np.ones_like(place, np.float64)
        dropped = witnesses(kept, edges) if self.method.resolve == "kept" else self._component_heads(edges)
        later = ops.asarray(self.involved[dropped.later])
        target[later] = ops.asarray(self.involved[dropped.earlier])
        similarity[later] = ops.asarray(dropped.similarity)
        target[like], similarity[like] = target[heads_of], similarity[heads_of]
        of_dropped = int((target[heads_of] != heads_of).sum())
        joined = ops.asarray(copies), heads_of, np.ones_like(similarity[like])
        if self.relation.across:  # a copy is of its first copy's source: it is dropped for what that is dropped for
            stays = target[like] == heads_of
            target[like[stays]] = like[stays]
            joined = like[~stays], target[like[~stays]], similarity[like[~stays]]
        keep = target == place

        pairs = self._all_pairs(edges, *map(ops.asnumpy, joined[:2]))
        funnel.verified, funnel.kept = len(pairs), int(keep.sum())
        funnel.exact_copies, funnel.copies_of_dropped = len(copies), of_dropped
        of_kept = len(copies) - of_dropped
        funnel.copies_left, funnel.copies_of_kept = (of_kept, 0) if self.relation.across else (0, of_kept)
        funnel.similar, funnel.dissimilar = len(edges.later), funnel.candidates - len(edges.later)
        funnel.dropped = count - funnel.kept
        funnel.near_duplicates = funnel.dropped - funnel.copies_of_kept - of_dropped
        alike = np.empty(0, np.float32)
        if tell_pairs:
            pairs, alike = _in_order(pairs, np.concatenate([edges.similarity, ops.asnumpy(joined[2])]))
        found = ops.asarray(pairs)
        cluster = ops.components(count, found)
        return Decision(keep, target, similarity.astype(np.float32), cluster, found, ops.asarray(alike), funnel)

    def _all_pairs(self, edges: Edges, later: Numbers, earlier: Numbers) -> Numbers:
        """Verified pairs and then copies, of positions: int64 [m, 2]."""
        count = len(edges.later)
        pairs = np.empty((count + len(later), 2), np.int64)
        pairs[:count, 0], pairs[count:, 0] = self.involved[edges.earlier], earlier
        pairs[:count, 1], pairs[count:, 1] = self.involved[edges.later], later
        return pairs

    def _component_heads(self, edges: Edges) -> Edges:
        """Every other member of a component with its first document in decision order, and how similar they are."""
        pairs = np.stack([edges.earlier, edges.later], axis=1)
        head = heads(self.ops.asnumpy(self.ops.components(len(self.involved), self.ops.asarray(pairs))))
        later = np.flatnonzero((head != np.arange(len(head))) & (self.involved >= self.relation.protected))
        pairs = np.stack([head[later], later], axis=1)
        if self.method.verify == "none":
            return Edges(head[later], later, np.full(len(later), np.nan))
        texts = self._shingled
        similarity = compare(pairs, texts.sizes(), texts, measure_of(self.method), 0.0, self.ops, lambda done: None)
        return Edges(head[later], later, similarity)


def _in_order(pairs: Numbers, similarity: NDArray[np.float64]) -> tuple[Numbers, NDArray[np.float32]]:
    """Pairs [m, 2], the lesser position first, lexicographic, and how similar they are."""
    pairs = np.stack([np.minimum(*pairs.T), np.maximum(*pairs.T)], axis=1)
    order = np.argsort(packed(*pairs.T), kind="stable")
    return pairs[order], similarity[order].astype(np.float32)


def _renumbered(edges: Edges, members: Numbers) -> Edges:
    """Edges among ascending `members`, by places in it."""
    earlier, later = np.searchsorted(members, edges.earlier), np.searchsorted(members, edges.later)
    return Edges(earlier, later, edges.similarity)
