"""In how many documents a shingle is, and the inverse of that in whole numbers, which are the same everywhere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpulsh.arrays import Array, Fingerprints

FRACTION = 16  # bits of a logarithm behind the point


class _Counted(NamedTuple):
    """Fingerprints uint64 [m], ascending, each once, and how many documents each is in, int64 [m]."""

    values: Array
    counts: Array


class DocumentFrequencies:
    """Counts of distinct fingerprints, 16 bytes each, on the device or the host that they are given on.

    They come in batches, which are kept as runs, each at most half as long as the one before it.
    """

    def __init__(self) -> None:
        self._runs: list[_Counted] = []
        self._documents = 0

    def add(self, fingerprints: Fingerprints) -> None:
        """More documents: unique rows."""
        self._documents += len(fingerprints)
        values = np.sort(fingerprints.values[int(fingerprints.offset[0]) : int(fingerprints.offset[-1])])
        self._push(values, np.arange(1, len(values) + 1, dtype=np.int64, like=values))
        while len(self._runs) > 1 and len(self._runs[-2].values) < 2 * len(self._runs[-1].values):
            self._merge()

    def weights(self, fingerprints: Fingerprints) -> Array:
        """int64 [nnz]: log2(documents + 1) - log2(documents with it) of fingerprints, all added, in units of 2^-16."""
        while len(self._runs) > 1:
            self._merge()
        values, counts = self._runs[0]
        if bool((counts == 1).any()):  # most are, and are better looked for in vain among the few that are not
            values, counts = self._runs[0] = _Counted(values[counts > 1], counts[counts > 1])
        found = np.ones_like(fingerprints.values, np.int64)
        if len(values):
            place = np.minimum(np.searchsorted(values, fingerprints.values), len(values) - 1)
            found = np.where(values[place] == fingerprints.values, counts[place], found)
        most = max(int(found.max()), 1) if len(found) else 1
        logarithms = log2(np.arange(1, most + 1, dtype=np.int64, like=found))
        return int(log2(np.array([self._documents + 1]))[0]) - logarithms[found - 1]

    def _merge(self) -> None:
        parts = self._runs.pop(), self._runs.pop()
        values, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(values, kind="stable")
        self._push(values[order], np.cumsum(counts[order]))

    def _push(self, values: Array, sums: Array) -> None:
        """Values, ascending, with repeats, and the sums of the counts up to each."""
        last = np.ones_like(values, bool)
        last[:-1] = values[1:] != values[:-1]
        ends = sums[last]
        counts = ends.copy()
        counts[1:] = ends[1:] - ends[:-1]
        self._runs.append(_Counted(values[last], counts))


def log2(numbers: Array) -> Array:
    """floor(2^16 log2) of int64 numbers from 1 to 2^31 - 1, but for the error of a rule in whole numbers.

    The rule: y is the number times the power of two that brings it into [2^31, 2^32); 16 times y becomes y * y >> 31
    and, where that is not below 2^32, is halved and the next bit of the fraction, from the highest on, is set.

    >>> log2(np.array([1, 2, 3, 1000])).tolist(), int(2**16 * np.log2(3))
    ([0, 65536, 103872, 653117], 103872)
    """
    exponent = sum((numbers >> np.int64(power) != 0).astype(np.int64) for power in range(1, 31))
    y = numbers.astype(np.uint64) << (31 - exponent).astype(np.uint64)
    found = exponent
    for _ in range(FRACTION):
        y = y * y >> np.uint64(31)
        carry = y >> np.uint64(32)
        y = y >> carry
        found = 2 * found + carry.astype(np.int64)
    return found
