"""Work that does not fit in memory is halved: halves come in order, and nothing is left of a failed attempt."""

from __future__ import annotations

import weakref
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.parts import halves_of_batch, halves_of_numbers, in_fitting_halves
from gpulsh.errors import DeviceMemoryError


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 30))
def test_all_items_come_in_order(sizes: list[int], room: int) -> None:
    """Items that fit are worked on together; an item that does not fit comes alone."""
    size = np.array(sizes)

    def work(items: Numbers) -> list[int]:
        if size[items].sum() > room:
            raise DeviceMemoryError("too much")
        return items.tolist()

    found = list(in_fitting_halves(np.arange(len(size)), work, halves_of_numbers, lambda item: [-1 - int(item[0])]))
    assert [number for items, _ in found for number in items.tolist()] == list(range(len(size)))
    for items, worked in found:
        whole = int(size[items].sum()) <= room
        assert worked == items.tolist() if whole else (len(items) == 1 and worked == [-1 - int(items[0])])
    assert len(found) == 1 or int(size.sum()) > room
    if max(sizes) > room:  # and nobody takes one alone
        with pytest.raises(DeviceMemoryError, match="too much"):
            list(in_fitting_halves(np.arange(len(size)), work, halves_of_numbers))


def test_nothing_of_an_attempt_is_left_for_the_next() -> None:
    attempts: list[weakref.ref[Numbers]] = []

    def work(items: Numbers) -> int:
        assert all(attempt() is None for attempt in attempts)
        held = np.zeros(100)
        attempts.append(weakref.ref(held))
        if len(items) > 1:
            raise DeviceMemoryError("too much")
        return len(items)

    assert [worked for _, worked in in_fitting_halves(np.arange(6), work, halves_of_numbers)] == [1] * 6


@given(st.lists(st.integers(0, 50), min_size=2, max_size=20), st.integers(0, 5))
def test_documents_are_halved_by_bytes(sizes: list[int], before: int) -> None:
    offset = np.concatenate([[before], before + np.cumsum(sizes)])
    batch = TextBatch(np.arange(int(offset[-1]), dtype=np.uint8), offset)
    parts = halves_of_batch(batch)
    assert [len(part) > 0 for part in parts] == [True, True]
    texts = [part.values[part.offset[i] : part.offset[i + 1]].tobytes() for part in parts for i in range(len(part))]
    assert texts == [batch.values[a:b].tobytes() for a, b in pairwise(offset)]
    first = int(parts[0].offset[-1] - parts[0].offset[0])
    assert abs(2 * first - sum(sizes)) <= 2 * max(sizes)
