"""Decides about documents whose shared buckets are known: resolves their `Meeting`, then puts exact copies back.

The documents may be all of a run, or a group that shares no bucket and no copy with other documents. The decision about
a group is the same as in the whole run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.decision import Decision
from gpulsh.decide.meeting import Meeting
from gpulsh.decide.readable import ShingledTexts
from gpulsh.decide.relation import Edges, Relation
from gpulsh.decide.sample import Draw
from gpulsh.io.rows import ChosenTexts
from gpulsh.lsh.collisions import Collisions
from gpulsh.lsh.pairs import packed, unpacked
from gpulsh.method import Method
from gpulsh.secret import EvidenceKeys
from gpulsh.stats.stages import OF_MEMORY, Funnel, Progress

NO_TWINS = (np.empty(0, np.int64), np.empty(0, np.int64))


def involved_in(met: Collisions, documents: int) -> Numbers:
    """The documents that share a bucket with others, ascending."""
    meets = np.zeros(documents, bool)
    meets[met.pairs] = meets[met.in_large] = True
    return np.flatnonzero(meets)


def is_read(method: Method, in_large: int) -> bool:
    """Whether the decision reads texts again; without a measure, only the prefix filter of large buckets does."""
    return method.verify != "none" or method.also is not None or in_large > 0


@dataclass(frozen=True)
class Compared:
    """One connected component, by position, whose pairs of small buckets were compared before."""

    involved: Numbers  # [v] ascending: documents that share a bucket with others
    edges: Callable[[], Edges]  # reads the pairs at or above the threshold, which are many; called once


@dataclass(frozen=True)
class Undecided:
    """n documents to decide about, by position."""

    met: Collisions
    copies: Numbers  # [c] ascending: exact copies, which are in no pair
    first: Numbers  # [c] the first copy of each in decision order
    rank: Numbers  # [n] numbers that ascend in decision order
    relation: Relation
    texts: ChosenTexts  # of the documents that share a bucket with others, ascending
    method: Method
    keys: EvidenceKeys
    ops: Backend
    compared: Compared | None = None  # then `met` has no pairs
    draw: Draw | None = None  # samples the compared pairs
    twins: tuple[Numbers, Numbers] = NO_TWINS  # [t] documents of `first` that are copies, too; [t] their first copies

    def decide(self, funnel: Funnel, progress: Progress, *, ordered: bool = True) -> Decision:
        """The decision; adds the counts of pairs and documents to `funnel`, which has counted the documents.

        Without `ordered`, its pairs, which may be many, have no order and no similarity.
        """
        with self.ops.here(), funnel.stage(progress, OF_MEMORY["verify"], len(self.met.pairs)):
            small = self._small(progress)
        with self.ops.here(), funnel.stage(progress, OF_MEMORY["resolve"], len(self.met.in_large)):
            kept, edges = self.meeting.resolve(small, progress.advance)
            funnel.candidates = len(self.met.pairs) + len(edges.later) - len(small.later)
            decision = self._put_back(kept, edges, funnel, ordered)
            progress.count(dropped=funnel.dropped)
            return decision

    @cached_property
    def all_copies(self) -> Numbers:
        """All exact copies that may be dropped."""
        copies = np.concatenate([self.copies, self.twins[0]])
        return copies[self.relation.can_be_dropped(copies)]

    @cached_property
    def meeting(self) -> Meeting:
        """The documents that share a bucket with others."""
        ascending = involved_in(self.met, len(self.rank)) if self.compared is None else self.compared.involved
        order = np.argsort(self.rank[ascending], kind="stable")
        texts = ShingledTexts(order, self.ops, self.texts, self.method, self.keys)
        parts = self.met, ascending[order], self.relation, texts, self.method, self.ops
        return Meeting(*parts, connected=self.compared is not None)

    def _small(self, progress: Progress) -> Edges:
        """The pairs of small buckets at or above the threshold."""
        if self.compared is None:
            return self.meeting.similar(progress.advance, self.draw)
        return self.compared.edges().named(self.meeting.places)

    def _put_back(self, kept: NDArray[np.bool_], edges: Edges, funnel: Funnel, ordered: bool) -> Decision:
        """The decision about all documents: each copy follows its first copy; documents without a bucket stay."""
        count, ops, numbers = len(self.rank), self.ops, self.meeting.numbers
        counted = self.relation.can_be_dropped(self.copies)
        copies, first = self.copies[counted], self.first[counted]
        like, first_of = ops.asarray(copies), ops.asarray(first)
        place = np.arange(count, dtype=np.int64, like=like)
        target, similarity = place.copy(), np.ones_like(place, np.float64)
        dropped = self.meeting.dropped(kept, edges)
        later = ops.asarray(numbers[dropped.later])
        target[later] = ops.asarray(numbers[dropped.earlier])
        similarity[later] = ops.asarray(dropped.similarity)
        target[like], similarity[like] = target[first_of], similarity[first_of]
        joined = like, first_of, np.ones_like(similarity[like])
        if self.relation.across:  # both are of one source: a copy can only have its first copy's witness
            stays = target[like] == first_of
            target[like[stays]] = like[stays]
            joined = like[~stays], target[like[~stays]], similarity[like[~stays]]
        keep = target == place
        alike = self._count_copies(ops.asnumpy(target), funnel)
        exact_copy = np.zeros_like(keep)
        exact_copy[ops.asarray(alike)] = True
        similarity[exact_copy] = 1.0  # also where nothing is measured

        pairs = self._all_pairs(edges, *map(ops.asnumpy, joined[:2]))
        funnel.verified, funnel.kept = len(pairs), int(keep.sum())
        funnel.similar, funnel.dissimilar = len(edges.later), funnel.candidates - len(edges.later)
        funnel.dropped = count - funnel.kept
        funnel.near_duplicates = funnel.dropped - funnel.copies_of_kept - funnel.copies_of_dropped
        how_similar = np.empty(0, np.float32)
        if ordered:
            pairs, how_similar = _in_order(pairs, np.concatenate([edges.similarity, ops.asnumpy(joined[2])]))
        found = ops.asarray(pairs)
        cluster = ops.components(count, found)
        measured = similarity.astype(np.float32), cluster, found, ops.asarray(how_similar)
        return Decision(keep, target, *measured, exact_copy, funnel)

    def _count_copies(self, target: Numbers, funnel: Funnel) -> Numbers:
        """Count the exact copies by their witness, `target`; returns the copies whose witness has the same words."""
        again, before = self.twins
        words = np.arange(len(target))  # the first document with the same words
        words[again] = before
        words[self.copies] = words[self.first]
        copies = self.all_copies
        stays = target[copies] == copies
        is_alike = words[target[copies]] == words[copies]
        alike: Numbers = copies[is_alike & ~stays]
        funnel.exact_copies, funnel.copies_left = len(copies), int(stays.sum())
        funnel.copies_of_kept, funnel.copies_of_dropped = len(alike), int((~is_alike).sum())
        return alike

    def _all_pairs(self, edges: Edges, later: Numbers, earlier: Numbers) -> Numbers:
        """int64 [m, 2]: the verified pairs, then the copies, by position."""
        count, numbers = len(edges.later), self.meeting.numbers
        pairs = np.empty((count + len(later), 2), np.int64)
        pairs[:count, 0], pairs[count:, 0] = numbers[edges.earlier], earlier
        pairs[:count, 1], pairs[count:, 1] = numbers[edges.later], later
        return pairs


def _in_order(pairs: Numbers, similarity: NDArray[np.float64]) -> tuple[Numbers, NDArray[np.float32]]:
    """Pairs [m, 2], the lower position first, lexicographic, and their similarities."""
    both = packed(np.minimum(*pairs.T), np.maximum(*pairs.T))
    order = np.argsort(both, kind="stable")
    return unpacked(both[order]), similarity[order].astype(np.float32)
