"""How datasketch chooses bands and rows for a threshold."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gpulsh.errors import ParameterError
from gpulsh.theory import checked_number


def chosen_bands(
    threshold: float, num_perm: int, weights: tuple[float, float], params: tuple[int, int] | None
) -> tuple[int, int]:
    """(bands, rows): `params`, or the best ones; ParameterError where an argument is wrong."""
    if not 0 <= checked_number("threshold", threshold) <= 1:
        raise ParameterError(f"threshold is {threshold}; give a similarity from 0 to 1")
    if num_perm < 2:
        raise ParameterError(f"num_perm is {num_perm}; give 2 or more")
    if any(not 0 <= weight <= 1 for weight in weights) or sum(weights) != 1:
        raise ParameterError(f"weights is {weights}; give two from 0 to 1 whose sum is 1")
    bands, rows = optimal_bands(threshold, num_perm, *weights) if params is None else params
    if bands * rows > num_perm:
        raise ParameterError(f"params is {params}, and num_perm {num_perm}; give bands * rows of at most num_perm")
    if bands < 2:
        raise ParameterError(f"there is {bands} band of {rows} values; give more num_perm, or params")
    return bands, rows


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
