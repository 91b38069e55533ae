"""Compare the documents of a group, and decide which of them to keep.

compare      a share of the candidate pairs of a group that is too large for one task -> EDGES, SAMPLE
verify       a group, which shares no bucket and no copy with others: compare and resolve it -> DECIDED, SAMPLE

The first document of a pair decides which share it is in, so a pair found in several ranges is compared once. A
group too large for one task is one component: `compare` has compared its candidate pairs, and `verify` holds only its
documents and the pairs at or above the threshold.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.decide.copies import with_key_copies
from gpulsh.decide.decide import ComparedComponent, UndecidedDocuments
from gpulsh.decide.edges import Edges, PairSampler
from gpulsh.decide.fingerprint_source import ShingledTexts
from gpulsh.decide.meeting import Meeting
from gpulsh.lsh.collisions import SMALL_BUCKET, Collisions, bucket_table
from gpulsh.lsh.pairs import pack_pairs, unpack_pairs
from gpulsh.ragged import merged_distinct, sorted_distinct
from gpulsh.run.job import JobContext, Layout, TaskResult, step_of
from gpulsh.run.records import tables
from gpulsh.run.records.documents import ranks_of, rules_of
from gpulsh.run.records.sightings import seen_in_group, sightings_at
from gpulsh.run.records.tables import CONNECT, Ranges
from gpulsh.run.records.texts import GroupTexts, group_rows, group_runs
from gpulsh.stats.counts import SUMMED_COUNTS
from gpulsh.stats.stages import Funnel, Progress


def compare_share(context: JobContext, layout: Layout, ranges: Ranges, share: int) -> TaskResult:
    """Compare a share that `connect` defined."""
    group, start, stop = (int(column[share]) for column in tables.SHARES.read(context.folder, CONNECT))
    job, met = context.job, group_rows(tables.PAIRS, context.folder, ranges.met, group, (start, stop))
    members = sorted_distinct(np.concatenate(met))
    rank = ranks_of(members, context, layout)
    candidates = unpack_pairs(sorted_distinct(pack_pairs(*(np.searchsorted(members, column) for column in met))))
    involved, there = np.argsort(rank), context.ops.asarray
    wanted = ((number, members[part]) for number, part in layout.by_partition(members))
    texts = ShingledTexts(involved, context.ops, GroupTexts(context.folder, group, wanted), job.method, context.keys)
    met_here = Collisions.from_buckets(there(candidates), [], job.method.banding.bands)
    rules = rules_of(members, job.policy, layout)
    sampler = PairSampler(members)
    with context.ops.use_device():
        meeting = Meeting(met_here, there(involved), rules, texts, job.method, context.ops)
        edges = meeting.similar_pairs(sampler=sampler).moved(context.ops.asnumpy)
    document = members[involved]
    found = tables.SimilarPairs(document[edges.earlier], document[edges.later], edges.similarity)
    context.progress.advance(len(met.i))
    made = tables.EDGES.write(context.folder, share, found)
    made |= tables.SAMPLE.write(context.folder, step_of("compare", share), sampler.sample)
    return TaskResult(made, {"amount": len(met.i), "candidates": len(candidates)})


def decide_group(context: JobContext, layout: Layout, ranges: Ranges, gathered: int, group: int) -> TaskResult:
    """Decide about a group. `gathered` partitions have its texts; `compare` did a group with shares before."""
    job, folder, there = context.job, context.folder, context.ops.asarray
    # Of a large component these are hundreds of bytes a document: they are read twice, and never held together.
    memberships = partial(group_runs, tables.MEMBERSHIPS, folder, ranges.met, group)
    in_large = merged_distinct(run.document for run in memberships())
    copies = group_rows(tables.COPIES, folder, ranges.copies, group)
    copies = tables.COPIES.rows(copies, np.argsort(copies.document))
    twins = group_rows(tables.TWINS, folder, ranges.copies if job.policy.by_source() else 0, group)
    keyed = group_rows(tables.KEY_COPIES, folder, ranges.keys, group)
    texts = GroupTexts(folder, group, ((number, None) for number in range(gathered)))
    # The shares of the group; none if its pairs are compared here.
    shares = range(*np.searchsorted(tables.SHARES.read(folder, CONNECT).group, [group, group + 1]).tolist())
    met = group_rows(tables.PAIRS, folder, 0 if shares else ranges.met, group)
    if shares:
        meeting = texts.documents
    else:
        meeting = sorted_distinct(np.concatenate([*met, in_large]))
    members = sorted_distinct(np.concatenate([meeting, *copies, *twins, *keyed]))

    def member_places(documents: Numbers) -> Numbers:
        return np.searchsorted(members, documents)

    def read_edges() -> Edges:
        found = tables.EDGES.joined(tables.EDGES.read(folder, share) for share in shares)
        return Edges(member_places(found.earlier), member_places(found.later), found.similarity).moved(there)

    large = (run._replace(bucket=member_places(run.bucket)) for run in (memberships() if len(in_large) else ()))
    collisions = Collisions(
        there(unpack_pairs(sorted_distinct(pack_pairs(*map(member_places, met))))),  # a pair may meet in several ranges
        member_places(in_large),
        bucket_table(in_large, large, len(members), job.method.banding.bands),
    )
    sampler, retention = PairSampler(members), job.policy.retention
    case = UndecidedDocuments(
        len(members),
        collisions,
        there(member_places(copies.document)),
        there(member_places(copies.first)),
        there(ranks_of(members, context, layout)),
        rules_of(members, job.policy, layout),
        texts,
        job.method,
        context.keys,
        context.ops,
        ComparedComponent(there(member_places(meeting)), read_edges) if shares else None,
        sampler,
        (there(member_places(twins.document)), there(member_places(twins.first))),
        retention,
        sightings_at(job, folder, layout, members) if retention.min_sources > 1 else None,
    )
    del copies, twins, meeting  # of millions of copies these take as much as the decision
    funnel = Funnel(documents=len(members), crowded=len(collisions.in_large))
    progress = _GroupProgress(context.progress, len(members), len(collisions.pairs), len(collisions.in_large))
    decision = case.decide(funnel, progress, with_pairs=False)
    if len(keyed.document):
        with context.ops.use_device():
            of = there(member_places(keyed.document)), there(member_places(keyed.first))
            decision = with_key_copies(decision, *of, context.ops)
    decision = decision.to_numpy()
    kept = int(decision.keep[np.searchsorted(members, layout.protected) :].sum())
    progress.report(len(members))
    context.progress.count(dropped=funnel.dropped)
    seen = seen_in_group(job, folder, layout, members, decision.duplicate_of)
    made = tables.DECIDED.write(folder, group, tables.Decisions.of(members, decision))
    made |= tables.SEEN_IN_GROUP.write(folder, group, seen) | tables.SAMPLE.write(folder, group, sampler.sample)
    counts = {name: getattr(funnel, name) for name in SUMMED_COUNTS}
    return TaskResult(made, {"amount": len(members), "kept": kept, **counts})


class _GroupProgress(Progress):
    """The progress of a group's pairs, then of its documents in large buckets, as a share of its documents."""

    def __init__(self, listener: Progress, documents: int, pairs: int, in_large: int) -> None:
        self._listener, self._documents = listener, documents
        self._work, self._cost = max(pairs + SMALL_BUCKET * in_large, 1), 0
        self._done = self._reported = 0

    def stage(self, name: str, total: int | None, unit: str) -> AbstractContextManager[None]:
        self._cost = 1 if unit == "pairs" else SMALL_BUCKET
        return nullcontext()

    def advance(self, amount: int) -> None:
        self._done += amount * self._cost
        self.report(self._documents * min(self._done, self._work) // self._work)

    def report(self, documents: int) -> None:
        """Report that so many are done, of all."""
        self._listener.advance(documents - self._reported)
        self._reported = documents
