"""The main job over documents in memory, as two functions: sign every document, then decide.

    sign     text -> fingerprints -> signature -> band digests, 128-bit hash of the tokens
    decide   fold exact copies; digests -> buckets -> candidate pairs; then as `judgement` has it

Between the two nothing of a document is held but its digests, its hash and how many shingles it has.
"""

from __future__ import annotations

import numpy as np

from gpulsh.account.funnel import Funnel
from gpulsh.account.progress import Progress
from gpulsh.account.stages import OF_MEMORY
from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import NO_DIGEST, Backend
from gpulsh.decide.compare.containment_join import containing_pairs
from gpulsh.decide.compare.shingled_texts import ShingledTexts
from gpulsh.decide.copies import first_copies
from gpulsh.decide.decision import Decision
from gpulsh.decide.judgement import Case, involved_in, is_read
from gpulsh.decide.relation import ALL
from gpulsh.io.source import TextSource, TextsReadAgain
from gpulsh.lsh.collisions import Collisions, Crowd, collide
from gpulsh.lsh.signing import sign_batches, sign_by_method
from gpulsh.method import Method
from gpulsh.run.signed_documents import ArrivingRows, DigestsByBand, SignedDocuments
from gpulsh.secret import EvidenceKeys


def sign(
    source: TextSource, method: Method, keys: EvidenceKeys, ops: Backend, progress: Progress, total: int | None = None
) -> SignedDocuments:
    """Sign all documents in one pass; `total` is their bytes, where known, for the progress alone."""
    digests, exact = ArrivingRows(np.uint64, method.banding.bands), ArrivingRows(np.uint64, 2)
    shingles = ArrivingRows(np.int64)
    funnel = Funnel()
    with funnel.stage(progress, OF_MEMORY["sign"], total):
        batches = source.batches(ops.sizes().batch)
        for part in sign_batches(batches, method, keys, ops, funnel, progress, sign_by_method):
            digests.append(ops.keep(part.digests))
            exact.append(ops.keep(part.exact))
            shingles.append(ops.keep(part.shingles))
    with ops.here():
        counts = shingles.whole(ops)
        filled = counts > 0
        funnel.documents, funnel.nulls, funnel.shingles = len(counts), source.nulls(), int(counts.sum())
        funnel.empty = len(counts) - int(filled.sum())
        funnel.wordless = funnel.empty - funnel.nulls
    return SignedDocuments(digests, exact, filled, funnel)


def decide(
    signed: SignedDocuments,
    source: TextsReadAgain,
    order: Numbers | None,
    method: Method,
    keys: EvidenceKeys,
    ops: Backend,
    progress: Progress,
) -> Decision:
    """Decide about all documents; `order` int64 [n] are their positions in decision order, None for input order.

    The digests of `signed` are used up.
    """
    funnel = signed.funnel
    rank = _rank(order, funnel.documents)
    with ops.here(), funnel.stage(progress, OF_MEMORY["collide"], method.banding.bands):
        filled = np.flatnonzero(signed.filled)
        copies, first = first_copies(signed.exact.whole(ops), filled, rank.__getitem__, ops)
        if method.measure == "containment":
            met = _containing(np.setdiff1d(ops.asnumpy(filled), copies, assume_unique=True), rank, source, method, ops)
        else:
            signed.digests.fill(copies, np.uint64(NO_DIGEST), ops)
            digests = DigestsByBand(signed.digests, method.banding.bands, funnel.documents, ops)
            met = Collisions.of(*collide(digests, ops, progress.advance), method.banding.bands)
        signed.digests.let_go()
        funnel.crowded = len(met.crowded)
    involved = involved_in(met, funnel.documents)
    with funnel.stage(progress, OF_MEMORY["read"], len(involved)):
        chosen = source.choose(involved if is_read(method, len(met.crowded)) else involved[:0])
        progress.count(size=int(chosen.sizes().sum()))
    return Case(met, copies, first, rank, ALL, chosen, method, keys, ops).decide(funnel, progress)


def _containing(documents: Numbers, rank: Numbers, source: TextsReadAgain, method: Method, ops: Backend) -> Collisions:
    """Which of `documents` [p], ascending, may contain which: no sketch finds them, but a join over their shingles."""
    order = np.argsort(rank[documents], kind="stable")
    texts = ShingledTexts(order, ops, source.choose(documents), method, None)  # what is only proposed proves nothing
    pairs = np.sort(documents[order][containing_pairs(texts, method.threshold, ops)], axis=1)
    none = Crowd(*(np.empty(0, np.int64) for _ in range(3)))
    return Collisions.of(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], none, method.banding.bands)


def _rank(order: Numbers | None, count: int) -> Numbers:
    rank = np.arange(count, dtype=np.int64)
    if order is not None:
        rank[order] = np.arange(count)
    return rank
