"""Who may contain whom: arriving documents, those held, and earlier ones that arrive with them.

Whoever contains a share t of a set A has one of any |A| - ceil(t |A|) + 1 of its fingerprints (`containment_join`):
here those that the fewest held documents have, in the one band of all fingerprints. Where more of A's are held by
nobody than t allows, nothing is looked up.
"""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.backends.prefixes import least_share, prefix_lengths
from gpulsh.backends.protocol import Backend
from gpulsh.decide.containment import Owners, containing_pairs
from gpulsh.index.holdings import Holdings
from gpulsh.index.meetings import Meetings
from gpulsh.index.readable import HeldSets
from gpulsh.lsh.collisions import Collisions
from gpulsh.lsh.pairs import distinct, packed, unpacked
from gpulsh.ragged import within_runs

NOBODY_CROWDED = np.empty(0, np.int64), np.empty((0, 1), np.int32)


def meet_containers(
    sets: Fingerprints, holdings: Holdings, threshold: float, ops: Backend, *, one_another: bool = True
) -> Meetings:
    """As `meetings.meet`, of the unique fingerprints `sets` [m] of arriving documents, none of them empty."""
    sizes, share = sets.lengths, least_share(threshold)
    prefixes = _rarest(sets, holdings, prefix_lengths(sizes, share))
    places, numbers = holdings.holders(np.zeros(len(prefixes.known), np.int64), prefixes.known)
    held, holders = np.unique(numbers, return_inverse=True)
    held_sizes = holdings.sizes(held)
    found = [np.empty(0, np.uint64)]
    for holder, row in prefixes.met_by(prefixes.known[places], holders):
        may = held_sizes[holder] >= share * sizes[row]
        found.append(distinct(packed(holder[may], row[may] + len(held))))
    if one_another and len(sets) > 1:
        arriving = HeldSets.of(holdings, held[:0], sets, ops)
        found.append(packed(*(containing_pairs(arriving, threshold, ops) + len(held)).T))
    return Meetings(held, Collisions(unpacked(distinct(np.concatenate(found))), *NOBODY_CROWDED))


def _rarest(sets: Fingerprints, holdings: Holdings, lengths: Numbers) -> Owners:
    """The first `lengths` [m] of each set in order of how many held documents have them, less those nobody has."""
    sizes = sets.lengths
    values, row = sets.values[sets.offset[0] : sets.offset[-1]], np.repeat(np.arange(len(sizes)), sizes)
    order, count = np.argsort(values, kind="stable"), np.empty(len(values), np.int64)
    count[order] = holdings.frequencies(values[order])
    known = np.flatnonzero(count)
    have = np.bincount(row[known], minlength=len(sizes))
    left = lengths - (sizes - have)
    known = known[(left > 0)[row[known]]]
    have = np.where(left > 0, have, 0)
    known = known[np.lexsort((count[known], row[known]))]
    chosen = known[within_runs(have) < np.repeat(left, have)]
    return Owners(values[chosen], row[chosen])
