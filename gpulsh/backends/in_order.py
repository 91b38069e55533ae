"""Workers that share one iterator of work, with the results in the order of the items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Condition, Thread
from typing import Generic, NoReturn, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(items: Iterable[Item], workers: Sequence[Callable[[Item], Result]]) -> Iterator[Result]:
    """Each worker, on a thread of its own, takes the next item as soon as it is free.

    Items are taken one at a time, by whichever thread asks, so `items` need not be safe for threads; it is never more
    than two items a worker ahead of who reads the results. What an item or a worker raises is raised here in its place,
    and when the reader stops, so do the workers.
    """
    queue: _Queue[Item, Result] = _Queue(items, 2 * len(workers))
    threads = [Thread(target=queue.serve, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield from queue.results()
    finally:
        queue.close()
        for thread in threads:
            thread.join()


class _Queue(Generic[Item, Result]):
    """Items not yet taken and results not yet read, under one lock."""

    def __init__(self, items: Iterable[Item], ahead: int) -> None:
        self._items, self._ahead = iter(items), ahead
        self._changed = Condition()
        self._taking = False  # a thread is in `next`, outside the lock
        self._taken = self._read = 0
        self._ended = False  # nothing more is to be taken
        self._done: dict[int, Callable[[], Result]] = {}

    def serve(self, worker: Callable[[Item], Result]) -> None:
        """Work until nothing is left."""
        while (taken := self._take()) is not None:
            number, item = taken
            del taken  # an item may be as large as memory allows: nothing of it is held while the next one is made
            try:
                result = worker(item)
            except BaseException as error:
                self._finish(number, _raising(error))
            else:
                self._finish(number, _returning(result))
            del item

    def _take(self) -> tuple[int, Item] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or (not self._taking and self._taken - self._read < self._ahead))
            if self._ended:
                return None
            self._taking = True
            number = self._taken
        try:
            item = next(self._items)
        except StopIteration:
            self._taken_one(ended=True)
            return None
        except BaseException as error:
            self._taken_one(ended=True, counted=True)
            self._finish(number, _raising(error))
            return None
        self._taken_one(counted=True)
        return number, item

    def _taken_one(self, *, ended: bool = False, counted: bool = False) -> None:
        with self._changed:
            self._taking = False
            self._ended = self._ended or ended
            self._taken += counted
            self._changed.notify_all()

    def _finish(self, number: int, result: Callable[[], Result]) -> None:
        with self._changed:
            self._done[number] = result
            self._changed.notify_all()

    def results(self) -> Iterator[Result]:
        """Each result when it is its turn."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._read in self._done or (self._ended and self._read == self._taken))
                if self._read not in self._done:
                    return
                result = self._done.pop(self._read)
                self._read += 1
                self._changed.notify_all()
            yield result()

    def close(self) -> None:
        """Nothing more is taken."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def _returning(result: Result) -> Callable[[], Result]:
    return lambda: result


def _raising(error: BaseException) -> Callable[[], NoReturn]:
    def throw() -> NoReturn:
        raise error

    return throw
