"""Find documents that are equal, share a bucket, or may contain others.

keys         a range of hashes of keys: later documents with a key and the first one of each -> KEY_COPIES; with
             --key-only the decisions about them, as `verify` makes them -> DECIDED
copies       a range of exact hashes: later copies and the first one of each -> COPIES, TWINS
collide      a range of digests, in all bands -> PAIRS of small buckets, MEMBERSHIPS (members of large ones), FOREST

Pairs may be a hundred times as many as digests, so they are made and written in runs.

By containment, a join over all fingerprints replaces `collide`:

weigh        all fingerprints: how many documents have the fingerprints of each slot -> WEIGHTS
prefix       a partition: the rarest fingerprints of each document -> PREFIXES, SET_SIZES
join         a range of fingerprints: pairs of documents that share a rare one -> PAIRS; documents that share one with
             many others -> MEMBERSHIPS; FOREST

A slot is the upper bits of a fingerprint. Any weights give an exact join, good ones a fast one: where slots hold more
than 255 fingerprints, frequent ones count the same as others. A prefix has so many fingerprints that any document that
contains its owner has one of them. Copies have none, and protected documents, which are never dropped, have none unless
others are dropped for what they contain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Numbers
from gpulsh.backends.parts import in_part
from gpulsh.backends.protocol import min_share, prefix_lengths
from gpulsh.decide.copies import first_copies
from gpulsh.decide.prefixes import Owners
from gpulsh.lsh.collisions import Memberships, find_buckets
from gpulsh.lsh.pairs import pack_pairs, renumber, unpack_pairs
from gpulsh.ragged import bundles, first_of_runs, sorted_distinct
from gpulsh.run.job import JobContext, Layout, TaskResult
from gpulsh.run.key_rule import decide_by_key
from gpulsh.run.records import tables
from gpulsh.run.records.documents import ranks_of, rows_at
from gpulsh.run.records.ranges import Participants, PostingsFile, rows_in_range
from gpulsh.run.records.sightings import seen_in_group
from gpulsh.run.records.tables import Ranges, Table
from gpulsh.stats.stages import no_progress
from gpulsh.store.durable import FileFact


def find_key_copies(context: JobContext, layout: Layout, part: int, parts: int) -> TaskResult:
    """Find the documents that have the key of an earlier one, for the hashes in one of `parts` equal ranges."""
    find_copies, within = _copy_finder(context, layout, tables.KEYS, part, parts), context.job.policy.within
    found = find_copies(within)
    if within and layout.protected:  # copies of protected documents are copies within any INPUT
        of_all = find_copies(False)
        of_protected = tables.KEY_COPIES.rows(of_all, of_all.first < layout.protected)
        others = tables.KEY_COPIES.rows(found, ~np.isin(found.document, of_protected.document))
        found = tables.KEY_COPIES.joined([of_protected, others])
        found = tables.KEY_COPIES.rows(found, np.argsort(found.document))
    found = tables.KEY_COPIES.rows(found, found.document >= layout.protected)  # protected ones are always compared
    facts, made = {"copies": len(found.document)}, tables.KEY_COPIES.write(context.folder, part, found)
    if context.job.key is not None and context.job.key.only:
        members, (later, first) = renumber(np.stack(found), len(layout))
        with context.ops.use_device():
            copies = context.ops.asarray(later), context.ops.asarray(first)
            decision = decide_by_key(len(members), *copies, context.ops).to_numpy()
        seen = seen_in_group(context.job, context.folder, layout, members, decision.duplicate_of)
        made |= tables.DECIDED.write(context.folder, part, tables.Decisions.of(members, decision))
        made |= tables.SEEN_IN_GROUP.write(context.folder, part, seen)
        facts["dropped"] = len(found.document)
        context.progress.count(dropped=len(found.document))
    return TaskResult(made, facts)


def find_exact_copies(context: JobContext, layout: Layout, ranges: Ranges, part: int, parts: int) -> TaskResult:
    """Find the copies whose hashes are in one of `parts` equal ranges; copies by keys are left out."""
    participants = Participants(context.folder, layout, ranges) if ranges.keys else None
    find_copies = _copy_finder(context, layout, tables.EXACT, part, parts, participants)
    by_source = context.job.policy.by_source()
    found = find_copies(by_source)
    made = tables.COPIES.write(context.folder, part, found)
    if by_source:
        all_found = find_copies(False)
        others = ~np.isin(all_found.document, found.document)
        others &= all_found.document >= layout.protected  # by containment, no protected documents meet for each other
        made |= tables.TWINS.write(context.folder, part, tables.TWINS.rows(all_found, others))
    return TaskResult(made)


def _copy_finder(
    context: JobContext,
    layout: Layout,
    table: Table[tables.ExactRows],
    part: int,
    parts: int,
    participants: Participants | None = None,
) -> Callable[[bool], tables.Copies]:
    """A function that finds the documents with the hash of an earlier one in decision order, and the first of each.

    The hashes are of one range. With True, both are of one INPUT.
    """
    hashes, positions, ops = [np.empty((2, 0), np.uint64)], [np.empty(0, np.int64)], context.ops
    for _, halves, documents in rows_in_range(table, context.folder, layout, part, parts, participants):
        hashes.append(np.stack(halves))
        positions.append(documents)
    whole, position = np.concatenate(hashes, axis=1).T, np.concatenate(positions)
    del hashes, positions

    def source(rows: Array) -> Array:
        return ops.asarray(layout.source_of(position[ops.asnumpy(rows)]))

    def rank(rows: Array) -> Array:
        some = position[ops.asnumpy(rows)]
        if context.job.policy.keep == "first":
            return ops.asarray(some)
        ascending = np.argsort(some)
        ranks = np.empty(len(rows), np.int64)
        ranks[ascending] = ranks_of(some[ascending], context, layout)
        return ops.asarray(ranks)

    def find_copies(within: bool) -> tables.Copies:
        with ops.use_device():
            given = ops.asarray(whole), ops.asarray(np.arange(len(position))), rank, ops
            later, first = map(ops.asnumpy, first_copies(*given, source if within else None))
        order = np.argsort(position[later])
        return tables.Copies(position[later][order], position[first][order])

    return find_copies


PAIRS_AT_ONCE = 1 << 20  # made and written together


def find_collisions(context: JobContext, layout: Layout, ranges: Ranges, part: int, parts: int) -> TaskResult:
    """Find documents that share a bucket in one of `parts` equal ranges of digests; later copies are left out."""
    bands, forest = context.job.method.banding.bands, _Forest(context, layout)
    facts = {"amount": bands, "memberships": 0}
    with context.ops.use_device(), tables.MEMBERSHIPS.create(context.folder, part) as out:

        def add_large(memberships: Memberships) -> None:
            out.append(memberships)
            facts["memberships"] += len(memberships.document)
            forest.connect(np.stack([memberships.bucket, memberships.document], axis=1), False)

        digests = _Digests(context, layout, ranges, part, parts)
        small = find_buckets(digests, context.ops, no_progress, add_large)
        del digests
        made = out.finish_by_name() | _write_pairs(context, part, small.pieces(PAIRS_AT_ONCE), forest)
    context.progress.advance(bands)
    return TaskResult(made, facts)


class _Digests:
    """`lsh.collisions.Digests` of a range, all documents but copies."""

    ascending = False  # they come partition by partition, in order of their upper bits

    def __init__(self, context: JobContext, layout: Layout, ranges: Ranges, part: int, parts: int) -> None:
        self._part, self._parts, there = part, parts, context.ops.asarray
        self.documents, self.bands = len(layout), context.job.method.banding.bands
        none = there(np.empty(0, np.uint64)), there(np.empty(0, np.int64))
        self._found: list[list[tuple[Array, Array]]] = [[none] for _ in range(self.bands)]
        given = context.folder, layout, part, parts, Participants(context.folder, layout, ranges)
        for at, (digests,), documents in rows_in_range(tables.DIGESTS, *given, move=there):
            self._found[at % self.bands].append((digests, documents))

    def band(self, band: int, part: int, parts: int) -> tuple[Array, Array]:
        """The digests of a band in one of `parts` parts of the range, and the documents' numbers."""
        digests, ids = map(np.concatenate, zip(*self._found[band], strict=True))
        if parts > 1:
            chosen = in_part(digests, self._part * parts + part, self._parts * parts)
            digests, ids = digests[chosen], ids[chosen]
        return digests, ids


class _Forest:
    """The FOREST of the documents that a range connects, which takes memory for these alone."""

    def __init__(self, context: JobContext, layout: Layout) -> None:
        self._ops, self._documents, none = context.ops, len(layout), np.empty(0, np.int64)
        self.rows = tables.ForestRows(none, none, none.astype(np.int32))

    def connect(self, edges: Numbers, is_pair: bool) -> None:
        """Connect the two documents of each of `edges` [m, 2]; pairs are counted."""
        known = np.stack([self.rows.label, self.rows.document], axis=1)
        document, places = renumber(np.concatenate([edges, known]), self._documents)
        root = self._ops.asnumpy(self._ops.components(len(document), self._ops.asarray(places)))
        pairs = np.zeros(len(document), np.int32)
        pairs[places[len(edges) :, 1]] = self.rows.pairs
        if is_pair:
            pairs += np.bincount(places[: len(edges), 0], minlength=len(document)).astype(np.int32)
        self.rows = tables.ForestRows(document, document[root], pairs)


def _write_pairs(context: JobContext, part: int, runs: Iterable[Numbers], forest: _Forest) -> dict[str, FileFact]:
    """PAIRS of a range from ascending runs [m, 2], and its FOREST, which they connect further."""
    with tables.PAIRS.create(context.folder, part) as out:
        for pairs in runs:
            forest.connect(pairs, True)
            out.append(tables.Pairs(*np.ascontiguousarray(pairs.T)))
        made = out.finish_by_name()
    return made | tables.FOREST.write(context.folder, part, forest.rows)


MIN_BITS, MAX_BITS = 10, 26  # of a slot
WEIGH = "weigh"  # the step


def weigh_slots(context: JobContext, layout: Layout, ranges: Ranges, shingles: int) -> TaskResult:
    """Count the documents of each slot, for so many shingles; copies do not count."""
    bits, ops = int(np.clip(shingles.bit_length(), MIN_BITS, MAX_BITS)), context.ops
    with ops.use_device():
        counts = ops.asarray(np.zeros(1 << bits, np.uint8))
        given = context.folder, layout, 0, 1, Participants(context.folder, layout, ranges)
        for _, (fingerprints,), _ in rows_in_range(tables.POSTINGS, *given):
            offset = np.array([0, len(fingerprints)])
            counts = ops.frequencies(Fingerprints(fingerprints, offset).moved(ops.asarray), counts)
        return TaskResult(tables.WEIGHTS.write(context.folder, WEIGH, tables.Weights(ops.asnumpy(counts))))


def choose_prefixes(context: JobContext, layout: Layout, ranges: Ranges, partition: int) -> TaskResult:
    """Choose the prefixes of a partition by the weights."""
    start, stop = layout.bounds(partition)
    takes_part = Participants(context.folder, layout, ranges).of(partition)
    postings = tables.POSTINGS.open(context.folder, partition)
    sizes = np.zeros(stop - start, np.int64)
    for run in postings.runs():
        rows = run.row[:]
        sizes += np.bincount(rows[takes_part[rows]], minlength=len(sizes))
        postings.release()
    lengths = prefix_lengths(sizes, min_share(context.job.method.threshold))
    owns = takes_part & (np.arange(start, stop) >= (layout.protected if context.job.method.drop_contained_only else 0))
    counts = tables.WEIGHTS.read(context.folder, WEIGH).documents
    ops, chosen = context.ops, 0
    with ops.use_device(), PostingsFile(tables.PREFIXES, context.folder, partition) as out:
        here = ops.asarray(counts)
        for run in postings.runs():
            documents, sets = _owner_sets(run, owns)
            postings.release()
            # Of a document in several runs each has its part of the prefix: any of its fingerprints do.
            parts = -(-lengths[documents] * sets.lengths // sizes[documents])
            found = ops.prefixes(ops.unique(sets.moved(ops.asarray)), here, ops.asarray(parts))
            values, of = ops.asnumpy(found.values), np.diff(ops.asnumpy(found.offset))
            out.add(values, np.repeat(documents, of))
            chosen += len(values)
        made = out.finish()
    made |= tables.SET_SIZES.write(context.folder, partition, tables.Sizes(sizes))
    return TaskResult(made, {"chosen": chosen})


def _owner_sets(run: tables.PostingRows, owns: NDArray[np.bool_]) -> tuple[Numbers, Fingerprints]:
    """The documents of a run that have prefixes, ascending, and their fingerprints in it, in any order."""
    chosen = np.flatnonzero(owns[run.row])
    rows = run.row[chosen]
    beyond = rows - rows.min(initial=len(owns))
    # Two passes of a radix sort, unless the documents of a run are very many.
    order = np.argsort(beyond.astype(np.uint16) if beyond.max(initial=0) < 1 << 16 else beyond, kind="stable")
    chosen, rows = chosen[order], rows[order]
    begins = np.flatnonzero(first_of_runs(rows))
    return rows[begins].astype(np.int64), Fingerprints(run.fingerprint[chosen], np.append(begins, len(rows)))


POSTING_COST = 2  # the cost of a posting of a prefix, in digests
FEW_OWNERS = 32  # of a fingerprint: all pairs of its owners and holders are made


def join_prefixes(context: JobContext, layout: Layout, ranges: Ranges, part: int, parts: int) -> TaskResult:
    """Find documents that may contain others, by the fingerprints in one of `parts` equal ranges."""
    given = context.folder, layout, part, parts, Participants(context.folder, layout, ranges)
    prefixes = [(fingerprints, owners) for _, (fingerprints,), owners in rows_in_range(tables.PREFIXES, *given)]
    none = np.empty(0, np.uint64), np.empty(0, np.int64)
    owners = Owners(*map(np.concatenate, zip(none, *prefixes, strict=True)))
    del prefixes
    forest = _Forest(context, layout)

    def connect_all(first: Numbers, holders: Numbers) -> None:
        """Put the holders of fingerprints with many owners into a large bucket; `first` is one owner of each."""
        edges = unpack_pairs(sorted_distinct(pack_pairs(first, holders)))
        forest.connect(edges, False)
        members = sorted_distinct(edges[:, 1])
        out.append(Memberships(members, np.zeros_like(members), members))

    def possible_pairs() -> Iterator[NDArray[np.uint64]]:
        """Packed pairs i < j, ascending, each once. The holder has enough fingerprints to contain the owner. If only
        contained documents are dropped, it also comes first in decision order.
        """
        job, least = context.job, min_share(context.job.method.threshold)
        for _, (fingerprints,), found in rows_in_range(tables.POSTINGS, *given):
            met, (met_by_many, slots) = owners.split(*owners.find(fingerprints, found), FEW_OWNERS)
            if len(slots):
                connect_all(owners.first(slots), met_by_many)
            for holders, of in owners.pairs_at(*met):
                others = holders != of
                both = unpack_pairs(sorted_distinct(pack_pairs(holders[others], of[others])))
                documents, pairs = renumber(both, len(layout))
                rank = ranks_of(documents, context, layout)
                size = rows_at(tables.SET_SIZES, documents, context.folder, layout).size
                holder, owner = pairs.T
                may = size[holder] >= least * size[owner]
                if job.method.drop_contained_only:
                    may &= rank[holder] < rank[owner]
                yield sorted_distinct(pack_pairs(*np.sort(both[may], axis=1).T))

    runs = (
        unpack_pairs(sorted_distinct(np.concatenate(found))) for found in bundles(possible_pairs(), PAIRS_AT_ONCE, len)
    )
    with context.ops.use_device(), tables.MEMBERSHIPS.create(context.folder, part) as out:
        made = _write_pairs(context, part, runs, forest)
        return TaskResult(made | out.finish_by_name())
