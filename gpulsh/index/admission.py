"""Decide about a batch of new documents: hold all, admit those that duplicate none, or find similar held ones.

`admit` decides as `deduplicate` does, with the held documents first. A document is dropped exactly when it is an exact
copy of an earlier one, or when a held one from a shared bucket is at least `threshold` similar. Its witness is
the most similar one, ties to the earlier. By containment, the witness contains that much of it. So the result does not
depend on how a sequence of documents is cut into batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers, Signed, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.decide.copies import first_copies
from gpulsh.decide.relation import Edges, Relation
from gpulsh.decide.resolve import witnesses
from gpulsh.index.candidates import Candidates, possible_containers, sharing_buckets
from gpulsh.index.evidence.texts import fingerprint_sets
from gpulsh.index.segment import Documents, Segment, make_segment
from gpulsh.index.snapshot import ABSENT, Snapshot
from gpulsh.method import Method
from gpulsh.ragged import chosen_rows, offsets, within_runs
from gpulsh.secret import EvidenceKeys
from gpulsh.stats.stages import Funnel


@dataclass(frozen=True)
class SignedBatch:
    """Documents of a batch with their hashes in host memory."""

    batch: TextBatch
    keys: EvidenceKeys
    exact: NDArray[np.uint64]  # [n, 2]
    digests: NDArray[np.uint64]  # [n, bands]
    with_token: NDArray[np.bool_]  # [n]
    shingles: int  # of all of them

    @classmethod
    def of(cls, batch: TextBatch, keys: EvidenceKeys, signed: Signed, ops: Backend) -> SignedBatch:
        """A batch and its hashes."""
        shingles = ops.asnumpy(signed.shingles)
        hashes = ops.asnumpy(signed.exact), ops.asnumpy(signed.digests)
        return cls(batch, keys, *hashes, shingles > 0, int(shingles.sum()))

    def __len__(self) -> int:
        return len(self.exact)


def hold_all(signed: SignedBatch, start: int, method: Method, ops: Backend) -> Segment:
    """A segment of all documents, numbered from `start`, each held."""
    rows = np.flatnonzero(signed.with_token)
    sets = fingerprint_sets(signed.batch, rows, method.reading, signed.keys, ops)
    numbers = np.arange(start, start + len(signed))
    return _segment(signed, method, numbers, numbers, np.ones(len(numbers)), rows, sets)


def admit(signed: SignedBatch, start: int, snapshot: Snapshot, method: Method, ops: Backend, tally: Funnel) -> Segment:
    """A segment of all documents, numbered from `start`. It holds those without an earlier witness; `tally` counts."""
    count = len(signed)
    numbers = np.arange(start, start + count)
    witness, similarity = numbers.copy(), np.ones(count)
    with_token = np.flatnonzero(signed.with_token)
    known, how_similar, is_own = snapshot.first_copies(signed.exact[with_token])
    is_known = known != ABSENT
    copies_of_held = with_token[is_known]
    witness[copies_of_held], similarity[copies_of_held] = known[is_known], how_similar[is_known]

    rest = with_token[~is_known]
    with ops.here():
        copies, first = map(ops.asnumpy, first_copies(ops.asarray(signed.exact), ops.asarray(rest), None, ops))
    taking_part = np.setdiff1d(rest, copies, assume_unique=True) if len(copies) else rest
    sets = fingerprint_sets(signed.batch, taking_part, method.reading, signed.keys, ops)
    with ops.here():
        found = _candidates(signed, taking_part, sets, snapshot, method, ops)
        base = len(found.held)  # held documents, which are never dropped
        meeting = found.compared_by(sets, snapshot, Relation(protected=base), method, ops)
        small = meeting.similar()
        parts, verified = list[Edges](), 0
        for kept, edges in meeting.by_block(small):
            parts.append(witnesses(kept, edges))
            verified += len(edges.later)
        dropped = Edges.joined(parts).moved(ops.asnumpy)
    later = taking_part[dropped.later - base]
    witness[later] = np.concatenate([found.held, numbers[taking_part]])[dropped.earlier]
    similarity[later] = dropped.similarity
    witness[copies], similarity[copies] = witness[first], similarity[first]

    tally.documents += count
    tally.empty += count - len(with_token)
    tally.shingles += signed.shingles
    of_kept = int(is_own[is_known].sum()) + int((witness[first] == numbers[first]).sum())
    all_copies = len(copies) + len(copies_of_held)
    tally.exact_copies += all_copies
    tally.copies_of_kept += of_kept
    tally.copies_of_dropped += all_copies - of_kept
    tally.near_duplicates += int(np.count_nonzero(witness[taking_part] != numbers[taking_part]))
    tally.similar += verified
    tally.dissimilar += len(found.collisions.pairs) - len(small.later)
    tally.candidates += len(found.collisions.pairs) + verified - len(small.later)
    tally.verified += verified + all_copies

    stays = witness[taking_part] == numbers[taking_part]
    held = chosen_rows(sets, np.flatnonzero(stays))
    return _segment(signed, method, numbers, witness, similarity, taking_part[stays], held)


def similar(
    signed: SignedBatch, snapshot: Snapshot, method: Method, ops: Backend, top: int | None = None
) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    """Ascending rows [m] of the batch, numbers [m] of held documents and similarities, highest first for each row.

    There are at most `top` of a row, ties to the earlier.
    """
    rows = np.flatnonzero(signed.with_token)
    sets = fingerprint_sets(signed.batch, rows, method.reading, signed.keys, ops)
    with ops.here():
        found = _candidates(signed, rows, sets, snapshot, method, ops, one_another=False)
        base = len(found.held)
        meeting = found.compared_by(sets, snapshot, Relation(protected=base, asking=base), method, ops)
        parts = [Edges(rows[:0], rows[:0], np.empty(0))]
        for _, block in meeting.by_block(meeting.similar()):
            edges = block.moved(ops.asnumpy)
            edges = edges.where(np.lexsort((edges.earlier, -edges.similarity, edges.later)))
            if top is not None:
                edges = edges.where(within_runs(np.bincount(edges.later)) < top)
            parts.append(edges)
    edges = Edges.joined(parts)
    return rows[edges.later - base], found.held[edges.earlier], edges.similarity


def _candidates(
    signed: SignedBatch,
    rows: Numbers,
    sets: Fingerprints,
    snapshot: Snapshot,
    method: Method,
    ops: Backend,
    *,
    one_another: bool = True,
) -> Candidates:
    """The candidates of the documents `rows` [m] with fingerprints `sets` [m]; `one_another` adds pairs of these."""
    if method.measure == "containment":
        return possible_containers(sets, snapshot, method.threshold, ops, one_another=one_another)
    return sharing_buckets(signed.digests[rows], snapshot, ops, one_another=one_another)


def _segment(
    signed: SignedBatch,
    method: Method,
    numbers: Numbers,
    witness: Numbers,
    similarity: NDArray[np.float64],
    rows: Numbers,
    sets: Fingerprints,
) -> Segment:
    """A segment that holds the documents of the ascending rows `rows` [m], with the fingerprints `sets` [m]."""
    size = np.zeros(len(numbers), np.int64)
    size[rows] = sets.lengths
    fingerprints = Fingerprints(sets.values[sets.offset[0] : sets.offset[-1]], offsets(size))
    digests = None if method.measure == "containment" else signed.digests
    return make_segment(Documents(numbers, witness, similarity, size), signed.exact, digests, fingerprints)
