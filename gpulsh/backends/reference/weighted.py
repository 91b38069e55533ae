"""occurrences and weighted_overlap: counts and dictionaries of Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, WeightedFingerprints
from gpulsh.backends.reference.unique import rows_of, unique


def occurrences(fingerprints: Fingerprints) -> WeightedFingerprints:
    rows = unique(fingerprints)
    counts = [Counter(row.tolist()) for row in rows_of(fingerprints)]
    weight = [count[x] for count, row in zip(counts, rows_of(rows), strict=True) for x in row.tolist()]
    return WeightedFingerprints(rows.values, np.array(weight, np.float64), rows.offset)


def weighted_overlap(
    pairs: NDArray[np.int64], rows: WeightedFingerprints
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    cuts = [slice(*ends) for ends in zip(rows.offset[:-1].tolist(), rows.offset[1:].tolist(), strict=True)]
    sets = [dict(zip(rows.values[cut].tolist(), rows.weight[cut].tolist(), strict=True)) for cut in cuts]
    least, greatest = np.zeros(len(pairs)), np.zeros(len(pairs))
    for place, (i, j) in enumerate(pairs.tolist()):
        weights = [(sets[i].get(x, 0.0), sets[j].get(x, 0.0)) for x in sorted(sets[i].keys() | sets[j].keys())]
        least[place] = added(map(min, weights))
        greatest[place] = added(map(max, weights))
    return least, greatest


def added(weights: Iterable[float]) -> float:
    """In their order; Python's own sum corrects for rounding from 3.12 on."""
    total = 0.0
    for weight in weights:
        total += weight
    return total
