"""The exact answer for a sample: how many shingles any two of its documents share, without a sketch or a filter.

Each shingle has a list of its documents. Most lists are short, and all pairs in them are counted one by one. Shingles
in a large part of all documents are counted as a product of matrices. A block of documents is counted against all later
ones at a time, so memory depends on the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Arrays, Fingerprints, Numbers
from gpulsh.errors import ParameterError
from gpulsh.params import check_integer
from gpulsh.ragged import cuts, offsets, ranges
from gpulsh.theory import SCurve

FINE = 1000  # steps of similarity in which pairs are counted
FREQUENT = 16  # a shingle is frequent if one of so many documents has it
CELLS = 1 << 22  # counts of a block, and steps along lists
COLUMNS = 512  # frequent shingles in a product


@dataclass(frozen=True, eq=False, repr=False)
class Spread(Arrays):
    """The similarities of all pairs of n documents: `pairs` is their number.

    For the pairs that share a shingle, `counts` int64 [FINE] and `sums` float64 [FINE] have the number and the sum of
    the similarities in each step of similarity.
    """

    pairs: int
    counts: Numbers = field(repr=False)
    sums: NDArray[np.float64] = field(repr=False)

    def expected(self, curve: SCurve, below: float = np.inf) -> float:
        """The expected number of candidate pairs of a banding, of similarity less than `below`."""
        some = self.counts > 0
        means = np.minimum(self.sums[some] / self.counts[some], 1.0)
        return float((self.counts[some] * curve.probability(means))[means < below].sum())

    def histogram(self, bins: int) -> Numbers:
        """int64 [bins]: the pairs that share a shingle, in equal steps of similarity; `bins` divides FINE."""
        if FINE % check_integer("bins", bins, 1, FINE):
            raise ParameterError(f"bins is {bins}; give a divisor of {FINE}")
        counts: Numbers = self.counts.reshape(bins, -1).sum(axis=1)
        return counts


def brute_force(sets: Fingerprints, threshold: float) -> tuple[Spread, Numbers, NDArray[np.float64]]:
    """The spread of all pairs of `sets`, and the pairs with a Jaccard similarity of at least `threshold`.

    Rows of `sets` ascend without repeats, on the host. The pairs are int64 [m, 2], i < j, lexicographic, with float64
    [m] similarities.
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
    count = len(sets)
    owner = np.repeat(np.arange(count), sets.lengths)
    _, slot, met = np.unique(sets.values[sets.offset[0] : sets.offset[-1]], return_inverse=True, return_counts=True)
    often = met * FREQUENT > max(count, FREQUENT)
    frequent = np.zeros((int(often.sum()), count), bool)  # whether a document has a frequent value
    known = often[slot]
    frequent[(np.cumsum(often) - 1)[slot[known]], owner[known]] = True

    # The lists of rare values, end to end: for each document of a list, the later ones in it are
    # documents[begin : begin + later].
    rare = (met[slot] > 1) & ~known
    owner, slot = owner[rare], slot[rare]
    order = np.argsort(slot, kind="stable")
    documents = owner[order]
    begin = np.empty(len(order), np.int64)
    begin[order] = np.arange(1, len(order) + 1)
    later = np.cumsum(np.where(often | (met < 2), 0, met))[slot] - begin
    work = offsets(np.bincount(owner, later, count).astype(np.int64))

    for start, stop in cuts(work, CELLS, max(CELLS // max(count, 1), 1)):
        some = slice(*np.searchsorted(owner, [start, stop]))
        others = documents[ranges(begin[some], later[some])]
        steps = np.repeat((owner[some] - start) * count, later[some]) + others
        shared = np.bincount(steps, minlength=(stop - start) * count).reshape(-1, count)
        for first in range(0, len(frequent), COLUMNS):
            part = frequent[first : first + COLUMNS].astype(np.float32)
            product = part[:, start:stop].T @ part  # below 2^24, exact
            shared += np.triu(product, start + 1).astype(np.int64)
        cells = np.flatnonzero(shared)
        i, j = np.divmod(cells, count)
        yield i + start, j, shared.ravel()[cells]
