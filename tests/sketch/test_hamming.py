"""Distances of bit signatures, and the exact cosine of sets, against Python's integers and sets."""

from math import sqrt
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh import BitSignatures
from gpulsh.sketch.bits import ones
from tests.kernels.device_arrays import DeviceArray
from tests.support.rows import table

words = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])


@given(
    backend=st.sampled_from(["reference", "cpu"]),
    rows=st.lists(st.tuples(words, words), min_size=1, max_size=6),
    data=st.data(),
)
def test_hamming(backend: Any, rows: list[tuple[int, int]], data: Any) -> None:
    places = st.integers(0, len(rows) - 1)
    pairs = data.draw(st.lists(st.tuples(places, places), max_size=9))
    found = gpulsh.hamming(BitSignatures(np.array(rows, np.uint64)), pairs, backend=backend)
    wanted = [sum((a ^ b).bit_count() for a, b in zip(rows[i], rows[j], strict=True)) for i, j in pairs]
    assert found.tolist() == wanted and found.dtype == np.int64


@given(st.lists(words, max_size=9))
def test_ones_of_arrays_that_are_not_numpys(values: list[int]) -> None:
    array = np.array(values, np.uint64)
    assert ones(DeviceArray(array)).get().tolist() == ones(array).tolist() == [v.bit_count() for v in values]


def test_many_pairs() -> None:
    generator = np.random.default_rng(2)
    signatures, pairs = generator.integers(0, 2**64, (50, 6), np.uint64), generator.integers(0, 50, (50_000, 2))
    found = gpulsh.hamming(BitSignatures(signatures), pairs, backend="cpu")
    bits = np.unpackbits(signatures.view(np.uint8), axis=1)
    np.testing.assert_array_equal(found, (bits[pairs[:, 0]] != bits[pairs[:, 1]]).sum(axis=1))


@given(
    backend=st.sampled_from(["reference", "cpu"]),
    rows=st.lists(st.lists(st.integers(0, 9).map(lambda x: x << 60), max_size=12), min_size=2, max_size=5),
)
def test_cosine(backend: Any, rows: list[list[int]]) -> None:
    pairs = [(i, j) for i in range(len(rows)) for j in range(len(rows))]
    sets = [set(row) for row in rows]
    wanted = [len(sets[i] & sets[j]) / sqrt(max(len(sets[i]) * len(sets[j]), 1)) for i, j in pairs]
    found = gpulsh.cosine(table(rows, 1), pairs, backend=backend)
    assert found.tolist() == wanted and found.dtype == np.float64
    assert all(found[i * len(rows) + i] == (1 if row else 0) for i, row in enumerate(rows))
