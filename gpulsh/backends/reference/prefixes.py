"""frequencies and prefixes: counts one by one, and each row sorted by (count, value)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.reference.unique import from_rows, rows_of


def frequencies(fingerprints: Fingerprints, counts: NDArray[np.uint8]) -> NDArray[np.uint8]:
    totals = counts.tolist()
    for row in rows_of(fingerprints):
        for value in row.tolist():
            totals[_slot(value, len(counts))] += 1
    return np.array([min(total, 255) for total in totals], np.uint8)


def prefixes(fingerprints: Fingerprints, counts: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Fingerprints:
    chosen = []
    for row, length in zip(rows_of(fingerprints), lengths.tolist(), strict=True):
        ordered = sorted((int(counts[_slot(value, len(counts))]), value) for value in row.tolist())
        chosen.append(sorted(value for count, value in ordered[:length] if count > 1))
    return from_rows(chosen)


def rare_or_first(fingerprints: Fingerprints, counts: NDArray[np.uint8], rare: int, share: float) -> NDArray[np.int64]:
    """The `lengths` of `text_prefixes`."""
    lengths = []
    for row in rows_of(fingerprints):
        rares = sum(int(counts[_slot(value, len(counts))]) < rare for value in row.tolist())
        lengths.append(max(rares, min(len(row), len(row) - math.ceil(len(row) * share) + 1)))
    return np.array(lengths, np.int64)


def _slot(value: int, slots: int) -> int:
    return value >> (64 - (slots.bit_length() - 1))
