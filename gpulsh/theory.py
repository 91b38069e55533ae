"""The theory of bandings and bits: the S-curve, the choice of bands, rows and distance, and the error of estimates.

A signature value agrees between two documents with probability s, their Jaccard similarity (Broder, Charikar, Frieze,
Mitzenmacher 2000, section 1). With `bands` bands of `rows` values each, they meet in at least one band with probability
1 - (1 - s^rows)^bands, an S-shaped curve (Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, section 3.4).

The probability that a bit of SimHash differs between two sets is their angle in half turns (Charikar 2002). At a
Jaccard similarity s the cosine is 2 s / (1 + s) if the sets are equally large, and greater if they are not.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import NormalDist
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpulsh.arrays import html_table
from gpulsh.checks import banding_name, check_integer, known_keywords, set_integer, shown
from gpulsh.errors import ParameterError
from gpulsh.params import MAX_NUM_PERM, Named, NearBits
from gpulsh.ragged import run_places

CAPTURE = 0.995  # the least probability, by default, of finding a pair at the threshold


@dataclass(frozen=True, kw_only=True)
class SCurve(Named):
    """The probability that two documents become a candidate pair, as a function of their Jaccard similarity.

    Parameters: `bands` and `rows`, integers from 1 to 65536. Raises `ParameterError` for any other.

    Source: Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, section 3.4.2.

    >>> curve = SCurve(bands=42, rows=3)
    >>> print(f"{curve.probability(0.5):.3f} {curve.probability(0.05):.3f}")
    0.996 0.005
    >>> print(
    ...     f"{curve.threshold:.3f} {curve.approximate_threshold:.3f} {curve.slope:.2f} {curve.width:.3f}"
    ... )
    0.252 0.288 4.13 0.303
    >>> print(f"{curve.similarity_at(0.5):.3f}")
    0.254
    """

    bands: int
    rows: int

    def __post_init__(self) -> None:
        set_integer(self, "bands", 1, MAX_NUM_PERM)
        set_integer(self, "rows", 1, MAX_NUM_PERM)

    def _repr_html_(self) -> str:
        similarity = np.linspace(0, 1, 101)
        probability = self.probability(similarity)
        points = " ".join(f"{3 * step},{100 - 100 * p:.1f}" for step, p in enumerate(probability.tolist()))
        line = f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="2"/>'
        rows = ((f"{similarity[step]:.1f}", f"{probability[step]:.4f}") for step in range(0, 101, 10))
        steepest = f"{self!r}, steepest at {self.threshold:.3f}"
        return f'<svg width="304" viewBox="-2 -2 304 104">{line}</svg>' + html_table(
            steepest, ("Jaccard similarity", "probability to meet"), rows
        )

    @overload
    def probability(self, similarity: float) -> np.float64: ...
    @overload
    def probability(self, similarity: Sequence[Any] | NDArray[Any]) -> NDArray[np.float64]: ...
    def probability(self, similarity: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Probability that documents of Jaccard `similarity` share at least one band: 1 - (1 - s^rows)^bands.

        Takes a number or an array of any shape, values in [0, 1]; gives float64 of the same shape.
        Raises `ParameterError` for a value that is NaN, outside [0, 1] or no number.

        >>> SCurve(bands=2, rows=2).probability([0.0, 0.5, 1.0])
        array([0.    , 0.4375, 1.    ])
        """
        s = _fractions("similarity", similarity)
        return _meeting(s, self.bands, self.rows)[()]  # a number for a number

    @overload
    def similarity_at(self, probability: float) -> np.float64: ...
    @overload
    def similarity_at(self, probability: Sequence[Any] | NDArray[Any]) -> NDArray[np.float64]: ...
    def similarity_at(self, probability: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Jaccard similarity at which documents share a band with `probability`: (1 - (1 - p)^(1/bands))^(1/rows).

        Takes a number or an array of any shape, values in [0, 1]; gives float64 of the same shape.
        Raises `ParameterError` for a value that is NaN, outside [0, 1] or no number.

        >>> print(f"{SCurve(bands=20, rows=5).similarity_at(0.99):.4f}")
        0.7288
        """
        p = _fractions("probability", probability)
        with np.errstate(divide="ignore", under="ignore"):
            return np.power(-np.expm1(np.log1p(-p) / self.bands), 1 / self.rows)[()]

    @property
    def threshold(self) -> float:
        """Similarity at which the curve is steepest: ((1 - 1/r) / (b - 1/r))^(1/r).

        It is 0 for several bands of one row, and 1 for one band of several rows. The curve of one band of one row is a
        straight line; here this is its middle, 0.5.
        """
        if self.bands == self.rows == 1:
            return 0.5
        inverse = 1 / self.rows
        return float(((1 - inverse) / (self.bands - inverse)) ** inverse)

    @property
    def approximate_threshold(self) -> float:
        """The well-known approximation of the threshold: (1/b)^(1/r)."""
        return float((1 / self.bands) ** (1 / self.rows))

    @property
    def slope(self) -> float:
        """dP/ds at `threshold`, the steepest of the curve: b r s^(r-1) (1 - s^r)^(b-1)."""
        b, r = self.bands, self.rows
        if r == 1 or b == 1:
            return float(b * r)
        # At the threshold s^r = (1 - 1/r) / (b - 1/r), so no power of s has to be taken.
        power = (1 - 1 / r) / (b - 1 / r)
        return float(b * r * power / self.threshold * math.exp((b - 1) * math.log1p(-power)))

    @property
    def width(self) -> float:
        """The range from rarely to almost always found: similarity_at(0.95) - similarity_at(0.05)."""
        return float(self.similarity_at(0.95) - self.similarity_at(0.05))


@known_keywords
def choose_banding(
    num_perm: int = 128, capture: tuple[float, float] = (0.5, 0.99), reject: tuple[float, float] = (0.05, 0.01)
) -> SCurve:
    """The banding with the most rows that meets two requirements.

    `capture` = (similarity, probability): documents of that similarity share a band with at least that probability.
    `reject` = (similarity, probability): documents of that similarity share a band with at most that probability.
    Among the bandings of at most `num_perm` signature values that meet both, it chooses the most rows (the fewest
    unwanted candidates), then the most bands. It does not integrate the curve: an area would weigh all similarities
    evenly, but in a corpus they are very unequally frequent.

    Raises `ParameterError` when no banding meets both. The message then names the closest: of the bandings that
    capture, the one with the least probability at the similarity to reject. Also raises it for a similarity outside
    [0, 1], a probability outside (0, 1), or a `reject` similarity that is not below the `capture` similarity.

    Source: Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, section 3.4.3.

    >>> choose_banding(num_perm=128, capture=(0.5, 0.99), reject=(0.05, 0.01))
    SCurve(bands=42, rows=3)
    """
    num_perm = check_integer("num_perm", num_perm, 1, MAX_NUM_PERM)
    capture_at, capture_by = checked_requirement("capture", capture)
    reject_at, reject_by = checked_requirement("reject", reject)
    if reject_at >= capture_at:
        raise ParameterError(
            f"reject is at similarity {reject_at:g} and capture at {capture_at:g}; "
            "give a similarity to reject below the one to capture"
        )
    every_rows = np.arange(1, num_perm + 1)
    max_bands = num_perm // every_rows
    rows = np.repeat(every_rows, max_bands)
    bands = run_places(max_bands) + 1
    captured, unwanted = _meeting(capture_at, bands, rows), _meeting(reject_at, bands, rows)
    met = np.flatnonzero((captured >= capture_by) & (unwanted <= reject_by))
    if met.size:
        best = met[-1]  # rows ascend, and bands within equal rows
        return SCurve(bands=int(bands[best]), rows=int(rows[best]))
    capturing = captured >= capture_by
    misses = unwanted if capturing.any() else np.maximum(capture_by - captured, unwanted - reject_by)
    best = int(np.argmin(np.where(capturing | ~capturing.any(), misses, np.inf)))
    raise ParameterError(
        f"no banding of num_perm={num_perm} has P({capture_at:g}) >= {capture_by:g} "
        f"and P({reject_at:g}) <= {reject_by:g}; closest is {banding_name(bands[best], rows[best])} "
        f"with {captured[best]:.4g} and {unwanted[best]:.4g}; give a larger --num-perm, or relax capture or reject"
    )


def default_banding(
    num_perm: int, threshold: float, capture: float = CAPTURE, *, bands: int | None = None, rows: int | None = None
) -> tuple[int, int]:
    """(bands, rows), where the caller may leave one or both open.

    Without both: the most rows, with bands = num_perm // rows, for which documents of Jaccard `threshold` meet with
    probability at least `capture`. Without one: num_perm // the other.

    Raises `ParameterError` if bands * rows exceeds `num_perm`, or if no banding reaches `capture` (the message names a
    `num_perm` that does). Also for a `threshold` outside (0, 1] or a `capture` outside (0, 1).

    >>> [default_banding(128, threshold) for threshold in (0.5, 0.7, 0.8, 0.9)]
    [(42, 3), (32, 4), (21, 6), (14, 9)]
    >>> default_banding(128, 0.8, rows=7)
    (18, 7)
    """
    num_perm = check_integer("num_perm", num_perm, 1, MAX_NUM_PERM)
    threshold = checked_threshold(threshold)
    capture = checked_number("capture", capture)
    if not 0 < capture < 1:
        raise ParameterError(f"capture is {capture!r}; give a probability above 0 and below 1")
    if bands is not None:
        bands = check_integer("bands", bands, 1, num_perm)
        rows = num_perm // bands if rows is None else rows
    if rows is not None:
        rows = check_integer("rows", rows, 1, num_perm)
        bands = num_perm // rows if bands is None else bands
        if bands * rows > num_perm:
            raise ParameterError(
                f"bands={bands} times rows={rows} is {bands * rows}, above num_perm={num_perm}; "
                "give fewer bands or rows, or a larger --num-perm"
            )
        return bands, rows

    every_rows = np.arange(1, num_perm + 1)
    reached = _meeting(threshold, num_perm // every_rows, every_rows) >= capture
    if reached.any():
        most = int(every_rows[np.flatnonzero(reached)[-1]])
        return num_perm // most, most
    # Bands of one row find the most, so the needed bands are the needed signature values.
    needed = fewest_bands(threshold, capture, 1, MAX_NUM_PERM)
    if needed is not None:
        remedy = f"give --num-perm {needed} or more, or bands and rows"
    else:
        remedy = f"not even the largest --num-perm, {MAX_NUM_PERM}, is enough; give bands and rows"
    raise ParameterError(
        f"num_perm is {num_perm}, and no banding of {num_perm} values finds pairs of similarity {threshold:g} "
        f"with probability {capture:g}; {remedy}, or a higher threshold"
    )


def fewest_bands(similarity: float, probability: float, rows: int, most: int) -> int | None:
    """The fewest bands, of at most `most`, that find pairs of `similarity` with `probability` or more, if any do."""
    every = range(1, most + 1)
    fewer = bisect_left(every, probability, key=lambda bands: float(_meeting(similarity, bands, rows)))
    return every[fewer] if fewer < most else None


def near_probability(near: NearBits, similarity: float) -> float:
    """Probability that the bits of two equally large sets of that Jaccard similarity differ in at most the distance.

    >>> bits = NearBits(bits=64, weights="set", seed=1, distance=16)
    >>> print(f"{near_probability(bits, 0.8):.3f} {near_probability(replace(bits, distance=3), 0.8):.4f}")
    0.987 0.0085
    """
    p = _bit_difference(similarity)
    term = total = (1 - p) ** near.bits  # the term of no differing bit, then of one more each time
    for differing in range(near.distance):
        term *= (near.bits - differing) / (differing + 1) * p / (1 - p)
        total += term
    return min(total, 1.0)


def meeting_probability(near: NearBits, similarity: float) -> float:
    """Probability that such sets meet in a table of a Hamming search: that two blocks of bits, or one, agree.

    >>> print(f"{meeting_probability(NearBits(bits=64, weights='set', seed=1, distance=3), 0.8):.3f}")
    0.116
    """
    p, blocks = _bit_difference(similarity), near.blocks
    ends = [near.bits * block // blocks for block in range(blocks + 1)]
    none, one = 1.0, 0.0  # probabilities that so many of the blocks so far are alike
    for start, stop in pairwise(ends):
        alike = (1 - p) ** (stop - start)
        none, one = none * (1 - alike), one * (1 - alike) + none * alike
    return 1 - none - (one if near.key_blocks == 2 else 0.0)


def default_distance(near: NearBits, threshold: float, probability: Callable[[NearBits, float], float]) -> NearBits:
    """`near` with the least distance at which pairs at `threshold` have a `probability` of at least CAPTURE.

    >>> bits = NearBits(bits=64, weights="set", seed=1, distance=0)
    >>> [default_distance(bits, threshold, near_probability).distance for threshold in (0.5, 0.8, 0.9, 1)]
    [27, 18, 14, 0]
    >>> [
    ...     default_distance(bits, threshold, meeting_probability).distance
    ...     for threshold in (0.5, 0.8, 0.9, 1)
    ... ]
    [17, 12, 9, 0]
    """
    threshold = checked_threshold(threshold)
    every = (replace(near, distance=distance) for distance in range(near.bits))
    return next(one for one in every if probability(one, threshold) >= CAPTURE or one.distance == near.bits - 1)


def _bit_difference(similarity: float) -> float:
    return math.acos(2 * similarity / (1 + similarity)) / math.pi


def epsilon_of_chance(size: int, functions: int, probability: float = 0.999) -> float:
    """The bound on the relative error of a min-wise independent family, for a set of `size` and `functions` of it.

    The error stays below it with this probability, if the counts of minima are nearly normal. `MinHash.epsilon`
    measures the error of a family.

    >>> round(epsilon_of_chance(50, 1 << 16), 2)
    0.12
    """
    each = probability ** (1 / size)
    return NormalDist().inv_cdf((1 + each) / 2) * math.sqrt((size - 1) / functions)


def _meeting(
    s: NDArray[np.float64] | float, bands: int | NDArray[np.int64], rows: int | NDArray[np.int64]
) -> NDArray[np.float64]:
    """1 - (1 - s^rows)^bands, by logarithms: no power rounds to 0 or 1 before the end."""
    with np.errstate(divide="ignore", under="ignore"):
        return np.asarray(-np.expm1(bands * np.log1p(-np.power(np.float64(s), rows))), np.float64)


def checked_threshold(value: float) -> float:
    """`value` as a float above 0 and at most 1, or a ParameterError."""
    threshold = checked_number("threshold", value)
    if not 0 < threshold <= 1:
        raise ParameterError(f"threshold is {threshold!r}; give a number above 0 and at most 1")
    return threshold


def checked_requirement(name: str, value: tuple[float, float]) -> tuple[float, float]:
    """(similarity, probability), or a ParameterError."""
    try:
        similarity, probability = () if isinstance(value, (set, frozenset)) else value  # a set has no order
    except (TypeError, ValueError):
        raise ParameterError(f"{name} is {shown(value)}; give two numbers, (similarity, probability)") from None
    similarity = float(_fractions(f"the similarity of {name}", checked_number(f"the similarity of {name}", similarity)))
    probability = checked_number(f"the probability of {name}", probability)
    if not 0 < probability < 1:
        raise ParameterError(f"the probability of {name} is {probability!r}; give a number above 0 and below 1")
    return similarity, probability


def checked_number(name: str, value: object) -> float:
    """`value` as a float, or a ParameterError that names the parameter."""
    array = _array(value)
    if array.ndim or array.dtype.kind not in "iuf":
        raise ParameterError(f"{name} is {shown(value)}; give a number")
    return float(array)


def _array(value: object) -> NDArray[Any]:
    """`value` as an array; an array of None if its rows have unequal length, NumPy lacks its type, or it is masked."""
    if np.ma.is_masked(value):
        return np.asarray(None)
    try:
        return np.asarray(value)
    except (NotImplementedError, ValueError):
        return np.asarray(None)


def _fractions(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """`value` as float64 within [0, 1], or a ParameterError that names the first value that is not."""
    given = _array(value)
    if given.size and given.dtype.kind not in "iuf":
        alone = isinstance(value, (str, bytes)) or not given.ndim
        what = f"is {shown(value)}" if alone else f"holds values of type {given.dtype}"
        raise ParameterError(f"{name} {what}; give a number from 0 to 1, or an array of them")
    array = given.astype(np.float64)
    wrong = ~((array >= 0) & (array <= 1))
    if wrong.any():
        at = np.argwhere(wrong)[0]
        where = f"[{', '.join(map(str, at))}]" if array.ndim else ""
        raise ParameterError(f"{name}{where} is {array[tuple(at)]}; give numbers from 0 to 1")
    return array
