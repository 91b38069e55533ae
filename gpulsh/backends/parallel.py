"""Share work among threads, and return the results in the order of the items."""

from __future__ import annotations

import os
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from gpulsh.arrays import TextBatch
from gpulsh.backends.cgroups import max_processors
from gpulsh.backends.protocol import Backend, Item, Result
from gpulsh.ragged import total_size

LARGE_BATCHES = 4  # a batch is large from this multiple of the backend's batch size on

# Idle pools by process and size. A thread reuses its memory; new threads would ask for fresh pages, which cost more
# than the work done in them.
_idle_pools: dict[tuple[int, int], list[ThreadPoolExecutor]] = defaultdict(list)


def processors() -> int:
    """Processors this process may run on, and whose time it may use."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(min(found, max_processors()))


def is_python() -> bool:
    """Whether this process is Python, and not a program that embeds it."""
    return Path(sys.executable or "").name.startswith("python")


def python_command(code: str) -> list[str]:
    """The command that runs `code` in another process, which imports from the same places."""
    return [sys.executable, "-c", f"import sys; sys.path[:] = sys.argv[1:]; {code}", *sys.path]


def pipelined_map(items: Iterable[Item], workers: Sequence[Callable[[Item], Result]]) -> Iterator[Result]:
    """The result of each item, in order. Each worker has a thread and takes the next item as soon as it is free.

    One thread makes the items, so `items` need not be thread-safe. An item is made only when a worker is free to take
    it, and at most two items a worker are ahead of the reader. An error of an item or a worker is raised in its place.
    When the reader stops, the workers stop.
    """
    waiting = iter(items)
    free: SimpleQueue[Callable[[Item], Result] | None] = SimpleQueue()  # None: the reader has stopped
    for worker in workers:
        free.put(worker)

    def work(worker: Callable[[Item], Result], item: Item) -> Result:
        try:
            return worker(item)
        finally:
            free.put(worker)

    def begin() -> Future[Result] | None:
        """Start work on the next item; None if none is left."""
        worker = free.get()
        if worker is not None:
            try:
                return pool.submit(work, worker, next(waiting))
            except StopIteration:
                free.put(worker)
            except BaseException:
                free.put(worker)
                raise
        return None

    pool, maker = _take_pool(len(workers)), _take_pool(1)
    begun = deque(maker.submit(begin) for _ in range(2 * len(workers)))
    try:
        while (working := begun[0].result()) is not None:
            try:
                result = working.result()
            finally:
                del working  # or it would hold its result while the next one is made
            begun.popleft()
            begun.append(maker.submit(begin))
            yield result
            del result
    finally:
        free.put(None)
        for future in begun:
            future.cancel()
        for future in begun:
            if not future.cancelled() and future.exception() is None and (working := future.result()) is not None:
                wait([working])
        begun.clear()  # a failed future and its error would hold each other
        _idle_pools[os.getpid(), len(workers)].append(pool)
        _idle_pools[os.getpid(), 1].append(maker)


def _take_pool(size: int) -> ThreadPoolExecutor:
    """A pool of `size` threads for one caller."""
    idle = _idle_pools[os.getpid(), size]  # threads do not survive a fork
    with suppress(IndexError):
        return idle.pop()
    return ThreadPoolExecutor(size, thread_name_prefix="gpulsh")


def map_batches(
    ops: Backend, batches: Iterable[TextBatch], work: Callable[[Backend, TextBatch], Result]
) -> Iterator[Result]:
    """`ops.pipelined_map(batches, work)`, but no batch is made while a large one is in work.

    Two workers and a reader hold a batch each. That is little memory, unless a batch is a document of a fifth of the
    budget: the budget allows one such document, not three.
    """
    if isinstance(batches, Sequence) and len(batches) < 2:
        return ops.pipelined_map(batches, work)
    alone = Lock()  # held from the making of a large batch to the end of its work, by any thread
    most = LARGE_BATCHES * ops.sizes().batch

    def in_turn() -> Iterator[tuple[TextBatch, bool]]:
        waiting = iter(batches)
        while True:
            with alone:
                batch = next(waiting, None)
            if batch is None:
                return
            is_large = total_size(batch) > most
            if is_large:
                alone.acquire()
            yield batch, is_large
            del batch  # before the next one is made

    def work_alone(lane: Backend, item: tuple[TextBatch, bool]) -> Result:
        batch, is_large = item
        try:
            return work(lane, batch)
        finally:
            if is_large:
                alone.release()

    return ops.pipelined_map(in_turn(), work_alone)
