"""The stages of the main job as functions: sign every document, then decide.

    sign     text -> fingerprints -> signature -> band digests, 128-bit hash of the tokens
    decide   fold exact copies; digests -> buckets -> candidate pairs; texts of those again -> exact similarity;
             resolve; put copies back

Between the two nothing of a document is held but its digests, its hash and how many shingles it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.protocol import Backend
from gpulsh.cluster.copies import first_copies
from gpulsh.cluster.resolve import heads, resolve_kept, witnesses
from gpulsh.dedup.decision import Decision
from gpulsh.dedup.funnel import Funnel
from gpulsh.dedup.plan import Plan
from gpulsh.dedup.progress import Progress
from gpulsh.dedup.shingled import ShingledTexts
from gpulsh.io.normalize import normalized
from gpulsh.io.source import TextSource
from gpulsh.lsh.collisions import Collisions, collide, packed
from gpulsh.lsh.comparison import Measure, compare, estimated, exact, unmeasured
from gpulsh.lsh.prefix_join import Edges, PrefixJoin
from gpulsh.permutations import coefficients
from gpulsh.text.shingling import to_device

SIGN_BATCH_BYTES = 16 << 20


@dataclass(frozen=True)
class SignedDocuments:
    """What stays in memory of every document, and the counts so far."""

    digests: NDArray[np.uint64]  # [n, bands]
    exact: NDArray[np.uint64]  # [n, 2]
    shingles: NDArray[np.int64]  # [n]
    funnel: Funnel


def sign(source: TextSource, plan: Plan, ops: Backend, progress: Progress, total: int | None = None) -> SignedDocuments:
    """Sign all documents in one pass; `total` is their bytes, where known, for the progress alone."""
    funnel = Funnel()
    drawn = coefficients(plan.family)
    digests = _Growing(np.uint64, plan.banding.bands)
    exact_hashes = _Growing(np.uint64, 2)
    shingles = _Growing(np.int64)
    with funnel.stage(progress, "sign", total, "B"):
        for batch in source.batches(SIGN_BATCH_BYTES):
            size = int(batch.offset[-1] - batch.offset[0])
            if plan.folding.form:
                batch = normalized(batch, plan.folding.form)
            signed = ops.sign(to_device(batch, ops), plan.shingling, drawn, plan.banding)
            digests.append(ops.asnumpy(signed.digests))
            exact_hashes.append(ops.asnumpy(signed.exact))
            shingles.append(ops.asnumpy(signed.shingles))
            funnel.bytes += size
            progress.advance(size)
    signed_documents = SignedDocuments(digests.array, exact_hashes.array, shingles.array, funnel)
    funnel.documents = len(signed_documents.shingles)
    funnel.nulls = source.nulls()
    funnel.empty = int((signed_documents.shingles == 0).sum())
    funnel.shingles = int(signed_documents.shingles.sum())
    return signed_documents


class _Growing:
    """Rows that follow one another in one block, which the system moves by its page table as it grows."""

    def __init__(self, dtype: type[np.generic], *columns: int) -> None:
        self.array = np.empty((0, *columns), dtype)

    def append(self, rows: NDArray[Any]) -> None:
        start = len(self.array)
        self.array.resize((start + len(rows), *self.array.shape[1:]), refcheck=False)
        self.array[start:] = rows


def decide(
    signed: SignedDocuments,
    source: TextSource,
    order: NDArray[np.int64] | None,
    plan: Plan,
    ops: Backend,
    progress: Progress,
) -> Decision:
    """Decide about all documents; `order` int64 [n] are their positions in decision order, None for input order."""
    funnel = signed.funnel
    rank = _rank(order, funnel.documents)
    filled = np.flatnonzero(signed.shingles > 0)
    with funnel.stage(progress, "collide", plan.banding.bands, "bands"):
        first = first_copies(signed.exact, filled, rank, ops)
        distinct = filled[first[filled] == filled]
        funnel.exact_copies = len(filled) - len(distinct)
        met = collide(signed.digests, distinct, ops, progress.advance)
        funnel.crowded = len(met.crowded)

    takes_part = np.zeros(funnel.documents, bool)
    takes_part[met.pairs] = takes_part[met.crowded] = True
    ascending = np.flatnonzero(takes_part)
    involved = ascending[np.argsort(rank[ascending], kind="stable")]  # from here on, places in decision order
    measure = _measure(plan, ops)
    with funnel.stage(progress, "read", None, "documents"):
        # Without a measure only the prefix filter of large buckets reads a text again.
        chosen = source.choose(ascending if plan.verify != "none" or len(met.crowded) else ascending[:0])
        texts = ShingledTexts(chosen, np.searchsorted(ascending, involved), plan, ops)
    with funnel.stage(progress, "verify", len(met.pairs), "pairs"):
        small = _verified_small(met, involved, texts, measure, plan, ops, progress)
        funnel.candidates = len(met.pairs)
    with funnel.stage(progress, "resolve", len(met.crowded), "documents"):
        crowd = np.flatnonzero(np.isin(involved, met.crowded))
        join = _join(met, crowd, involved, texts, measure, plan, ops) if len(crowd) else None
        kept, edges = resolve_kept(len(involved), small, join, crowd)
        funnel.candidates += join.compared if join else 0
        decided = _Decided(involved, kept, edges, texts, measure, plan, ops)
        return decided.put_back(first, filled, funnel)


def _rank(order: NDArray[np.int64] | None, count: int) -> NDArray[np.int64]:
    rank = np.arange(count, dtype=np.int64)
    if order is not None:
        rank[order] = np.arange(count)
    return rank


def _measure(plan: Plan, ops: Backend) -> Measure:
    if plan.verify == "exact":
        return exact(ops)
    return estimated(ops, coefficients(plan.family)) if plan.verify == "signature" else unmeasured()


def _verified_small(
    met: Collisions,
    involved: NDArray[np.int64],
    texts: ShingledTexts,
    measure: Measure,
    plan: Plan,
    ops: Backend,
    progress: Progress,
) -> Edges:
    """The pairs of small buckets at or above the threshold, in places of `involved`."""
    place = np.empty(int(involved.max(initial=-1)) + 1, np.int64)
    place[involved] = np.arange(len(involved))
    first, second = place[met.pairs].T
    pairs = np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)
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
) -> PrefixJoin:
    readable = texts.renumbered(crowd)
    return PrefixJoin(
        involved[crowd], met, readable, readable.sizes(), measure, plan.threshold, ops, exact=plan.verify == "exact"
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

    def put_back(self, first: NDArray[np.int64], filled: NDArray[np.int64], funnel: Funnel) -> Decision:
        """The decision about all documents: those that met nobody stay, each copy follows its first copy."""
        count = funnel.documents
        target, similarity = np.arange(count, dtype=np.int64), np.ones(count)
        dropped = witnesses(self.kept, self.edges) if self.plan.resolve == "kept" else self._component_heads()
        target[self.involved[dropped.later]] = self.involved[dropped.earlier]
        similarity[self.involved[dropped.later]] = dropped.similarity
        copies = filled[first[filled] != filled]
        target[copies], similarity[copies] = target[first[copies]], similarity[first[copies]]
        keep = target == np.arange(count)

        earlier = np.concatenate([self.involved[self.edges.earlier], first[copies]])
        later = np.concatenate([self.involved[self.edges.later], copies])
        pairs = np.stack([np.minimum(earlier, later), np.maximum(earlier, later)], axis=1)
        pair_similarity = np.concatenate([self.edges.similarity, np.ones(len(copies))])
        order = np.argsort(packed(*pairs.T), kind="stable")
        pairs, pair_similarity = pairs[order], pair_similarity[order]
        cluster = self.ops.asnumpy(self.ops.components(count, self.ops.asarray(pairs)))
        funnel.verified, funnel.kept = len(pairs), int(keep.sum())
        funnel.dropped = count - funnel.kept
        return Decision(
            keep, target, similarity.astype(np.float32), cluster, pairs, pair_similarity.astype(np.float32), funnel
        )

    def _component_heads(self) -> Edges:
        """Every other member of a component with its first document in decision order, and how similar they are."""
        pairs = np.stack([self.edges.earlier, self.edges.later], axis=1)
        head = heads(self.ops.asnumpy(self.ops.components(len(self.involved), self.ops.asarray(pairs))))
        later = np.flatnonzero(head != np.arange(len(head)))
        pairs = np.stack([head[later], later], axis=1)
        if self.plan.verify == "none":
            return Edges(head[later], later, np.full(len(later), np.nan))
        similarity = compare(pairs, self.texts.sizes(), self.texts, self.measure, 0.0, self.ops, lambda done: None)
        return Edges(head[later], later, similarity)
