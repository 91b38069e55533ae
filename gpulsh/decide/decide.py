"""Decides about documents whose shared buckets are known: resolves their `Meeting`, then puts exact copies back.

The documents may be all of a run, or a group that shares no bucket and no copy with other documents. The decision about
a group is the same as in the whole run. All is array code, in the memory of the backend: NumPy's or CuPy's arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.protocol import Backend
from gpulsh.cached import cached_value
from gpulsh.decide.counts.counts import Sightings
from gpulsh.decide.counts.retention import NO_POLICIES, Retention
from gpulsh.decide.decision import Decision
from gpulsh.decide.edges import DropRules, Edges, PairSampler
from gpulsh.decide.fingerprint_source import ShingledTexts
from gpulsh.decide.meeting import Meeting, Resolved
from gpulsh.io.rows import ChosenTexts
from gpulsh.lsh.collisions import Collisions
from gpulsh.lsh.pairs import pack_pairs, unpack_pairs
from gpulsh.method import Method
from gpulsh.secret import EvidenceKeys
from gpulsh.stats.stages import MEMORY_STAGES, Funnel, Progress


def documents_in_buckets(met: Collisions, documents: int, ops: Backend) -> Array:
    """The documents that share a bucket with others, ascending."""
    meets = np.zeros(documents, bool, like=met.pairs)
    meets[met.pairs if met.small is None else met.small.ids] = meets[ops.asarray(met.in_large)] = True
    return np.flatnonzero(meets)


def reads_texts(method: Method, in_large: int) -> bool:
    """Whether the decision reads texts again; without a measure, only the prefix filter of large buckets does."""
    return method.verify != "none" or method.also is not None or in_large > 0


@dataclass(frozen=True)
class ComparedComponent:
    """One connected component, by position, whose pairs of small buckets were compared before."""

    involved: Array  # int64 [v] ascending: documents that share a bucket with others
    edges: Callable[[], Edges]  # reads the pairs at or above the threshold, which are many; called once


@dataclass(frozen=True)
class UndecidedDocuments:
    """n documents to decide about, by position."""

    documents: int
    collisions: Collisions
    copies: Array  # int64 [c] ascending: exact copies, which are in no pair
    first: Array  # int64 [c] the first copy of each in decision order
    rank: Array | None  # int64 [n] numbers that ascend in decision order; None: positions do
    rules: DropRules
    texts: ChosenTexts  # of the documents that share a bucket with others, ascending
    method: Method
    keys: EvidenceKeys
    ops: Backend
    compared: ComparedComponent | None = None  # then `collisions` has no pairs
    sampler: PairSampler | None = None  # samples the compared pairs
    twins: tuple[Array, Array] | None = None  # int64 [t] documents of `first` that are copies, too; their first copies
    retention: Retention = NO_POLICIES  # applied to the decision
    sightings: Sightings | None = None  # of all documents, for `retention`

    def decide(self, funnel: Funnel, progress: Progress, *, with_pairs: bool = True) -> Decision:
        """The decision; adds the counts of pairs and documents to `funnel`, which has counted the documents.

        Without `with_pairs`, its pairs are a few that connect the same documents, and have no similarity.
        """
        met, candidates, found = self.collisions, 0, list[Edges]()
        total = len(met.pairs) if met.small is None else None
        with self.ops.use_device(), funnel.stage(progress, MEMORY_STAGES["verify"], total):
            for pairs in met.pieces() if self.compared is None else ():
                found.append(self.meeting.similar_pairs(progress.advance, self.sampler, pairs))
                candidates += len(pairs)
            small = self.compared.edges().renumber(self.meeting.places) if self.compared else Edges.concat(found)
        with self.ops.use_device(), funnel.stage(progress, MEMORY_STAGES["resolve"], len(self.collisions.in_large)):
            resolved = self.meeting.resolve(small, progress.advance, whole=with_pairs)
            funnel.candidates = candidates + resolved.pairs - len(small.later)
            decision = self._decide_all(resolved, funnel, with_pairs)
            progress.count(dropped=funnel.dropped)
            return decision

    @cached_value
    def meeting(self) -> Meeting:
        """The documents that share a bucket with others."""
        compared, ops = self.compared, self.ops
        numbers = documents_in_buckets(self.collisions, self.documents, ops) if compared is None else compared.involved
        order = np.arange(len(numbers), like=numbers)
        if self.rank is not None:
            order = np.argsort(self.rank[numbers], kind="stable")
            numbers = numbers[order]
        texts = ShingledTexts(order, ops, self.texts, self.method, self.keys)
        return Meeting(self.collisions, numbers, self.rules, texts, self.method, ops, is_connected=compared is not None)

    def _decide_all(self, found: Resolved, funnel: Funnel, with_pairs: bool) -> Decision:
        """The decision about all documents: each copy follows its first copy; documents without a bucket stay."""
        count, numbers, edges, ops = self.documents, self.meeting.numbers, found.edges, self.ops
        counted = self.rules.can_be_dropped(self.copies)
        copies, first = self.copies[counted], self.first[counted]
        place = np.arange(count, dtype=np.int64, like=copies)
        target, similarity = place.copy(), np.ones_like(place, np.float64)
        witnesses = self.meeting.find_witnesses(found)
        later = numbers[witnesses.later]
        target[later], similarity[later] = numbers[witnesses.earlier], witnesses.similarity
        target[copies], similarity[copies] = target[first], similarity[first]
        joined = Edges(first, copies, np.ones_like(similarity[copies]))
        if self.rules.across:  # both are of one source: a copy can only have its first copy's witness
            stays = target[copies] == first
            target[copies[stays]] = copies[stays]
            gone = copies[~stays]
            joined = Edges(target[gone], gone, similarity[gone])
        funnel.verified = found.pairs + len(joined.later)
        if with_pairs:
            joined = Edges.concat([edges.renumber(numbers), joined])
            both = pack_pairs(np.minimum(joined.earlier, joined.later), np.maximum(joined.earlier, joined.later))
            order = np.argsort(both, kind="stable")
            how_similar = joined.similarity[order]
            del joined  # pairs may be many, so that each array matters
            both = both[order]
            del order
            pairs = unpack_pairs(both)
        else:
            pairs = np.concatenate([numbers[found.connecting], np.stack([joined.earlier, joined.later], axis=1)])
            how_similar = similarity[:0]
            del joined
        cluster, keep = ops.components(count, pairs), target == place
        if self.retention != NO_POLICIES:
            rank, fixed = place if self.rank is None else self.rank, target < self.rules.protected
            fixed[numbers[edges.later[numbers[edges.earlier] < self.rules.protected]]] = True
            fixed[copies] = fixed[first]
            witness, component, order, fixed = map(ops.asnumpy, (target, cluster, rank, fixed))
            applied = self.retention.apply(witness, component, order, fixed, self.sightings)
            target, keep = map(ops.asarray, applied)
        dropped, exact_copy = target != place, np.zeros_like(keep)
        exact_copy[self._count_copies(target, funnel)] = True
        similarity[exact_copy | ~dropped] = 1.0  # also where nothing is measured

        funnel.dropped, funnel.kept = int(dropped.sum()), int(keep.sum())
        funnel.similar, funnel.dissimilar = found.pairs, funnel.candidates - found.pairs
        funnel.few_sources = count - funnel.dropped - funnel.kept
        funnel.near_duplicates = funnel.dropped - funnel.copies_of_kept - funnel.copies_of_dropped
        measured = similarity.astype(np.float32), cluster, pairs, how_similar.astype(np.float32)
        return Decision(keep, target, *measured, exact_copy, funnel)

    def _count_copies(self, target: Array, funnel: Funnel) -> Array:
        """Count the exact copies by their witness, `target`; returns the copies whose witness has the same words."""
        words, copies = np.arange(len(target), like=target), self.copies  # the first document with the same words
        if self.twins is not None:
            again, before = self.twins
            words[again], copies = before, np.concatenate([copies, again])
        words[self.copies] = words[self.first]
        copies = copies[self.rules.can_be_dropped(copies)]
        stays = target[copies] == copies
        is_alike = words[target[copies]] == words[copies]
        alike = copies[is_alike & ~stays]
        funnel.exact_copies, funnel.copies_left = len(copies), int(stays.sum())
        funnel.copies_of_kept, funnel.copies_of_dropped = len(alike), int((~is_alike).sum())
        return alike
