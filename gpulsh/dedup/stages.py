"""The stages of the main job as functions: sign every document, then decide.

    sign     text -> fingerprints -> signature -> band digests, 128-bit hash of the tokens
    decide   fold exact copies; digests -> buckets -> candidate pairs; texts of those again -> exact similarity;
             resolve; put copies back

Between the two nothing of a document is held but its digests, its hash and how many shingles it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Signed, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.cluster.copies import first_copies
from gpulsh.cluster.resolve import heads, resolve_kept, witnesses
from gpulsh.dedup.decision import Decision
from gpulsh.dedup.funnel import Funnel
from gpulsh.dedup.plan import Plan
from gpulsh.dedup.progress import Progress
from gpulsh.dedup.relation import ALL, Relation
from gpulsh.dedup.shingled import ShingledTexts
from gpulsh.dedup.signed import ArrivingRows, ParticipatingDigests, SignedDocuments
from gpulsh.io.normalize import normalized
from gpulsh.io.source import TextSource
from gpulsh.lsh.collisions import Collisions, collide, packed
from gpulsh.lsh.comparison import Measure, compare, estimated, exact, unmeasured
from gpulsh.lsh.prefix_join import Edges, PrefixJoin
from gpulsh.permutations import coefficients


def sign(source: TextSource, plan: Plan, ops: Backend, progress: Progress, total: int | None = None) -> SignedDocuments:
    """Sign all documents in one pass; `total` is their bytes, where known, for the progress alone."""
    digests, exact = ArrivingRows(np.uint64, plan.banding.bands), ArrivingRows(np.uint64, 2)
    shingles = ArrivingRows(np.int64)
    funnel = Funnel()
    with funnel.stage(progress, "sign", total, "B"):
        for part in sign_batches(source.batches(ops.sizes().batch), plan, ops, funnel, progress):
            digests.append(ops.keep(part.digests))
            exact.append(ops.keep(part.exact))
            shingles.append(ops.keep(part.shingles))
    return SignedDocuments.counted(digests, exact, shingles, source.nulls(), funnel, ops)


def sign_batches(
    batches: Iterable[TextBatch], plan: Plan, ops: Backend, funnel: Funnel, progress: Progress
) -> Iterator[Signed]:
    """The documents of `batches`, signed; counts their bytes."""
    drawn = coefficients(plan.family)

    def prepared() -> Iterator[TextBatch]:
        for batch in batches:
            size = int(batch.offset[-1] - batch.offset[0])
            yield normalized(batch, plan.folding.form)
            funnel.bytes += size
            progress.advance(size)
            progress.count(documents=len(batch))

    with ops.here():
        yield from ops.each(prepared(), lambda lane, batch: lane.sign(batch, plan.shingling, drawn, plan.banding))


def decide(
    signed: SignedDocuments,
    source: TextSource,
    order: NDArray[np.int64] | None,
    plan: Plan,
    ops: Backend,
    progress: Progress,
    relation: Relation = ALL,
) -> Decision:
    """Decide about all documents; `order` int64 [n] are their positions in decision order, None for input order."""
    funnel = signed.funnel
    rank = _rank(order, funnel.documents)
    with ops.here(), funnel.stage(progress, "collide", plan.banding.bands, "bands"):
        filled = np.flatnonzero(signed.filled)
        copies, first = first_copies(signed.exact.whole(ops), filled, rank, ops, relation.source)
        takes_part = signed.filled.copy()
        takes_part[ops.asarray(copies)] = False
        copies, first = copies[copies >= relation.protected], first[copies >= relation.protected]
        funnel.exact_copies = len(copies)
        met = collide(ParticipatingDigests(signed.digests, plan.banding.bands, takes_part, ops), ops, progress.advance)
        funnel.crowded = len(met.crowded)

    meets = np.zeros(funnel.documents, bool)
    meets[met.pairs] = meets[met.crowded] = True
    ascending = np.flatnonzero(meets)
    involved = ascending[np.argsort(rank[ascending], kind="stable")]  # from here on, places in decision order
    measure = _measure(plan)
    with funnel.stage(progress, "read", len(ascending), "documents"):
        # Without a measure only the prefix filter of large buckets reads a text again.
        chosen = source.choose(ascending if plan.verify != "none" or len(met.crowded) else ascending[:0])
        texts = ShingledTexts(chosen, np.searchsorted(ascending, involved), plan, ops)
        progress.count(size=int(chosen.sizes().sum()))
    with ops.here(), funnel.stage(progress, "verify", len(met.pairs), "pairs"):
        small = _verified_small(met, involved, texts, measure, plan, ops, progress, relation)
        funnel.candidates = len(met.pairs)
    with ops.here(), funnel.stage(progress, "resolve", len(met.crowded), "documents"):
        crowd = np.flatnonzero(np.isin(involved, met.crowded))
        join = _join(met, crowd, involved, texts, measure, plan, ops, relation) if len(crowd) else None
        kept, edges = resolve_kept(len(involved), small, join, crowd)
        funnel.candidates += join.compared if join else 0
        decided = _Decided(involved, kept, edges, texts, measure, plan, ops, relation.protected)
        decision = decided.put_back(copies, first, funnel)
        progress.count(dropped=funnel.dropped)
        return decision


def _rank(order: NDArray[np.int64] | None, count: int) -> NDArray[np.int64]:
    rank = np.arange(count, dtype=np.int64)
    if order is not None:
        rank[order] = np.arange(count)
    return rank


def _measure(plan: Plan) -> Measure:
    if plan.verify == "exact":
        return exact
    return estimated(coefficients(plan.family)) if plan.verify == "signature" else unmeasured


def _verified_small(
    met: Collisions,
    involved: NDArray[np.int64],
    texts: ShingledTexts,
    measure: Measure,
    plan: Plan,
    ops: Backend,
    progress: Progress,
    relation: Relation,
) -> Edges:
    """The pairs of small buckets at or above the threshold, in places of `involved`."""
    place = np.empty(int(involved.max(initial=-1)) + 1, np.int64)
    place[involved] = np.arange(len(involved))
    first, second = place[met.pairs].T
    pairs = np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)
    pairs = pairs[relation.allows(involved[pairs[:, 0]], involved[pairs[:, 1]])]
    if plan.verify == "none":
        return Edges(pairs[:, 0], pairs[:, 1], np.full(len(pairs), np.nan))
    threshold = plan.threshold if plan.verify == "exact" else 0.0  # sizes bound the Jaccard, not its estimate
    similarity = compare(pairs, texts.sizes(), texts, measure, threshold, ops, progress.advance)
    return Edges(pairs[:, 0], pairs[:, 1], similarity).where(~(similarity < plan.threshold))


def _join(
    met: Collisions,
    crowd: NDArray[np.int64],
    involved: NDArray[np.int64],
    texts: ShingledTexts,
    measure: Measure,
    plan: Plan,
    ops: Backend,
    relation: Relation,
) -> PrefixJoin:
    readable = texts.renumbered(crowd)
    return PrefixJoin(
        *(involved[crowd], met, readable, readable.sizes(), measure, plan.threshold, ops),
        exact=plan.verify == "exact",
        allows=relation.allows,
    )


@dataclass(frozen=True)
class _Decided:
    """Decisions about the documents that met others, in places of `involved` (decision order)."""

    involved: NDArray[np.int64]
    kept: NDArray[np.bool_]
    edges: Edges
    texts: ShingledTexts
    measure: Measure
    plan: Plan
    ops: Backend
    protected: int  # positions below are never dropped

    def put_back(self, copies: NDArray[np.int64], first: NDArray[np.int64], funnel: Funnel) -> Decision:
        """The decision about all documents: those that met nobody stay, each copy follows its first copy."""
        count, ops = funnel.documents, self.ops
        like = ops.asarray(copies)
        place = np.arange(count, dtype=np.int64, like=like)
        target, similarity = place.copy(), np.ones_like(place, np.float64)
        dropped = witnesses(self.kept, self.edges) if self.plan.resolve == "kept" else self._component_heads()
        later = ops.asarray(self.involved[dropped.later])
        target[later] = ops.asarray(self.involved[dropped.earlier])
        similarity[later] = ops.asarray(dropped.similarity)
        heads = ops.asarray(first)
        target[like], similarity[like] = target[heads], similarity[heads]
        keep = target == place

        earlier = np.concatenate([self.involved[self.edges.earlier], first])
        later = np.concatenate([self.involved[self.edges.later], copies])
        pairs = np.stack([np.minimum(earlier, later), np.maximum(earlier, later)], axis=1)
        pair_similarity = np.concatenate([self.edges.similarity, np.ones(len(copies))])
        order = np.argsort(packed(*pairs.T), kind="stable")
        pairs, pair_similarity = ops.asarray(pairs[order]), ops.asarray(pair_similarity[order].astype(np.float32))
        funnel.verified, funnel.kept = len(pairs), int(keep.sum())
        funnel.dropped = count - funnel.kept
        cluster = ops.components(count, pairs)
        return Decision(keep, target, similarity.astype(np.float32), cluster, pairs, pair_similarity, funnel)

    def _component_heads(self) -> Edges:
        """Every other member of a component with its first document in decision order, and how similar they are."""
        pairs = np.stack([self.edges.earlier, self.edges.later], axis=1)
        head = heads(self.ops.asnumpy(self.ops.components(len(self.involved), self.ops.asarray(pairs))))
        later = np.flatnonzero((head != np.arange(len(head))) & (self.involved >= self.protected))
        pairs = np.stack([head[later], later], axis=1)
        if self.plan.verify == "none":
            return Edges(head[later], later, np.full(len(later), np.nan))
        similarity = compare(pairs, self.texts.sizes(), self.texts, self.measure, 0.0, self.ops, lambda done: None)
        return Edges(head[later], later, similarity)
