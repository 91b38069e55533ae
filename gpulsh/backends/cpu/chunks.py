"""Work split into contiguous chunks of rows of about equal weight, run by a pool of threads.

Numba's own `parallel=True` is not used: its thread layers abort or hang when entered twice or after a fork, and it
takes longer to compile.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from copy import copy
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.ragged import offsets

CHUNK_BYTES = 1 << 18  # of text; it, its tokens and its fingerprints stay in the second-level cache
LONGEST_CHUNK = 1 << 20  # where each thread has so much

NO_ROWS = Fingerprints(np.empty(0, np.uint64), np.zeros(1, np.int64))

Result = TypeVar("Result")


class Threads:
    """A fixed number of threads; one means the caller's own.

    There may be several callers, each in a `lane`. To hand chunks over takes time: a caller works alone as long as all
    threads have work, and is helped with what is left as soon as one has none.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._idle = deque([None] * count)  # an item for each thread without work; who works takes one, if there is one
        self._in_lane = False

    @contextmanager
    def lane(self) -> Iterator[Threads]:
        """The same threads for a caller whose own is one of those with work as long as the context lasts."""
        same = copy(self)
        same._in_lane = True
        with self._busy():
            yield same

    def map(self, work: Callable[[int, int], Result], chunks: list[tuple[int, int]]) -> list[Result]:
        """`work(start, stop)` for each chunk, results in the order of the chunks.

        The caller's thread works along: woken for every result, it would take time from those that work.
        """
        if self.count == 1 or len(chunks) < 2:
            return [work(start, stop) for start, stop in chunks]
        results: dict[int, Result] = {}
        waiting = deque(range(len(chunks)))
        others: list[Future[None]] = []

        def places() -> Iterator[int]:
            with suppress(IndexError):
                while True:
                    yield waiting.popleft()

        def help_along() -> None:
            try:
                for place in places():
                    results[place] = work(*chunks[place])
            finally:
                self._idle.append(None)

        pool = _pool(self.count - 1, os.getpid())
        with nullcontext() if self._in_lane else self._busy():
            try:
                for place in places():
                    while len(others) < len(waiting) and self._take():
                        others.append(pool.submit(help_along))
                    results[place] = work(*chunks[place])
            finally:
                waiting.clear()  # something is left only where this thread failed
                wait(others)
        while others:  # none is named here: what a failed one held would stay until a cycle is collected
            others.pop().result()
        return [results[place] for place in range(len(chunks))]

    def alone(self) -> bool:
        """Whether nobody would help the caller now."""
        return self.count == 1 or (self._in_lane and not self._idle)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        taken = self._take()
        try:
            yield
        finally:
            if taken:
                self._idle.append(None)

    def _take(self) -> bool:
        with suppress(IndexError):
            self._idle.pop()
            return True
        return False

    def rows(self, work: Callable[[int, int], Fingerprints], chunks: list[tuple[int, int]]) -> Fingerprints:
        """The rows that `work(start, stop)` makes of each chunk, end to end."""
        parts = self.map(work, chunks)
        if len(parts) == 1:
            return parts[0]
        starts = offsets([len(part.values) for part in parts])
        values = np.empty(starts[-1], np.uint64)
        offset = np.zeros(1 + (chunks[-1][1] if chunks else 0), np.int64)

        def copy(number: int, _: int) -> None:  # by all threads: most of the time goes into first touching the pages
            (start, stop), part = chunks[number], parts[number]
            values[starts[number] : starts[number + 1]] = part.values
            offset[start + 1 : stop + 1] = part.offset[1:] + starts[number]
            parts[number] = NO_ROWS  # to hold less

        self.map(copy, by_count(len(chunks), 1))
        return Fingerprints(values, offset)


@cache
def _pool(count: int, pid: int) -> ThreadPoolExecutor:
    # The process id is part of the key: threads do not survive a fork.
    return ThreadPoolExecutor(count, thread_name_prefix="gpulsh")


def by_weight(offset: NDArray[np.int64], weight: int) -> list[tuple[int, int]]:
    """Rows cut where their running length passes a multiple of `weight`; a row is never split."""
    rows = len(offset) - 1
    if rows <= 0:
        return []
    if offset[-1] - offset[0] <= weight:
        return [(0, rows)]
    steps = np.arange(offset[0] + weight, offset[-1], weight, dtype=np.int64)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offset[:-1], steps), [rows]]))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def by_count(count: int, size: int) -> list[tuple[int, int]]:
    """[0, count) in pieces of `size`."""
    return [(start, min(start + size, count)) for start in range(0, count, size)]
