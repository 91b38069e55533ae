"""What an index does with documents that arrive: holds all, admits those that duplicate none, or finds similar ones.

To admit is to decide as `deduplicate` does, with the documents held before as the first: a document is dropped exactly
when it is an exact copy of an earlier one, or a held one that shares a bucket with it is at least `threshold` similar;
the most similar one, ties to the earlier, is its witness. By containment a held one contains so much of it. So any cut
of a sequence of documents into arrivals gives the same documents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers, Signed, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.decide.copies import first_copies
from gpulsh.decide.relation import Relation
from gpulsh.index.containers import meet_containers
from gpulsh.index.holdings import NOBODY, Holdings
from gpulsh.index.meetings import Meetings, meet
from gpulsh.index.readable import fingerprint_sets
from gpulsh.index.segments.segment import Documents, Segment, make_segment
from gpulsh.method import Method
from gpulsh.ragged import chosen_rows, offsets
from gpulsh.secret import EvidenceKeys
from gpulsh.stats.stages import Funnel


@dataclass(frozen=True)
class Arrivals:
    """Documents of a batch with their hashes in host memory."""

    batch: TextBatch
    keys: EvidenceKeys  # of the index
    exact: NDArray[np.uint64]  # [n, 2]
    digests: NDArray[np.uint64]  # [n, bands]
    with_token: NDArray[np.bool_]  # [n]
    shingles: int  # of all of them

    @classmethod
    def of(cls, batch: TextBatch, keys: EvidenceKeys, signed: Signed, ops: Backend) -> Arrivals:
        """A signed batch."""
        shingles = ops.asnumpy(signed.shingles)
        hashes = ops.asnumpy(signed.exact), ops.asnumpy(signed.digests)
        return cls(batch, keys, *hashes, shingles > 0, int(shingles.sum()))

    def __len__(self) -> int:
        return len(self.exact)


def hold_all(arrivals: Arrivals, start: int, method: Method, ops: Backend) -> Segment:
    """A segment of all documents, numbered from `start`, each held."""
    rows = np.flatnonzero(arrivals.with_token)
    sets = fingerprint_sets(arrivals.batch, rows, method.reading, arrivals.keys, ops)
    numbers = np.arange(start, start + len(arrivals))
    return _segment(arrivals, method, numbers, numbers, np.ones(len(numbers)), rows, sets)


def admit(arrivals: Arrivals, start: int, holdings: Holdings, method: Method, ops: Backend, tally: Funnel) -> Segment:
    """A segment of all documents, numbered from `start`, those held that have no earlier witness; counted too."""
    count = len(arrivals)
    numbers = np.arange(start, start + count)
    witness, similarity = numbers.copy(), np.ones(count)
    with_token = np.flatnonzero(arrivals.with_token)
    known, how_similar, is_own = holdings.first_copies(arrivals.exact[with_token])
    is_known = known != NOBODY
    copies_of_held = with_token[is_known]
    witness[copies_of_held], similarity[copies_of_held] = known[is_known], how_similar[is_known]

    rest = with_token[~is_known]
    with ops.here():
        copies, first = first_copies(ops.asarray(arrivals.exact), ops.asarray(rest), lambda rows: rows, ops)
    taking_part = np.setdiff1d(rest, copies, assume_unique=True) if len(copies) else rest
    sets = fingerprint_sets(arrivals.batch, taking_part, method.reading, arrivals.keys, ops)
    with ops.here():
        met = _met(arrivals, taking_part, sets, holdings, method, ops)
        base = len(met.held)  # documents, which stay, whatever they resemble
        meeting = met.compared_by(sets, holdings, Relation(protected=base), method, ops)
        small = meeting.similar()
        kept, edges = meeting.resolve(small)
        dropped = meeting.dropped(kept, edges)
    later = taking_part[dropped.later - base]
    witness[later] = np.concatenate([met.held, numbers[taking_part]])[dropped.earlier]
    similarity[later] = dropped.similarity
    witness[copies], similarity[copies] = witness[first], similarity[first]

    tally.documents += count
    tally.empty += count - len(with_token)
    tally.shingles += arrivals.shingles
    of_kept = int(is_own[is_known].sum()) + int((witness[first] == numbers[first]).sum())
    all_copies = len(copies) + len(copies_of_held)
    tally.exact_copies += all_copies
    tally.copies_of_kept += of_kept
    tally.copies_of_dropped += all_copies - of_kept
    tally.near_duplicates += int(np.count_nonzero(witness[taking_part] != numbers[taking_part]))
    tally.similar += len(edges.later)
    tally.dissimilar += len(met.collisions.pairs) - len(small.later)
    tally.candidates += len(met.collisions.pairs) + len(edges.later) - len(small.later)
    tally.verified += len(edges.later) + all_copies

    stays = witness[taking_part] == numbers[taking_part]
    held = chosen_rows(sets, np.flatnonzero(stays))
    return _segment(arrivals, method, numbers, witness, similarity, taking_part[stays], held)


def similar(
    arrivals: Arrivals, holdings: Holdings, method: Method, ops: Backend
) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    """Rows [m] of asking documents, ascending, numbers [m] of held ones and how similar, highest first in a row."""
    asking = np.flatnonzero(arrivals.with_token)
    sets = fingerprint_sets(arrivals.batch, asking, method.reading, arrivals.keys, ops)
    with ops.here():
        met = _met(arrivals, asking, sets, holdings, method, ops, one_another=False)
        base = len(met.held)
        meeting = met.compared_by(sets, holdings, Relation(protected=base, asking=base), method, ops)
        _, edges = meeting.resolve(meeting.similar())
    number, row = met.held[edges.earlier], asking[edges.later - base]
    order = np.lexsort((number, -edges.similarity, row))
    return row[order], number[order], edges.similarity[order]


def _met(
    arrivals: Arrivals,
    rows: Numbers,
    sets: Fingerprints,
    holdings: Holdings,
    method: Method,
    ops: Backend,
    *,
    one_another: bool = True,
) -> Meetings:
    """Whom the documents `rows` [m] meet, whose fingerprints are `sets` [m], and, with `one_another`, of themselves."""
    if method.measure == "containment":
        return meet_containers(sets, holdings, method.threshold, ops, one_another=one_another)
    return meet(arrivals.digests[rows], holdings, ops, one_another=one_another)


def _segment(
    arrivals: Arrivals,
    method: Method,
    numbers: Numbers,
    witness: Numbers,
    similarity: NDArray[np.float64],
    rows: Numbers,
    sets: Fingerprints,
) -> Segment:
    """`sets` [m] belong to the ascending rows `rows` [m]."""
    size = np.zeros(len(numbers), np.int64)
    size[rows] = sets.lengths
    fingerprints = Fingerprints(sets.values[sets.offset[0] : sets.offset[-1]], offsets(size))
    digests = None if method.measure == "containment" else arrivals.digests
    return make_segment(Documents(numbers, witness, similarity, size), arrivals.exact, digests, fingerprints)
