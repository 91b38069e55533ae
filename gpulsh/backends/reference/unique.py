"""unique: `numpy.unique` row by row; and rows as a list of arrays, for the oracle's other files."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from gpulsh.arrays import Fingerprints, Rows


def unique(fingerprints: Fingerprints) -> Fingerprints:
    return from_rows(map(np.unique, rows_of(fingerprints)))


def rows_of(rows: Rows) -> list[np.ndarray]:
    """Each row as its own array."""
    return [rows.values[start:stop] for start, stop in pairwise(rows.offset.tolist())]


def from_rows(rows: Iterable[ArrayLike]) -> Fingerprints:
    """Rows laid end to end."""
    arrays = [np.asarray(row, np.uint64) for row in rows]
    offset = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
    return Fingerprints(np.concatenate([np.empty(0, np.uint64), *arrays]), offset)
