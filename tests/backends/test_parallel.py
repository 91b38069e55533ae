"""Workers that share an iterator, work that is halved until it fits in memory, and the threads of the CPU backend."""

import signal
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from itertools import pairwise
from threading import Barrier, get_ident

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.cpu import MANY, CpuBackend
from gpulsh.backends.cpu.threads import Threads, ranges_of_size
from gpulsh.backends.cpu.vectors import width
from gpulsh.backends.parallel import map_batches, pipelined_map
from gpulsh.backends.parts import halves_of_batch, run_in_fitting_halves
from gpulsh.backends.protocol import Backend
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.cached import cached_value
from gpulsh.errors import DeviceMemoryError
from tests.support.runs import interrupted

halves = partial(np.array_split, indices_or_sections=2)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_all_workers_take_part_and_results_keep_their_order(workers: int) -> None:
    meeting = Barrier(workers, timeout=10)

    def slow(item: int) -> tuple[int, int]:
        if item < workers:
            meeting.wait()  # passes only when all work at once
        time.sleep(0.003 * (item % 3))
        return item, get_ident()

    found, threads = zip(*pipelined_map(range(20), [slow] * workers), strict=True)
    assert found == (*range(20),) and len(set(threads)) == workers
    assert list(pipelined_map([], [slow] * workers)) == []


def test_an_error_is_raised_at_its_item() -> None:
    def items() -> Iterator[int]:
        yield from (1, 1)
        raise OSError("the disk is gone")

    def inverse(item: int) -> float:
        return 1 / item

    for source, error in (([1, 1, 0, *[1] * 97], ZeroDivisionError), (items(), OSError)):
        found = pipelined_map(source, [inverse] * 3)
        assert [next(found), next(found)] == [1, 1]
        with pytest.raises(error):
            next(found)


def test_pipelined_map_reads_ahead_a_bounded_number_of_items() -> None:
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


def test_threads_are_reused_by_later_calls() -> None:
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


def test_an_interrupt_waits_for_the_items_in_work() -> None:
    ended = []

    def slow(item: int) -> None:
        time.sleep(0.3)
        ended.append(item)

    before = signal.signal(signal.SIGALRM, interrupted)
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

    there, held = weakref.WeakSet[Item](), []

    def items() -> Iterator[Item]:
        for _ in range(12):
            deadline = time.monotonic() + 2
            while there and time.monotonic() < deadline:  # until every worker has come to wait for the next one
                time.sleep(0.01)
            held.append(len(there))
            item = Item()
            there.add(item)
            yield item
            del item

    assert sum(pipelined_map(items(), [lambda item: 1] * workers)) == 12
    assert not any(held)


@pytest.mark.parametrize("backend", [ReferenceBackend(), CpuBackend(threads=1), CpuBackend(threads=2)])
def test_a_large_batch_is_alone_in_memory(backend: Backend) -> None:
    most = 4 * backend.sizes().batch
    sizes = [10, most + 1, 7, most + 1, most, 3]
    values, made, held = np.zeros(most + 1, np.uint8), list[weakref.ref[TextBatch]](), list[int]()

    def batches() -> Iterator[TextBatch]:
        for size in sizes:
            time.sleep(0.02)
            held.extend([int(batch.offset[-1]) for ref in made if (batch := ref()) is not None])
            batch = TextBatch(values, np.array([0, size]))
            made.append(weakref.ref(batch))
            yield batch
            del batch

    def slow(lane: Backend, batch: TextBatch) -> int:
        time.sleep(0.1)
        return int(batch.offset[-1])

    assert list(map_batches(backend, batches(), slow)) == sizes
    assert max(held, default=0) <= most
    with pytest.raises(TypeError):  # and one that fails does not block others
        list(map_batches(backend, [TextBatch(values, np.array([0, most + 1]))] * 5, lambda lane: 1))  # type: ignore[arg-type, misc, call-arg]


# --- halves


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 30))
def test_halves_that_fit_come_in_order(sizes: list[int], room: int) -> None:
    """Items that fit are worked on together; an item that does not fit comes alone."""
    size = np.array(sizes)

    def work(items: Numbers) -> list[int]:
        if size[items].sum() > room:
            raise DeviceMemoryError("too much")
        return items.tolist()

    found = list(run_in_fitting_halves(np.arange(len(size)), work, halves, lambda item: [-1 - int(item[0])]))
    assert [number for items, _ in found for number in items.tolist()] == list(range(len(size)))
    for items, worked in found:
        whole = int(size[items].sum()) <= room
        assert worked == items.tolist() if whole else (len(items) == 1 and worked == [-1 - int(items[0])])
    assert len(found) == 1 or int(size.sum()) > room
    if max(sizes) > room:  # and no worker takes one alone
        with pytest.raises(DeviceMemoryError, match="too much"):
            list(run_in_fitting_halves(np.arange(len(size)), work, halves))


def test_a_failed_attempt_leaves_no_memory_to_the_next() -> None:
    attempts: list[weakref.ref[Numbers]] = []

    def work(items: Numbers) -> int:
        assert all(attempt() is None for attempt in attempts)
        held = np.zeros(100)
        attempts.append(weakref.ref(held))
        if len(items) > 1:
            raise DeviceMemoryError("too much")
        return len(items)

    assert [worked for _, worked in run_in_fitting_halves(np.arange(6), work, halves)] == [1] * 6


@given(st.lists(st.integers(0, 50), min_size=2, max_size=20), st.integers(0, 5))
def test_batches_are_halved_by_bytes(sizes: list[int], before: int) -> None:
    offset = np.concatenate([[before], before + np.cumsum(sizes)])
    batch = TextBatch(np.arange(int(offset[-1]), dtype=np.uint8), offset)
    parts = halves_of_batch(batch)
    assert [len(part) > 0 for part in parts] == [True, True]
    texts = [part.values[part.offset[i] : part.offset[i + 1]].tobytes() for part in parts for i in range(len(part))]
    assert texts == [batch.values[a:b].tobytes() for a, b in pairwise(offset)]
    first = int(parts[0].offset[-1] - parts[0].offset[0])
    assert abs(2 * first - sum(sizes)) <= 2 * max(sizes)


# --- threads of the CPU backend


SECONDS = 60  # at most, until others work, too


def check_all_work(threads: Threads) -> None:
    together = Barrier(threads.count, timeout=SECONDS)
    places = ranges_of_size(2 * threads.count, 1)
    assert threads.map(lambda start, stop: (together.wait(), (start, stop))[1], places) == places


@pytest.mark.parametrize("count", [2, 3])
def test_all_threads_work_for_one_caller(count: int) -> None:
    threads = Threads(count)
    check_all_work(threads)
    check_all_work(threads)


def test_a_lane_works_alone_until_the_other_ends() -> None:
    threads, together, alone = Threads(2), Barrier(2, timeout=SECONDS), 3
    with threads.lane() as lane, ExitStack() as other:
        other.enter_context(threads.lane())

        def chunk(start: int, _: int) -> None:
            if start >= alone:
                together.wait()
            else:
                assert get_ident() == here
                if start == alone - 1:
                    other.close()

        here = get_ident()
        lane.map(chunk, ranges_of_size(alone + 4, 1))
    check_all_work(threads)


@pytest.mark.parametrize("place", [0, 5])
def test_threads_work_again_after_an_error(place: int) -> None:
    def fails(start: int, _: int) -> None:
        if start == place:
            raise ValueError("this one")

    threads = Threads(2)
    with pytest.raises(ValueError, match="this one"):
        threads.map(fails, ranges_of_size(6, 1))
    check_all_work(threads)


def test_many_items_take_one_thread_each() -> None:
    backend, together = CpuBackend(3), Barrier(3, timeout=SECONDS)

    def counted(ops: Backend, item: int) -> tuple[int, int]:
        if item < 3:
            together.wait()  # all three work
        assert isinstance(ops, CpuBackend)
        return item, ops.count

    many = range(MANY * 3)
    assert list(backend.pipelined_map(many, counted)) == [(item, 1) for item in many]
    assert [backend.shared_by(tasks).count for tasks in (1, 2, 3, 8)] == [3, 3, 1, 1]


def test_the_vector_width_follows_the_cpu_features() -> None:
    assert width("+avx2,+avx512f,+sse2") == 512
    assert width("+avx2,-avx512f,+sse2") == 256
    assert width("-avx2,-avx512f,+sse2") == width("") == width("+neon") == 128


# --- values that are made once, by any thread


class Squares:
    """Computing a square waits for another object's square in another thread."""

    def __init__(self, number: int, other: "Squares | None" = None) -> None:
        self.number, self.other, self.times = number, other, 0

    @cached_value
    def square(self) -> int:
        """The square."""
        self.times += 1
        if self.other is not None:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(getattr, self.other, "square").result(5)
        return self.number**2


def test_a_cached_value_is_computed_once_without_a_shared_lock() -> None:
    """A lock of the class would also outlive a fork, and its child would wait forever."""
    squares = Squares(3, Squares(2))
    assert (squares.square, squares.square, squares.times) == (9, 9, 1)
    assert squares.other is not None and squares.other.times == 1
    assert Squares.square.__doc__ == "The square."
