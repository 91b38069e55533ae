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

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.checks import set_integer
from gpulsh.decide.counts.counts import Sightings, kept_sightings
from gpulsh.errors import ParameterError
from gpulsh.ragged import run_places

MAX_POLICY = 1 << 40


@dataclass(frozen=True)
class Retention:
    """The policies of a run; 1 is no policy."""

    min_cluster: int = 1
    max_copies: int = 1
    min_sources: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            set_integer(self, field.name, 1, MAX_POLICY)
        if self.min_sources > 1 and (self.min_cluster > 1 or self.max_copies > 1):
            other = "--min-cluster" if self.min_cluster > 1 else "--max-copies"
            raise ParameterError(f"--min-sources and {other} are both given; give one of them")

    @classmethod
    def from_arguments(cls, min_cluster: int | None, max_copies: int | None, min_sources: int | None) -> Retention:
        """The policies that a caller gives; None is 1, no policy."""
        given = (min_cluster, max_copies, min_sources)
        return cls(*(1 if value is None else value for value in given))

    def to_json(self) -> dict[str, int]:
        """The policies that are given."""
        return {field.name: number for field in fields(self) if (number := getattr(self, field.name)) > 1}

    def apply(
        self, target: Numbers, cluster: Numbers, rank: Numbers, fixed: NDArray[np.bool_], sightings: Sightings | None
    ) -> tuple[Numbers, NDArray[np.bool_]]:
        """(int64 [n], bool [n]): the witness of each document by these policies, itself if it has none; and the kept.

        `target` [n] has the witnesses without them, and `cluster` [n] the components. `rank` [n] ascends in decision
        order. `fixed` [n] marks protected documents and all duplicates of one, even with another witness.
        """
        place = np.arange(len(target))
        dropped = np.flatnonzero((target != place) & ~fixed)
        stays = np.zeros(len(target), bool)
        if self.min_cluster > 1:
            sizes = np.bincount(cluster, minlength=1)[cluster]
            stays[dropped] = sizes[dropped] < self.min_cluster
            dropped = dropped[~stays[dropped]]
        if self.max_copies > 1:
            ordered = dropped[np.lexsort((rank[dropped], target[dropped]))]
            of_each = np.unique(target[ordered], return_counts=True)[1]
            stays[ordered[run_places(of_each) < self.max_copies - 1]] = True
        target = np.where(stays, place, target)
        keep = target == place
        if self.min_sources > 1:
            kept, which = np.unique(target, return_inverse=True)
            sources = kept_sightings(target, kept, sightings or Sightings.from_one_source()).sources
            left_out = ((sources < self.min_sources) & ~fixed[kept])[which]
            keep &= ~left_out
            target = np.where(left_out, place, target)
        return target, keep


NO_POLICIES = Retention()
