"""Policies that keep several of a group of duplicates, or only documents from several sources.

min_cluster  drop documents only in components of at least this size (the column `cluster`)
max_copies   keep up to this many of a kept document and the first of its duplicates in decision order
min_sources  leave out a kept document, and all documents dropped for it, if they have fewer sources

They apply to the finished decision, `min_cluster` before `max_copies`. A dropped document may become kept; a kept one
is never dropped. So each dropped document has the same kept witness as without a policy, which keeps the promise of
evidence. A document that is left out has no witness and is not a duplicate: it is neither kept nor in the list of
duplicates, and counts as `few_sources`.

Duplicates of protected documents stay dropped, and protected documents stay.

FineWeb (Penedo et al. 2024, arXiv 2406.17557) suggests the first, MixMinMatch (Alrashed, Orabona 2025, arXiv
2512.18834) the last.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.counts.counts import Sightings, seen
from gpulsh.errors import ParameterError
from gpulsh.params import set_integer
from gpulsh.ragged import within_runs

if TYPE_CHECKING:
    from gpulsh.decide.decision import Decision

MOST = 1 << 40


@dataclass(frozen=True)
class Retention:
    """The policies of a run; 1 is no policy."""

    min_cluster: int = 1
    max_copies: int = 1
    min_sources: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            set_integer(self, field.name, 1, MOST)
        if self.min_sources > 1 and (self.min_cluster > 1 or self.max_copies > 1):
            other = "min_cluster" if self.min_cluster > 1 else "max_copies"
            raise ParameterError(f"min_sources and {other} are both given; give one of them")

    @classmethod
    def chosen(cls, min_cluster: int | None, max_copies: int | None, min_sources: int | None) -> Retention:
        """The policies that a caller gives; None is 1, no policy."""
        given = (min_cluster, max_copies, min_sources)
        return cls(*(1 if value is None else value for value in given))

    def to_json(self) -> dict[str, int]:
        """The policies that are given."""
        return {field.name: number for field in fields(self) if (number := getattr(self, field.name)) > 1}

    def applied(
        self,
        decision: Decision,
        copies: Array,
        rank: Array | None,
        protected: int,
        sightings: Sightings | None,
        ops: Backend,
    ) -> Decision:
        """The decision by these policies, with its funnel counted anew.

        `copies` are all exact copies that may be dropped. `rank` ascends in decision order, and is None where positions
        do. The first `protected` documents are fixed.
        """
        here, place = decision.to_numpy(), np.arange(len(decision))
        fixed, copies = place < protected, ops.asnumpy(copies)
        stays = self._stays(here.duplicate_of, here.cluster, place if rank is None else ops.asnumpy(rank), fixed)
        target = np.where(stays, place, here.duplicate_of)
        keep = target == place
        if self.min_sources > 1:
            kept, which = np.unique(target, return_inverse=True)
            sources = seen(target, kept, sightings or Sightings.of_one_source()).sources
            left_out = ((sources < self.min_sources) & ~fixed[kept])[which]
            keep &= ~left_out
            target = np.where(left_out, place, target)
        dropped = target != place
        exact_copy = here.exact_copy & dropped

        funnel = decision.funnel
        funnel.dropped, funnel.kept = int(dropped.sum()), int(keep.sum())
        funnel.few_sources = len(keep) - funnel.dropped - funnel.kept
        funnel.copies_left = int((~dropped[copies]).sum())
        funnel.copies_of_kept = int(exact_copy.sum())
        funnel.copies_of_dropped = len(copies) - funnel.copies_left - funnel.copies_of_kept
        funnel.near_duplicates = funnel.dropped - funnel.copies_of_kept - funnel.copies_of_dropped
        similarity = np.where(dropped, here.similarity, np.float32(1))
        changed = {"keep": keep, "duplicate_of": target, "similarity": similarity, "exact_copy": exact_copy}
        return replace(decision, **{name: ops.asarray(column) for name, column in changed.items()})

    def _stays(self, target: Numbers, cluster: Numbers, rank: Numbers, fixed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """bool [n]: whether `min_cluster` or `max_copies` keeps a document that is dropped without them.

        `target` [n] has the witnesses without them, `cluster` [n] the components, `rank` [n] ascends in decision order,
        and `fixed` [n] marks protected documents.
        """
        dropped = np.flatnonzero((target != np.arange(len(target))) & ~fixed[target])
        stays = np.zeros(len(target), bool)
        if self.min_cluster > 1:
            sizes = np.bincount(cluster, minlength=1)[cluster]
            stays[dropped] = sizes[dropped] < self.min_cluster
            dropped = dropped[~stays[dropped]]
        if self.max_copies > 1:
            ordered = dropped[np.lexsort((rank[dropped], target[dropped]))]
            of_each = np.unique(target[ordered], return_counts=True)[1]
            stays[ordered[within_runs(of_each) < self.max_copies - 1]] = True
        return stays
