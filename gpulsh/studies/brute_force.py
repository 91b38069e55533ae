"""The exact answer for a sample: how many shingles any two of its documents share, without a sketch or a filter.

Documents that share a shingle stand together in its list. Most lists are short, and walking them counts little more
than the pairs that share anything; the few that a large part of all documents stand in are counted as a product of
matrices. A block of documents is counted against all later ones at a time, so that memory follows the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Arrays, Fingerprints, Numbers
from gpulsh.errors import ParameterError
from gpulsh.params import check_integer
from gpulsh.ragged import cuts, offsets, within_runs
from gpulsh.theory import SCurve

FINE = 1000  # steps of similarity in which pairs are counted
FREQUENT = 16  # of so many documents one has a frequent shingle
CELLS = 1 << 22  # counts of a block, and steps along lists
SPARSE = 16  # cells a step above which steps are sorted, not counted
COLUMNS = 512  # frequent shingles in a product


@dataclass(frozen=True, eq=False, repr=False)
class Spread(Arrays):
    """How similar the pairs of n documents are: `pairs` in all, and of those that share a shingle, by similarity,
    `counts` int64 [FINE] and the `sums` float64 [FINE] of their similarities.
    """

    pairs: int
    counts: Numbers = field(repr=False)
    sums: NDArray[np.float64] = field(repr=False)

    def expected(self, curve: SCurve, below: float = np.inf) -> float:
        """How many of the pairs, of those less similar than `below`, the banding of `curve` is expected to find."""
        some = self.counts > 0
        means = np.minimum(self.sums[some] / self.counts[some], 1.0)
        return float((self.counts[some] * curve.probability(means))[means < below].sum())

    def histogram(self, bins: int) -> Numbers:
        """int64 [bins]: the pairs that share a shingle, in so many equal steps of similarity; `bins` divides FINE."""
        if FINE % check_integer("bins", bins, 1, FINE):
            raise ParameterError(f"bins is {bins}; give a divisor of {FINE}")
        counts: Numbers = self.counts.reshape(bins, -1).sum(axis=1)
        return counts


def brute_force(sets: Fingerprints, threshold: float) -> tuple[Spread, Numbers, NDArray[np.float64]]:
    """The spread of all pairs of `sets`, whose rows ascend without repeats, on the host; and those with a Jaccard
    similarity of at least `threshold`: int64 [m, 2], i < j, lexicographic, and float64 [m].
    """
    count, sizes = len(sets), sets.lengths
    counts, sums = np.zeros(FINE, np.int64), np.zeros(FINE)
    pairs, similar = [np.empty((0, 2), np.int64)], [np.empty(0)]
    for i, j, both in shared_counts(sets):
        similarity = both / (sizes[i] + sizes[j] - both)
        step = np.minimum((similarity * FINE).astype(np.int64), FINE - 1)
        counts += np.bincount(step, minlength=FINE)
        sums += np.bincount(step, similarity, FINE)
        enough = similarity >= threshold
        pairs.append(np.stack([i[enough], j[enough]], axis=1))
        similar.append(similarity[enough])
    return Spread(count * (count - 1) // 2, counts, sums), np.concatenate(pairs), np.concatenate(similar)


def shared_counts(sets: Fingerprints) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """Every pair of rows i < j that share a value, and how many they share: int64 [m] each, a block of rows at a time.

    Rows hold distinct values. Pairs are lexicographic.
    """
    lists = _Lists.of(sets)
    count = len(sets)
    for start, stop in cuts(lists.work, CELLS, max(CELLS // max(count, 1), 1)):
        steps = lists.steps(start, stop)
        size = (stop - start) * count
        if len(steps) * SPARSE < size and not len(lists.frequent):
            cells, both = np.unique(steps, return_counts=True)
        else:
            shared = np.bincount(steps, minlength=size).reshape(-1, count)
            for first in range(0, len(lists.frequent), COLUMNS):
                part = lists.frequent[first : first + COLUMNS].astype(np.float32)
                product = part[:, start:stop].T @ part  # below 2^24, exact
                shared += np.triu(product, start + 1).astype(np.int64)
            cells = np.flatnonzero(shared)
            both = shared.ravel()[cells]
        i, j = np.divmod(cells, count)
        yield i + start, j, both


@dataclass(frozen=True, eq=False)
class _Lists:
    """The documents of each rare value, end to end, and the flags of the documents of each frequent one."""

    documents: Numbers  # [r] ascending within a list
    owner: Numbers  # [r] of each membership, in the order of documents
    begin: Numbers  # [r] where the later ones of its list begin
    later: Numbers  # [r] and how many there are
    work: Numbers  # [n + 1] steps of each document, end to end
    frequent: NDArray[np.bool_]  # [values, n]

    @classmethod
    def of(cls, sets: Fingerprints) -> _Lists:
        count = len(sets)
        owner = np.repeat(np.arange(count), sets.lengths)
        _, slot, met = np.unique(sets.values[sets.offset[0] : sets.offset[-1]], return_inverse=True, return_counts=True)
        often = met * FREQUENT > max(count, FREQUENT)
        flags = np.zeros((int(often.sum()), count), bool)
        known = often[slot]
        flags[(np.cumsum(often) - 1)[slot[known]], owner[known]] = True
        rare = (met[slot] > 1) & ~known
        owner, slot = owner[rare], slot[rare]
        order = np.argsort(slot, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        later = np.cumsum(np.where(often, 0, np.where(met > 1, met, 0)))[slot] - place - 1
        steps = offsets(np.bincount(owner, later, count).astype(np.int64))
        return cls(owner[order], owner, place + 1, later, steps, flags)

    def steps(self, start: int, stop: int) -> Numbers:
        """(i - start) * n + j for each rare value that a row i of [start, stop) shares with a later one j."""
        count = len(self.work) - 1
        some = slice(*np.searchsorted(self.owner, [start, stop]))
        later = self.later[some]
        others = self.documents[np.repeat(self.begin[some], later) + within_runs(later)]
        cells: Numbers = np.repeat((self.owner[some] - start) * count, later) + others
        return cells
