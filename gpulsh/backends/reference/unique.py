"""unique: `numpy.unique` row by row; and rows as a list of arrays, for the oracle's other files."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Fingerprints


def unique(fingerprints: Fingerprints) -> Fingerprints:
    rows = [np.unique(row) for row in rows_of(fingerprints)]
    return from_rows(rows)


def rows_of(fingerprints: Fingerprints) -> list[np.ndarray]:
    """Each row as its own array."""
    offset = fingerprints.offset
    return [fingerprints.values[offset[i] : offset[i + 1]] for i in range(len(fingerprints))]


def from_rows(rows: list[np.ndarray]) -> Fingerprints:
    """Rows laid end to end."""
    offset = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Fingerprints(np.concatenate([np.empty(0, np.uint64), *rows]).astype(np.uint64), offset)
