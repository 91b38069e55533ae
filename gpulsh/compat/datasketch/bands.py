"""How datasketch chooses bands and rows for a threshold."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=8)
def quadrature(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gauss and Legendre's nodes and weights."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


@lru_cache(maxsize=64)
def optimal_bands(threshold: float, num_perm: int, false_positive: float, false_negative: float) -> tuple[int, int]:
    """(bands, rows) of the least weighted area of false positives below and of false negatives above the threshold.

    The S-curve 1 - (1 - s^rows)^bands is a polynomial, which Gauss and Legendre's nodes integrate without error.

    >>> optimal_bands(0.9, 128, 0.5, 0.5)
    (5, 25)
    """
    nodes, weights = quadrature(num_perm // 2 + 1)
    choices = [(b, r) for b in range(1, num_perm + 1) for r in range(1, num_perm // b + 1)]
    bands, rows = (np.array(column, np.float64)[:, None] for column in zip(*choices, strict=True))

    def area(low: float, high: float, found: bool) -> NDArray[np.float64]:
        similarity = low + (high - low) * (nodes + 1) / 2
        missed = (1 - similarity**rows) ** bands
        return np.asarray(((1 - missed if found else missed) * weights).sum(axis=1) * (high - low) / 2)

    error = false_positive * area(0.0, threshold, True) + false_negative * area(threshold, 1.0, False)
    return choices[int(error.argmin())]
