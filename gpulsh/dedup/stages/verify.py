"""verify: a group of documents that share no bucket and no copy with others; verified and resolved as `judging` has it.

Makes `decided` (document, duplicate_of, similarity, cluster, speaks), a row a member, ascending; `speaks` marks those
that others are dropped for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpulsh.dedup.funnel import Funnel
from gpulsh.dedup.judging import Case
from gpulsh.dedup.placed import Numbers, Placed
from gpulsh.dedup.progress import Silent
from gpulsh.dedup.relation import Relation
from gpulsh.dedup.stages.facts import ranks_of
from gpulsh.dedup.stages.gather import GroupTexts
from gpulsh.dedup.stages.route import of_group
from gpulsh.dedup.task import Made, Workplace
from gpulsh.lsh.collisions import Collisions, Crowd, distinct, packed, unpacked


def step_of(group: int) -> str:
    """The step of a group."""
    return f"verify-{group:06d}"


def verify(
    place: Workplace,
    placed: Placed,
    group: int,
    pairs: Sequence[Path],
    crowds: Sequence[Path],
    copies: Sequence[Path],
    gathered: int,
) -> Made:
    """Decide about a group; its texts lie in the files of `gathered` partitions."""
    job = place.job
    edges = _columns(pairs, group, 2)
    crowd = Crowd(*_columns(crowds, group, 3))
    later, first = _columns(copies, group, 2)
    members = np.unique(np.concatenate([*edges, crowd.document, crowd.bucket, later, first]))
    texts = GroupTexts(place.folder, gathered, group)

    def number(documents: Numbers) -> Numbers:
        return np.searchsorted(members, documents)

    met = Collisions.of(
        unpacked(distinct(packed(*map(number, edges)))),  # a pair may meet in several ranges
        Crowd(number(crowd.document), crowd.band, number(crowd.bucket)),
        job.plan.banding.bands,
    )
    ascending = np.argsort(later)
    relation = Relation(
        placed.source_of(members) if job.policy.by_source() else None,
        int(np.searchsorted(members, placed.protected)),
        job.policy.across,
    )
    case = Case(
        met,
        number(later[ascending]),
        number(first[ascending]),
        ranks_of(members, job.policy.keep == "first", place.folder, placed),
        relation,
        texts,
        job.plan,
        place.ops,
    )
    funnel = Funnel(documents=len(members), crowded=len(met.crowded))
    decision = case.decide(funnel, Silent()).to_numpy()
    speaks = np.zeros(len(members), bool)
    speaks[decision.duplicate_of[~decision.keep]] = True
    columns = {
        "document": members,
        "duplicate_of": members[decision.duplicate_of],
        "similarity": decision.similarity,
        "cluster": members[decision.cluster],
        "speaks": speaks,
    }
    place.progress.advance(len(members))
    place.progress.count(dropped=funnel.dropped)
    counts = ("exact_copies", "crowded", "candidates", "verified", "dropped")
    return Made(
        place.write(step_of(group), decided=columns),
        {"amount": len(members), **{name: getattr(funnel, name) for name in counts}},
    )


def _columns(paths: Sequence[Path], group: int, count: int) -> list[Numbers]:
    """The columns of a group's rows in routed files, end to end."""
    found = [list(columns.values()) for path in paths for columns in of_group(path, group)]
    none = [np.empty(0, np.int64)] * count
    return [np.concatenate(columns) for columns in zip(none, *found, strict=True)]
