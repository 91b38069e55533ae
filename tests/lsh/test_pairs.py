"""Pairs as packed numbers, and the orders that they are brought into."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.lsh.pairs import distinct_of, order_by, order_of, unpacked


@settings(max_examples=18)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=50), st.sampled_from([1, 1000, 2**28]))
def test_distinct_pairs_of_near_and_far_documents(pairs: list[tuple[int, int]], scale: int) -> None:
    i, j = (np.array([pair[side] for pair in pairs], np.uint32) * np.uint32(scale) for side in (0, 1))
    expected = np.array(sorted(set(zip(i.tolist(), j.tolist(), strict=True))), np.int64).reshape(-1, 2)
    np.testing.assert_array_equal(unpacked(distinct_of(i, j)), expected)


@given(st.lists(st.integers(0, 2**16 + 1), max_size=30))
@settings(max_examples=18)
def test_the_order_of_small_and_large_numbers(numbers: list[int]) -> None:
    expected = sorted(range(len(numbers)), key=numbers.__getitem__)
    assert order_of(np.array(numbers, np.int64), max(numbers, default=0) + 1).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30), st.sampled_from([1, 2**33]))
@settings(max_examples=18)
def test_the_order_of_columns(pairs: list[tuple[int, int]], scale: int) -> None:
    expected = sorted(range(len(pairs)), key=pairs.__getitem__)
    i, j = np.array(pairs, np.int64).T * scale
    assert order_by(i, j).tolist() == expected
