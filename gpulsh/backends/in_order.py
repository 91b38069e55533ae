"""Workers that share one iterator of work, with the results in the order of the items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


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

    with ThreadPoolExecutor(len(workers)) as pool, ThreadPoolExecutor(1) as maker:
        begun = deque(maker.submit(begin) for _ in range(2 * len(workers)))
        try:
            while (working := begun.popleft().result()) is not None:
                begun.append(maker.submit(begin))
                try:
                    result = working.result()
                finally:
                    del working  # which an error would hold that it holds
                yield result
                del result
        finally:
            maker.shutdown(wait=False, cancel_futures=True)
            free.put(None)
