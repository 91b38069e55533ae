"""Copies: documents whose token sequences have equal 128-bit hashes, and documents with the key of an earlier one.

Exact copies are found before anything is compared. The text of a copy by key is not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.protocol import Backend
from gpulsh.decide.decision import Decision
from gpulsh.lsh.collisions import bucket_of_member
from gpulsh.lsh.pairs import lexicographic_order, pair_order
from gpulsh.ragged import first_of_runs

ByRow = Callable[[Array], Array]


def first_copies(
    exact: Array, ids: Array, rank: ByRow | None, ops: Backend, source: ByRow | None = None
) -> tuple[Array, Array]:
    """The later copies, ascending, and the first copy of each in decision order: int64 [c], int64 [c].

    `exact` [n, 2] are hashes, and `ids` the rows that count, in decision order. In any other order, `rank` gives rows
    distinct numbers that ascend in it. With `source`, only documents of one source are copies. All arrays are in the
    backend's memory.

    The backend sorts the first halves of the hashes, so rows that share one are neighbours. Hardly ever do their second
    halves differ; only then all are sorted by these, too.
    """
    met = ops.collisions(exact[ids, 0], np.arange(len(ids), like=ids))  # usually few
    members = ids[met.ids]
    if len(members) == 0:
        return members, members
    group, second = bucket_of_member(met), exact[members, 1]
    same = second == second[met.offset[:-1]][group]
    by = [group]
    if source is not None or not bool(same.all()):
        by += [second] if source is None else [second, source(members)]
    if len(by) > 1:
        order = lexicographic_order(*by)
        members, by = members[order], [column[order] for column in by]
    is_first = first_of_runs(group)
    for column in by[1:]:
        is_first |= first_of_runs(column)
    if rank is not None:
        members = members[pair_order(np.cumsum(is_first), rank(members))]
    first = members[np.flatnonzero(is_first)][np.cumsum(is_first) - 1]
    later = np.flatnonzero(~is_first)
    later = later[np.argsort(members[later], kind="stable")]
    return members[later], first[later]


def with_key_copies(decision: Decision, later: Array, first: Array, ops: Backend) -> Decision:
    """The decision with the copies by key `later` [c] of `first` [c], which were decided without candidates.

    Each is dropped for the first document with its key if that is kept, otherwise for that one's witness, and joins its
    cluster. Its similarity is NaN: nothing was measured. No pair is added. The funnel's counts change in place.
    """
    funnel = decision.funnel
    funnel.key_copies = len(later)
    funnel.dropped += len(later)
    funnel.kept -= len(later)
    keep, target, similarity = decision.keep.copy(), decision.duplicate_of.copy(), decision.similarity.copy()
    keep[later], target[later], similarity[later] = False, target[first], np.float32(np.nan)
    exact_copy = decision.exact_copy.copy()
    exact_copy[later] = target[first] == first  # counts take it as a copy
    edges = np.concatenate([decision.pairs, np.stack([first, later], axis=1)])
    cluster = ops.components(len(keep), edges)
    found = {"duplicate_of": target, "similarity": similarity, "cluster": cluster, "exact_copy": exact_copy}
    return replace(decision, keep=keep, **found)
