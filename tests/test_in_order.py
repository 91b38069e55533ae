"""Workers that share an iterator: order, errors, and an end in every case."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from gpulsh.backends.in_order import in_order


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(workers: int) -> None:
    def slow(item: int) -> int:
        time.sleep(0.003 * (item % 3))
        return item * item

    assert list(in_order(range(20), [slow] * workers)) == [item * item for item in range(20)]
    assert list(in_order([], [slow] * workers)) == []


def test_every_worker_takes_part() -> None:
    meeting = threading.Barrier(3, timeout=10)

    def worker(item: int) -> int:
        meeting.wait()  # passes only when three work at once
        return threading.get_ident()

    assert len(set(in_order(range(3), [worker] * 3))) == 3


def test_what_a_worker_raises_comes_in_its_place() -> None:
    def fails_at_two(item: int) -> int:
        if item == 2:
            raise ValueError("two")
        return item

    results = in_order(range(100), [fails_at_two] * 3)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(results)


def test_what_the_items_raise_comes_after_the_items_before() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    results = in_order(items(), [lambda item: item] * 2)
    assert next(results) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(results)


def test_it_does_not_run_ahead_and_stops_with_its_reader() -> None:
    taken = []

    def items() -> Iterator[int]:
        for item in range(1000):
            taken.append(item)
            yield item

    before = threading.active_count()
    results = in_order(items(), [lambda item: item] * 2)
    assert next(results) == 0
    time.sleep(0.05)
    assert len(taken) <= 6
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
