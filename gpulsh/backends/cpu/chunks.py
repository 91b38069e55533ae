"""Work split into contiguous chunks of rows of about equal weight, run by a pool of threads.

Numba's own `parallel=True` is not used: its thread layers abort or hang when entered twice or after a fork, and it
takes longer to compile.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.ragged import offsets

CHUNK_BYTES = 1 << 18  # of text; it, its tokens and its fingerprints stay in the second-level cache

NO_ROWS = Fingerprints(np.empty(0, np.uint64), np.zeros(1, np.int64))

Result = TypeVar("Result")


class Threads:
    """A fixed number of threads; one means the caller's own."""

    def __init__(self, count: int) -> None:
        self.count = count

    def map(self, work: Callable[[int, int], Result], chunks: list[tuple[int, int]]) -> list[Result]:
        """`work(start, stop)` for each chunk, results in the order of the chunks.

        The caller's thread works along: woken for every result, it would take time from those that work.
        """
        if self.count == 1 or len(chunks) < 2:
            return [work(start, stop) for start, stop in chunks]
        results: dict[int, Result] = {}
        waiting = deque(range(len(chunks)))

        def drain() -> None:
            while True:
                try:
                    place = waiting.popleft()
                except IndexError:
                    return
                results[place] = work(*chunks[place])

        pool = _pool(self.count - 1, os.getpid())
        others = [pool.submit(drain) for _ in range(min(self.count, len(chunks)) - 1)]
        try:
            drain()
        finally:
            waiting.clear()  # something is left only where this thread failed
            wait(others)
        while others:  # none is named here: what a failed one held would stay until a cycle is collected
            others.pop().result()
        return [results[place] for place in range(len(chunks))]

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
