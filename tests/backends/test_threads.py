"""Threads of the CPU backend: which thread works at which chunks, with one caller and with two; and vectors."""

from __future__ import annotations

from contextlib import ExitStack
from threading import Barrier, get_ident

import pytest

from gpulsh.backends.cpu.backend import MANY, CpuBackend
from gpulsh.backends.cpu.threads import Threads, by_count
from gpulsh.backends.cpu.vectors import width
from gpulsh.backends.protocol import Backend

SECONDS = 60  # at most, until others are at work, too


def check_all_work(threads: Threads) -> None:
    together = Barrier(threads.count, timeout=SECONDS)
    places = by_count(2 * threads.count, 1)
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
        lane.map(chunk, by_count(alone + 4, 1))
    check_all_work(threads)


@pytest.mark.parametrize("place", [0, 5])
def test_threads_that_failed_work_again(place: int) -> None:
    def fails(start: int, _: int) -> None:
        if start == place:
            raise ValueError("this one")

    threads = Threads(2)
    with pytest.raises(ValueError, match="this one"):
        threads.map(fails, by_count(6, 1))
    check_all_work(threads)


def test_many_items_and_many_tasks_take_a_thread_each() -> None:
    backend, together = CpuBackend(3), Barrier(3, timeout=SECONDS)

    def counted(ops: Backend, item: int) -> tuple[int, int]:
        if item < 3:
            together.wait()  # all three work
        assert isinstance(ops, CpuBackend)
        return item, ops.threads.count

    many = range(MANY * 3)
    assert list(backend.pipelined_map(many, counted)) == [(item, 1) for item in many]
    assert [backend.beside(tasks).threads.count for tasks in (1, 2, 3, 8)] == [3, 3, 1, 1]


def test_the_width() -> None:
    assert width("+avx2,+avx512f,+sse2") == 512
    assert width("+avx2,-avx512f,+sse2") == 256
    assert width("-avx2,-avx512f,+sse2") == width("") == width("+neon") == 128
