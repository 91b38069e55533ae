"""Find candidate pairs by containment: a join over all fingerprints, instead of `collide`.

weigh        all fingerprints: how many documents have the fingerprints of each slot -> WEIGHTS
prefix       a partition: the rarest fingerprints of each document -> PREFIXES, SET_SIZES
join         a range of fingerprints: pairs of documents that share a rare one -> PAIRS, MEMBERSHIPS, FOREST

A slot is the upper bits of a fingerprint. Any weights give an exact join, good ones a fast one: where slots hold more
than 255 fingerprints, frequent ones count the same as others. A prefix has so many fingerprints that any document that
contains its owner has one of them. Copies have none, and protected documents, which are never dropped, have none unless
others are dropped for what they contain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.backends.protocol import least_share, prefix_lengths
from gpulsh.decide.prefixes import Owners
from gpulsh.lsh.pairs import packed, renumbered, unpacked
from gpulsh.ragged import first_of_runs, sorted_distinct
from gpulsh.run.job import Layout, Made, Workplace
from gpulsh.run.records import tables
from gpulsh.run.records.documents import looked_up, ranks_of
from gpulsh.run.records.forest import write_met
from gpulsh.run.records.ranges import Participants, PostingsFile, bundles, rows_in_range
from gpulsh.run.records.tables import Ranges

FEWEST_BITS, MOST_BITS = 10, 26  # of a slot
WEIGH = "weigh"  # the step


def weigh(place: Workplace, layout: Layout, ranges: Ranges, shingles: int) -> Made:
    """Count the documents of each slot, for so many shingles; copies do not count."""
    bits, ops = int(np.clip(shingles.bit_length(), FEWEST_BITS, MOST_BITS)), place.ops
    with ops.here():
        counts = ops.asarray(np.zeros(1 << bits, np.uint8))
        given = place.folder, layout, 0, 1, Participants(place.folder, layout, ranges)
        for _, (fingerprints,), _ in rows_in_range(tables.POSTINGS, *given):
            offset = np.array([0, len(fingerprints)])
            counts = ops.frequencies(Fingerprints(fingerprints, offset).moved(ops.asarray), counts)
        return Made(tables.WEIGHTS.write(place.folder, WEIGH, tables.Weights(ops.asnumpy(counts))))


def prefix(place: Workplace, layout: Layout, ranges: Ranges, partition: int) -> Made:
    """Choose the prefixes of a partition by the weights."""
    start, stop = layout.partitions[partition : partition + 2].tolist()
    takes_part = Participants(place.folder, layout, ranges).of(partition)
    postings = tables.POSTINGS.open(place.folder, partition)
    sizes = np.zeros(stop - start, np.int64)
    for run in postings.runs():
        rows = run.row[:]
        sizes += np.bincount(rows[takes_part[rows]], minlength=len(sizes))
        postings.release()
    lengths = prefix_lengths(sizes, least_share(place.job.method.threshold))
    owns = takes_part & (np.arange(start, stop) >= (layout.protected if place.job.method.drop_contained_only else 0))
    counts = tables.WEIGHTS.read(place.folder, WEIGH).documents
    ops, chosen = place.ops, 0
    with ops.here(), PostingsFile(tables.PREFIXES, place.folder, partition) as out:
        here = ops.asarray(counts)
        for run in postings.runs():
            documents, sets = _sets(run, owns)
            postings.release()
            # Of a document in several runs each has its part of the prefix: any of its fingerprints do.
            parts = -(-lengths[documents] * sets.lengths // sizes[documents])
            found = ops.prefixes(ops.unique(sets.moved(ops.asarray)), here, ops.asarray(parts))
            values, of = ops.asnumpy(found.values), np.diff(ops.asnumpy(found.offset))
            out.add(values, np.repeat(documents, of))
            chosen += len(values)
        made = out.finish()
    made |= tables.SET_SIZES.write(place.folder, partition, tables.Sizes(sizes))
    return Made(made, {"chosen": chosen})


def _sets(run: tables.PostingRows, owns: NDArray[np.bool_]) -> tuple[Numbers, Fingerprints]:
    """The documents of a run that have prefixes, ascending, and their fingerprints in it, in any order."""
    chosen = np.flatnonzero(owns[run.row])
    rows = run.row[chosen]
    beyond = rows - rows.min(initial=len(owns))
    # Two passes of a radix sort, unless the documents of a run are very many.
    order = np.argsort(beyond.astype(np.uint16) if beyond.max(initial=0) < 1 << 16 else beyond, kind="stable")
    chosen, rows = chosen[order], rows[order]
    begins = np.flatnonzero(first_of_runs(rows))
    return rows[begins].astype(np.int64), Fingerprints(run.fingerprint[chosen], np.append(begins, len(rows)))


PAIRS_AT_ONCE = 1 << 20  # held before they are written
POSTING_COST = 2  # digests that a posting of a prefix costs as much as


def join(place: Workplace, layout: Layout, ranges: Ranges, part: int, parts: int) -> Made:
    """Find documents that may contain others, by the fingerprints in one of `parts` equal ranges."""
    given = place.folder, layout, part, parts, Participants(place.folder, layout, ranges)
    prefixes = [(fingerprints, owners) for _, (fingerprints,), owners in rows_in_range(tables.PREFIXES, *given)]
    none = np.empty(0, np.uint64), np.empty(0, np.int64)
    owners = Owners(*map(np.concatenate, zip(none, *prefixes, strict=True)))
    del prefixes

    def possible() -> Iterator[NDArray[np.uint64]]:
        for _, (fingerprints,), holders in rows_in_range(tables.POSTINGS, *given):
            for pairs in owners.met_by(fingerprints, holders):
                yield _possible(place, layout, *pairs)

    runs = (unpacked(sorted_distinct(np.concatenate(found))) for found in bundles(possible(), PAIRS_AT_ONCE, len))
    with place.ops.here():
        return Made(write_met(place, layout, part, runs, tables.MEMBERSHIPS.empty()))


def _possible(place: Workplace, layout: Layout, holders: Numbers, owners: Numbers) -> NDArray[np.uint64]:
    """Packed pairs i < j, ascending, each once: those in which the holder has enough fingerprints to contain the owner
    and, if only contained documents are dropped, comes first in decision order.
    """
    job, others = place.job, holders != owners
    met = unpacked(sorted_distinct(packed(holders[others], owners[others])))
    documents, pairs = renumbered(met, len(layout))
    rank = ranks_of(documents, place, layout)
    size = looked_up(tables.SET_SIZES, documents, place.folder, layout).size
    holder, owner = pairs.T
    may = size[holder] >= least_share(job.method.threshold) * size[owner]
    if job.method.drop_contained_only:
        may &= rank[holder] < rank[owner]
    found: NDArray[np.uint64] = sorted_distinct(packed(*np.sort(met[may], axis=1).T))
    return found
