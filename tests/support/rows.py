"""Rows of fingerprints for tests, weighted ones too: awkward values and lengths; and bitwise comparison of results."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpulsh.arrays import Buckets, Fingerprints, Rows, SignedBatch, WeightedFingerprints

EDGES = [0, 1, 2**31, 2**32 - 1, 2**32, 2**54 - 1, 2**54, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
# Around every length at which code may change its path: lanes, blocks, spans, insertion sorts, tables.
LENGTHS = [0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 0, 0]
LENGTHS += [511, 512, 513, 700, 1024, 1025, 2047, 2048, 2049, 5000, 3, 0]
NORMAL = 3.29  # a normal deviate is farther from its mean, in deviations, once in a thousand times

hashes = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from(EDGES),
    st.integers(0, 40),  # no hashes at all
    st.integers(0, 7).map(lambda x: x << 61),
)
tables = st.lists(st.lists(hashes, max_size=60), max_size=10)


def table(rows: Sequence[Sequence[int]], before: int = 0) -> Fingerprints:
    """Rows end to end, after `before` values that belong to no row and before one more."""
    values = np.array([7] * before + [value for row in rows for value in row] + [9], np.uint64)
    return Fingerprints(values, before + np.cumsum([0, *map(len, rows)], dtype=np.int64))


def lists_of(rows: Fingerprints) -> list[list[int]]:
    return [rows.values[start:stop].tolist() for start, stop in pairwise(rows.offset.tolist())]


def random_table(lengths: Sequence[int], universe: int = 2**64) -> Fingerprints:
    """Rows of these lengths, from `universe` possible values spread evenly over 64 bits."""
    generator = np.random.default_rng(len(lengths))
    spread = np.uint64((2**64 - 1) // (universe - 1))
    return table([(generator.integers(0, universe, n, np.uint64) * spread).tolist() for n in lengths], before=3)


SCALES: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "ones": lambda generator, size: np.ones(size),
    "counts": lambda generator, size: generator.geometric(0.3, size).astype(np.float64),
    "uniform": lambda generator, size: generator.random(size) + 1e-3,
    "skewed": lambda generator, size: np.exp(3 * generator.normal(size=size)),
    "any": lambda generator, size: 2.0 ** generator.integers(-1022, 1023, size) * (1 + generator.random(size)),
}
ODD_WEIGHTS = [1.0, 2.0, 1.5, 0.75, 1 / 3, 1e-9, 2.0**-24, 3e-24, 5e-324, 2.0**-1022, 2.0**-1023, 1.7e308, 2.0**1023]
weights = st.one_of(st.sampled_from([*ODD_WEIGHTS, 1e6]), st.floats(1e-6, 1e6))
weighted_tables = st.lists(st.dictionaries(st.integers(0, 2**64 - 1), weights, max_size=6), max_size=4)
numbers = st.one_of(st.just(0.0), weights)


def weighted_of(table: list[dict[int, float]], before: int = 0) -> WeightedFingerprints:
    """Rows end to end, after `before` values that belong to no row."""
    pairs = [(7, 1.0)] * before + [pair for row in table for pair in sorted(row.items())] + [(9, 2.0)]
    offset = before + np.cumsum([0, *map(len, table)], dtype=np.int64)
    return WeightedFingerprints(np.array([x for x, _ in pairs], np.uint64), np.array([w for _, w in pairs]), offset)


def random_weighted(lengths: list[int], scale: str = "skewed", seed: int = 1) -> WeightedFingerprints:
    generator = np.random.default_rng(seed)
    values = [np.sort(generator.integers(0, 2**64, size, np.uint64)) for size in lengths]
    weight = SCALES[scale](generator, sum(lengths))
    return WeightedFingerprints(
        np.concatenate([np.empty(0, np.uint64), *values]), weight, np.cumsum([0, *lengths], dtype=np.int64)
    )


def same(found: Any, wanted: Any, asnumpy: Any = np.asarray) -> None:
    """Fail unless `found`, whose arrays `asnumpy` brings to the host, equals `wanted`."""
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b, asnumpy)
    elif isinstance(wanted, Rows | Buckets | SignedBatch | WeightedFingerprints):
        assert type(found) is type(wanted)
        for name in vars(wanted):
            same(getattr(found, name), getattr(wanted, name), asnumpy)
    else:
        found = asnumpy(found)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)
