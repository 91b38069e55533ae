"""Which clusters of the evidence a report shows, and which dropped documents of each.

The choice depends on the evidence alone: what is drawn at random is drawn by a hash of the cluster's number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, Values

COUNTS = {"largest": 10, "random": 24, "above": 12, "below": 12}  # clusters of each kind
MEMBERS = 3  # dropped documents of each
LOOKED_AT = 64  # rows or clusters for each cluster that is shown: rows may be of few clusters, and these of copies
SCATTER = np.uint64(0x9E3779B97F4A7C15)  # odd: no two numbers become the same


def sampled(
    similarity: NDArray[np.float32], cluster: Numbers, labels: Numbers, sizes: Numbers, threshold: float
) -> dict[int, list[str]]:
    """Clusters by number, each with the kinds that it was picked as; `labels` and `sizes` are of all clusters.

    The largest, which are of no kind where they have one dropped document; some at random, of those with more than
    exact copies where there are any; and those with a document that is just above the threshold, or just below it, as a
    connected component may drop it.
    """
    near = np.flatnonzero(similarity < 1)
    pool = _drawn(labels, cluster[near])
    bound = np.float32(threshold)
    above, below = near[similarity[near] >= bound], near[similarity[near] < bound]
    picked = {
        "largest": labels[least(-sizes, COUNTS["largest"])],
        "random": pool[least(_scattered(pool), COUNTS["random"])],
        "above": cluster[above[least(similarity[above], COUNTS["above"] * LOOKED_AT)]],
        "below": cluster[below[least(-similarity[below], COUNTS["below"] * LOOKED_AT)]],
    }
    found: dict[int, list[str]] = {}
    for kind, numbers in picked.items():
        for number in list(dict.fromkeys(numbers.tolist()))[: COUNTS[kind]]:
            kinds = found.setdefault(number, [])
            if kind != "largest" or sizes[np.searchsorted(labels, number)] > 1:
                kinds.append(kind)
    return found


def _drawn(labels: Numbers, near: Numbers) -> Numbers:
    """int64, ascending: some clusters, of them those that are in `near` where there are any."""
    drawn = np.sort(labels[least(_scattered(labels), COUNTS["random"] * LOOKED_AT)])
    place = np.minimum(np.searchsorted(drawn, near), len(drawn) - 1)
    is_near = np.zeros(len(drawn), np.bool_)
    is_near[place[drawn[place] == near]] = True
    return drawn[is_near] if is_near.any() else drawn


def _scattered(labels: Numbers) -> NDArray[np.uint64]:
    return labels.astype(np.uint64) * SCATTER


def members(similarity: NDArray[np.float32], cluster: Numbers, number: int, threshold: float) -> Numbers:
    """The places of a few rows of a cluster, those next to the threshold first."""
    here = np.flatnonzero(cluster == number)
    return here[least(np.abs(similarity[here] - np.float32(threshold)), MEMBERS)]


def least(values: Values, count: int) -> Numbers:
    """int64: the places of the least values, `count` at most, in order; of equal ones the first.

    >>> least(np.array([3, 1, 2, 1]), 2).tolist()
    [1, 3]
    """
    places = np.arange(len(values))
    if len(values) > count:
        # Not `<=`: NaN, not measured, comes last, and where all are it is the bound.
        places = np.flatnonzero(~(values > np.partition(values, count - 1)[count - 1]))
    return places[np.argsort(values[places], kind="stable")][:count]
