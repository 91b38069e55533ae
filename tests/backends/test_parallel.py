"""Workers that share an iterator: order, errors, and an end in every case."""

from __future__ import annotations

import signal
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.parallel import map_batches, pipelined_map
from gpulsh.backends.protocol import Backend
from gpulsh.backends.reference import ReferenceBackend


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(workers: int) -> None:
    def slow(item: int) -> int:
        time.sleep(0.003 * (item % 3))
        return item * item

    assert list(pipelined_map(range(20), [slow] * workers)) == [item * item for item in range(20)]
    assert list(pipelined_map([], [slow] * workers)) == []


def test_every_worker_takes_part() -> None:
    meeting = threading.Barrier(3, timeout=10)

    def worker(item: int) -> int:
        meeting.wait()  # passes only when three work at once
        return threading.get_ident()

    assert len(set(pipelined_map(range(3), [worker] * 3))) == 3


def test_an_error_comes_in_its_place() -> None:
    def fails_at_two(item: int) -> int:
        if item == 2:
            raise ValueError("two")
        return item

    def items() -> Iterator[int]:
        yield from (0, 1)
        raise OSError("the disk is gone")

    for found, error in (
        (pipelined_map(range(100), [fails_at_two] * 3), ValueError),
        (pipelined_map(items(), [fails_at_two] * 2), OSError),
    ):
        assert [next(found), next(found)] == [0, 1]
        with pytest.raises(error):
            next(found)


def test_it_does_not_run_ahead_and_stops_with_its_reader() -> None:
    taken, ended = [], []

    def items() -> Iterator[int]:
        for item in range(1000):
            taken.append(item)
            yield item

    def slow(item: int) -> int:
        time.sleep(0.05 if item else 0)
        ended.append(item)
        return item

    results = pipelined_map(items(), [slow] * 2)
    assert next(results) == 0
    time.sleep(0.02)
    assert len(taken) <= 6
    results.close()  # type: ignore[attr-defined]
    counts = len(taken), len(ended)
    time.sleep(0.15)
    assert counts == (len(taken), len(ended)) and len(ended) > 1


def test_threads_are_used_again_by_one_after_another() -> None:
    def by(_: int) -> int:
        time.sleep(0.01)
        return threading.get_ident()

    first = set(pipelined_map(range(8), [by] * 2))
    outer = pipelined_map(range(8), [by] * 2)
    assert len(first) == 2 and next(outer) in first
    assert not first & set(pipelined_map(range(8), [by] * 2))  # while the outer one has them
    assert set(outer) <= first
    count = threading.active_count()
    for _ in range(3):
        with suppress(ZeroDivisionError):
            list(pipelined_map([1, 0, 1, 1, 1, 1], [lambda item: 1 // item] * 2))
    assert threading.active_count() == count


def test_an_interrupt_waits_for_items_in_work() -> None:
    ended = []

    def slow(item: int) -> None:
        time.sleep(0.3)
        ended.append(item)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            list(pipelined_map(range(9), [slow]))
        assert ended == [0]
        time.sleep(0.5)
        assert ended == [0]
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_no_item_is_held_while_the_next_one_is_made(workers: int) -> None:
    class Item:
        pass

    there = weakref.WeakSet[Item]()
    most = 0

    def items() -> Iterator[Item]:
        nonlocal most
        for _ in range(12):
            deadline = time.monotonic() + 2
            while there and time.monotonic() < deadline:  # until every worker has come to wait for the next one
                time.sleep(0.01)
            most = max(most, len(there))
            item = Item()
            there.add(item)
            yield item
            del item

    assert sum(pipelined_map(items(), [lambda item: 1] * workers)) == 12
    assert most == 0


@pytest.mark.parametrize("backend", [ReferenceBackend(), CpuBackend(threads=1), CpuBackend(threads=2)])
def test_a_large_batch_is_alone_in_memory(backend: Backend) -> None:
    sizes = [10, 4 * backend.sizes().batch + 1, 7, 4 * backend.sizes().batch + 1, 4 * backend.sizes().batch, 3]
    values = np.zeros(max(sizes), np.uint8)
    made: list[weakref.ref[TextBatch]] = []
    held: list[int] = []

    def batches() -> Iterator[TextBatch]:
        for size in sizes:
            time.sleep(0.02)
            there = [batch for ref in made if (batch := ref()) is not None]
            held.append(max((int(batch.offset[-1]) for batch in there), default=0))
            del there
            batch = TextBatch(values, np.array([0, size]))
            made.append(weakref.ref(batch))
            yield batch
            del batch

    def slow(lane: Backend, batch: TextBatch) -> int:
        time.sleep(0.1)
        return int(batch.offset[-1])

    assert list(map_batches(backend, batches(), slow)) == sizes
    assert max(held) <= 4 * backend.sizes().batch


def test_a_large_batch_that_fails_does_not_block_others() -> None:
    backend = CpuBackend(threads=2)
    batch = TextBatch(np.zeros(4 * backend.sizes().batch + 1, np.uint8), np.array([0, 4 * backend.sizes().batch + 1]))

    def fails(lane: Backend, batch: TextBatch) -> int:
        raise ValueError("the first")

    with pytest.raises(ValueError, match="the first"):
        list(map_batches(backend, [batch] * 5, fails))
