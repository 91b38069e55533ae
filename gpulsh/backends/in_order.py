"""Workers that share one iterator of work, with the results in the order of the items."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# By process and number, those that nobody has: a thread keeps memory that it uses again, and new ones would ask for
# fresh pages, which cost more than the work done in them.
_free: dict[tuple[int, int], list[ThreadPoolExecutor]] = defaultdict(list)


def in_order(items: Iterable[Item], workers: Sequence[Callable[[Item], Result]]) -> Iterator[Result]:
    """Each worker takes the next item as soon as it is free, and works at it on a thread of its own.

    One thread makes the items, so `items` need not be safe for threads: each when a worker is free to take it, so that
    no other one is held then beside those that are worked at, and never more than two a worker ahead of who reads the
    results. What an item or a worker raises is raised here in its place, and when the reader stops, so do the workers.
    """
    waiting = iter(items)
    free: SimpleQueue[Callable[[Item], Result] | None] = SimpleQueue()  # None: nobody asks any more
    for worker in workers:
        free.put(worker)

    def work(worker: Callable[[Item], Result], item: Item) -> Result:
        try:
            return worker(item)
        finally:
            free.put(worker)

    def begin() -> Future[Result] | None:
        """The next item, worked at; None where none is left."""
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

    pool, maker = _taken(len(workers)), _taken(1)
    begun = deque(maker.submit(begin) for _ in range(2 * len(workers)))
    try:
        while (working := begun[0].result()) is not None:
            try:
                result = working.result()
            finally:
                del working  # which an error would hold that it holds
            begun.popleft()
            begun.append(maker.submit(begin))
            yield result
            del result
    finally:
        free.put(None)
        _end(begun)
        _free[os.getpid(), len(workers)].append(pool)
        _free[os.getpid(), 1].append(maker)


def _taken(count: int) -> ThreadPoolExecutor:
    """As many threads, which nobody else has until they are given back."""
    free = _free[os.getpid(), count]  # threads do not survive a fork
    with suppress(IndexError):
        return free.pop()
    return ThreadPoolExecutor(count, thread_name_prefix="gpulsh")


def _end(begun: deque[Future[Future[Result] | None]]) -> None:
    """Leave out what has not begun, and wait for the rest."""
    for future in begun:
        future.cancel()
    for future in begun:
        if not future.cancelled() and future.exception() is None and (working := future.result()) is not None:
            wait([working])
    begun.clear()  # or an error would hold what failed, and that the error
