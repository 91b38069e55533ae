"""compare: a share of the candidate pairs of a group that is too large for one task; those at or above the threshold.

Makes `edges` (earlier, later, similarity), documents in decision order. The first document of a pair says which share
it is in, so that a pair that met in several ranges is compared once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpulsh.decide.compare.measure import similar_pairs
from gpulsh.decide.compare.shingled_texts import ShingledTexts
from gpulsh.lsh.collisions import distinct, packed, unpacked
from gpulsh.run.job.job import step_of
from gpulsh.run.job.placed import Placed
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.documents import ranks_of, relation_of
from gpulsh.run.records.numbers import tampered, within
from gpulsh.run.stages.gather import GroupTexts
from gpulsh.run.stages.route import columns_of
from gpulsh.store.columns import MappedColumns


def shares_of(shares: Path, group: int) -> range:
    """The shares of a group, in a file of `connect`; none of a group that is compared where it is decided."""
    return range(*np.searchsorted(MappedColumns(shares).column("group"), [group, group + 1]).tolist())


def compare(place: Workplace, placed: Placed, shares: Path, share: int, pairs: Sequence[Path]) -> Made:
    """Compare one of the `shares` that a file of `connect` tells."""
    told = MappedColumns(shares)
    if share >= len(told.column("group")):
        raise tampered(place.folder, f"{len(told.column('group'))} shares and not share {share}")
    group, start, stop = (int(told.column(name)[share]) for name in ("group", "start", "stop"))
    job, met = place.job, columns_of(pairs, group, ("i", "j"), (start, stop))
    members = within(place.folder, "documents", np.unique(np.concatenate(met)), 0, len(placed))
    if not (met[0] < met[1]).all():
        raise tampered(place.folder, "pairs of documents with themselves")
    rank = ranks_of(members, job.policy.keep == "first", place.folder, placed)
    candidates = unpacked(distinct(packed(*(np.searchsorted(members, column) for column in met))))
    involved = np.argsort(rank)
    wanted = ((number, members[part]) for number, part in placed.by_partition(members))
    texts = ShingledTexts(GroupTexts(place.folder, group, wanted), involved, job.method, place.keys, place.ops)
    done = 0

    def tell(pairs: int) -> None:
        nonlocal done
        done += pairs
        place.progress.advance(pairs)

    with place.ops.here():
        edges = similar_pairs(
            np.sort(rank[candidates], axis=1),
            involved,
            relation_of(members, job.policy, placed),
            texts,
            job.method,
            place.ops,
            tell,
        )
    document = members[involved]
    columns = {"earlier": document[edges.earlier], "later": document[edges.later], "similarity": edges.similarity}
    place.progress.advance(len(met[0]) - done)  # those that met several times, or do not count
    return Made(
        place.write(step_of("compare", share), edges=columns), {"amount": len(met[0]), "candidates": len(candidates)}
    )
