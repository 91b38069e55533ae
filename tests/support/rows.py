"""Rows of fingerprints for tests: awkward values, awkward lengths, and values before and behind that belong to none."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from gpulsh.arrays import Fingerprints

EDGES = [0, 1, 2**31, 2**32 - 1, 2**32, 2**54 - 1, 2**54, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
# Around every length at which code may change its path: lanes, blocks, spans, insertion sorts, tables.
LENGTHS = [0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 0, 0]
LENGTHS += [511, 512, 513, 700, 1024, 1025, 2047, 2048, 2049, 5000, 3, 0]

hashes = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from(EDGES),
    st.integers(0, 40),  # no hashes at all
    st.integers(0, 7).map(lambda x: x << 61),
)
tables = st.lists(st.lists(hashes, max_size=60), max_size=10)


def table(rows: Sequence[Sequence[int]], before: int = 0) -> Fingerprints:
    """Rows end to end, behind `before` values that belong to none and before one more."""
    values = np.array([7] * before + [value for row in rows for value in row] + [9], np.uint64)
    return Fingerprints(values, before + np.cumsum([0, *map(len, rows)], dtype=np.int64))


def lists_of(rows: Fingerprints) -> list[list[int]]:
    """The values of each row."""
    return [rows.values[start:stop].tolist() for start, stop in pairwise(rows.offset.tolist())]


def random_table(lengths: Sequence[int], universe: int = 2**64) -> Fingerprints:
    """Rows of these lengths, of `universe` values from the least to the greatest distance."""
    generator = np.random.default_rng(len(lengths))
    spread = np.uint64((2**64 - 1) // (universe - 1))
    return table([(generator.integers(0, universe, n, np.uint64) * spread).tolist() for n in lengths], before=3)
