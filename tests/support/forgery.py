"""What forges hashes that are sums under known keys: generalised birthday search, and lattice reduction.

Tests show with it that forgeries of public hashes, and of evidence whose secret is known, are real, and that they prove
nothing where the secret is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MODULUS = 1 << 64

Values = NDArray[np.uint64]  # [n, components]: every component is a number modulo 2^64


def summands(lists: Sequence[Values], target: Sequence[int], at_once: int) -> list[int]:
    """One place in each of 2^k lists so that the values there sum up to `target` (Wagner 2002: the k-tree algorithm).

    From the lowest bits on, pairs of lists are joined to one whose sums agree with the target in some bits more, of
    which `at_once` are kept.
    """
    lists = [values.copy() for values in lists]
    lists[-1] -= np.array(target, np.uint64)
    levels = len(lists).bit_length() - 1
    bits = 64 * len(target)
    step = bits // (levels + 1)
    made: list[list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = []
    for level in range(levels):
        low, high = level * step, bits if level == levels - 1 else (level + 1) * step
        joined = [_joined(lists[i], lists[i + 1], low, high, at_once) for i in range(0, len(lists), 2)]
        made.append([places for _, places in joined])
        lists = [values for values, _ in joined]
    places = [0]
    if len(lists[0]) == 0:
        raise AssertionError("no solution was found; begin with longer lists")
    for level_made in reversed(made):
        places = [int(side[place]) for place, pair in zip(places, level_made, strict=True) for side in pair]
    return places


def _joined(
    left: Values, right: Values, low: int, high: int, at_once: int
) -> tuple[Values, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Sums with zeros in bits [low, high), those below being zeros already, and what they are sums of."""
    wanted, here = _bits(~right + np.uint64(1), low, high), _bits(left, low, high)
    if high - low <= 16:
        order = np.argsort(wanted.astype(np.uint16), kind="stable")
        each = np.bincount(wanted.astype(np.int64), minlength=1 << 16)
        count, first = each[here], (np.cumsum(each) - each)[here]
    else:
        order = np.argsort(wanted, kind="stable")
        first = np.searchsorted(wanted[order], here, "left")
        count = np.searchsorted(wanted[order], here, "right") - first
    i = np.repeat(np.arange(len(here)), count)
    j = order[np.arange(len(i)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)]
    sums = left[i] + right[j]
    found = np.flatnonzero(_bits(sums, low, high) == 0)[:at_once]
    return sums[found], (i[found], j[found])


def _bits(values: Values, low: int, high: int) -> NDArray[np.uint64]:
    """Bits [low, high) of the components end to end, at most 64 of them."""
    found = np.zeros(len(values), np.uint64)
    for component in range(values.shape[1]):
        start, stop = max(low - 64 * component, 0), min(high - 64 * component, 64)
        if start < stop:
            mask = np.uint64((1 << (stop - start)) - 1)
            shift = np.uint64(64 * component + start - low)
            found |= (values[:, component] >> np.uint64(start) & mask) << shift
    return found


class LetterSums:
    """Finds letters whose code points times the keys of their places sum up to anything; about 26 places are enough.

    Close vectors of the lattice of zero sums, reduced by LLL (Lenstra, Lenstra, Lovász 1982; Babai 1986).
    """

    MIDDLE = ord("m")

    def __init__(self, keys: Sequence[int]) -> None:
        self._keys, count = keys, len(keys)
        self._inverse = pow(keys[0], -1, MODULUS)
        self._basis = [[MODULUS] + [0] * (count - 1)]
        for place in range(1, count):
            row = [-keys[place] * self._inverse % MODULUS] + [0] * (count - 1)
            row[place] = 1
            self._basis.append(row)
        self._orthogonal = _reduce(self._basis)

    def find(self, total: int) -> str:
        """Letters with this sum modulo 2^64."""
        missing = (total - self.MIDDLE * sum(self._keys)) * self._inverse % MODULUS
        vector = np.array([missing] + [0] * (len(self._keys) - 1), object)
        for row, direction in zip(reversed(self._basis), reversed(self._orthogonal), strict=True):
            vector = vector - _share(vector, direction) * np.array(row, object)
        letters = "".join(chr(self.MIDDLE + int(offset)) for offset in vector)
        assert letters.isascii() and letters.isalpha() and letters.islower(), letters
        return letters


def _share(vector: NDArray[Any], direction: NDArray[np.longdouble]) -> int:
    return int(np.rint(np.dot(vector.astype(np.longdouble), direction) / np.dot(direction, direction)))


def _reduce(basis: list[list[int]]) -> list[NDArray[np.longdouble]]:
    """LLL in place, with delta 0.99; the Gram-Schmidt vectors, in extended precision."""
    orthogonal = [_orthogonal(basis[0], [])]
    k = 1
    while k < len(basis):
        row = np.array(basis[k], object)
        for j in range(k - 1, -1, -1):
            while (share := _share(row, orthogonal[j])) != 0:
                row = row - share * np.array(basis[j], object)
        basis[k] = row.tolist()
        del orthogonal[k:]
        orthogonal.append(_orthogonal(basis[k], orthogonal))
        before = orthogonal[k - 1]
        mu = np.dot(row.astype(np.longdouble), before) / np.dot(before, before)
        if np.dot(orthogonal[k], orthogonal[k]) >= (0.99 - mu * mu) * np.dot(before, before):
            k += 1
            continue
        basis[k - 1], basis[k] = basis[k], basis[k - 1]
        del orthogonal[k - 1 :]
        orthogonal.append(_orthogonal(basis[k - 1], orthogonal))
        k = max(k - 1, 1)
    return orthogonal


def _orthogonal(row: Sequence[int], before: Sequence[NDArray[np.longdouble]]) -> NDArray[np.longdouble]:
    rest = np.array(row, np.longdouble)
    for _ in range(2):  # the second time for what was lost to rounding
        for other in before:
            rest = rest - np.dot(rest, other) / np.dot(other, other) * other
    return rest
