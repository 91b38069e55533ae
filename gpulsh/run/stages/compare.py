"""compare: a share of the candidate pairs of a group that is too large for one task; those at or above the threshold.

Makes EDGES and SAMPLE. The first document of a pair says which share it is in, so that one that met in several ranges
is compared once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpulsh.decide.compare.sample import Draw
from gpulsh.decide.compare.shingled_texts import ShingledTexts
from gpulsh.decide.meeting import Meeting
from gpulsh.lsh.collisions import Collisions, Crowd
from gpulsh.lsh.pairs import distinct, packed, unpacked
from gpulsh.run.job.job import step_of
from gpulsh.run.job.layout import Layout
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.documents import ranks_of, relation_of
from gpulsh.run.records.group_texts import GroupTexts
from gpulsh.run.records.groups import rows_of
from gpulsh.run.records.numbers import tampered, within
from gpulsh.run.records.tables import EDGES, PAIRS, SAMPLE, SHARES, SimilarPairs


def compare(place: Workplace, layout: Layout, shares: Path, share: int, pairs: Sequence[Path]) -> Made:
    """Compare one of the `shares` that a file of `connect` tells."""
    told = SHARES.open(shares).whole()
    if share >= len(told.group):
        raise tampered(place.folder, f"{len(told.group)} shares and not share {share}")
    group, start, stop = (int(column[share]) for column in told)
    job, met = place.job, rows_of(PAIRS, pairs, group, (start, stop))
    members = within(place.folder, "documents", np.unique(np.concatenate(met)), 0, len(layout))
    if not (met.i < met.j).all():
        raise tampered(place.folder, "pairs of documents with themselves")
    rank = ranks_of(members, job.policy.keep == "first", place.folder, layout)
    candidates = unpacked(distinct(packed(*(np.searchsorted(members, column) for column in met))))
    involved = np.argsort(rank)
    wanted = ((number, members[part]) for number, part in layout.by_partition(members))
    texts = ShingledTexts(involved, place.ops, GroupTexts(place.folder, group, wanted), job.method, place.keys)
    met_here = Collisions.of(candidates, Crowd.joined([]), job.method.banding.bands)
    relation = relation_of(members, job.policy, layout)
    done = 0

    def tell(pairs: int) -> None:
        nonlocal done
        done += pairs
        place.progress.advance(pairs)

    draw = Draw(members)
    with place.ops.here():
        edges = Meeting(met_here, involved, relation, texts, job.method, place.ops).similar(tell, draw)
    document = members[involved]
    found = SimilarPairs(document[edges.earlier], document[edges.later], edges.similarity)
    place.progress.advance(len(met.i) - done)  # those that met several times, or do not count
    made = EDGES.write(place.folder, share, found) | SAMPLE.write(place.folder, step_of("compare", share), draw.sample)
    return Made(made, {"amount": len(met.i), "candidates": len(candidates)})
