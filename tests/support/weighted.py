"""Weighted rows for tests: of random weights, and with awkward ones."""

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpulsh.arrays import WeightedFingerprints

SCALES: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "ones": lambda generator, size: np.ones(size),
    "counts": lambda generator, size: generator.geometric(0.3, size).astype(np.float64),
    "uniform": lambda generator, size: generator.random(size) + 1e-3,
    "skewed": lambda generator, size: np.exp(3 * generator.normal(size=size)),
    "any": lambda generator, size: 2.0 ** generator.integers(-1022, 1023, size) * (1 + generator.random(size)),
}
AWKWARD = [1.0, 2.0, 1.5, 0.75, 1 / 3, 1e-9, 2.0**-24, 3e-24, 5e-324, 2.0**-1022, 2.0**-1023, 1.7e308, 2.0**1023, 1e6]
weights = st.one_of(st.sampled_from(AWKWARD), st.floats(1e-6, 1e6))
weighted_tables = st.lists(st.dictionaries(st.integers(0, 2**64 - 1), weights, max_size=6), max_size=4)
numbers = st.one_of(st.just(0.0), weights)


def rows_of(table: list[dict[int, float]], before: int = 0) -> WeightedFingerprints:
    """Rows end to end, behind `before` values that belong to none."""
    pairs = [(7, 1.0)] * before + [pair for row in table for pair in sorted(row.items())] + [(9, 2.0)]
    offset = before + np.cumsum([0, *map(len, table)], dtype=np.int64)
    return WeightedFingerprints(np.array([x for x, _ in pairs], np.uint64), np.array([w for _, w in pairs]), offset)


def random_rows(lengths: list[int], scale: str = "skewed", seed: int = 1) -> WeightedFingerprints:
    """Rows of given lengths."""
    generator = np.random.default_rng(seed)
    values = [np.sort(generator.integers(0, 2**64, size, np.uint64)) for size in lengths]
    weight = SCALES[scale](generator, sum(lengths))
    return WeightedFingerprints(
        np.concatenate([np.empty(0, np.uint64), *values]), weight, np.cumsum([0, *lengths], dtype=np.int64)
    )
