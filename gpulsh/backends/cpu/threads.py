"""Work in contiguous chunks of rows of about equal weight, for a pool of threads; and the memory of kernels.

Numba's own `parallel=True` is not used: its thread layers abort or hang when entered twice or after a fork, and it
takes longer to compile.
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from copy import copy
from functools import cache
from typing import Self

import numpy as np

from gpulsh.arrays import Fingerprints, Words
from gpulsh.backends.protocol import Result
from gpulsh.errors import DeviceMemoryError
from gpulsh.ragged import offsets

MEMORY = 8 << 30  # default bytes that a run may use

NO_ROWS = Fingerprints(np.empty(0, np.uint64), np.zeros(1, np.int64))


class Threads:
    """A fixed number of threads, and the bytes that a run may use; one thread means the caller's own.

    There may be several callers, each in a `lane`. Handing chunks over takes time: a caller works alone while all
    threads have work. An idle thread helps it with the remaining chunks.
    """

    def __init__(self, count: int, memory: int = MEMORY) -> None:
        self.count, self.memory = count, memory
        self._idle = deque([None] * count)  # an item for each idle thread; a busy one takes an item, if there is one
        self._in_lane = False

    def single_threaded(self) -> Self:
        """This without other threads than the caller's."""
        one = copy(self)
        one.count = 1
        return one

    @contextmanager
    def lane(self) -> Iterator[Self]:
        """The same threads for a caller whose own thread is busy while the context lasts."""
        same = copy(self)
        same._in_lane = True
        with self._busy():
            yield same

    def map(self, work: Callable[[int, int], Result], ranges: Iterable[tuple[int, int]]) -> list[Result]:
        """`work(start, stop)` for each range, results in the order of the ranges.

        The caller's thread works, too: waking it for every result would take time from the others.
        """
        chunks = list(ranges)
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
        while others:  # no future is named: a failed one would keep its arrays until a cycle is collected
            others.pop().result()
        return [results[place] for place in range(len(chunks))]

    def is_busy(self) -> bool:
        """Whether no idle thread could help the caller now."""
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

    def rows(self, work: Callable[[int, int], Fingerprints], ranges: Iterable[tuple[int, int]]) -> Fingerprints:
        """The rows that `work(start, stop)` makes of each range, end to end."""
        chunks = list(ranges)
        parts = self.map(work, chunks)
        if len(parts) == 1:
            return parts[0]
        starts = offsets([len(part.values) for part in parts])
        values = np.empty(starts[-1], np.uint64)
        offset = np.zeros(1 + (chunks[-1][1] if chunks else 0), np.int64)

        def copy(number: int, _: int) -> None:  # by all threads: most of the time is the first touch of the pages
            (start, stop), part = chunks[number], parts[number]
            values[starts[number] : starts[number + 1]] = part.values
            offset[start + 1 : stop + 1] = part.offset[1:] + starts[number]
            parts[number] = NO_ROWS  # releases it

        self.map(copy, ranges_of_size(len(chunks), 1))
        return Fingerprints(values, offset)


@cache
def _pool(count: int, pid: int) -> ThreadPoolExecutor:
    # The process id is part of the key: threads do not survive a fork.
    return ThreadPoolExecutor(count, thread_name_prefix="gpulsh")


def ranges_of_size(count: int, size: int) -> list[tuple[int, int]]:
    """[0, count) in pieces of `size`."""
    return [(start, min(start + size, count)) for start in range(0, count, size)]


class Room:
    """The number of fingerprints that a result may still hold; threads share it."""

    def __init__(self, most: float = math.inf) -> None:
        self._most = self._left = most
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """Hold `count` more fingerprints, or fewer if it is negative.

        Raises DeviceMemoryError if they are too many; the caller then takes fewer documents, or smaller parts.
        """
        with self._lock:
            self._left -= count
            if self._left < 0:
                raise DeviceMemoryError(f"more than {self._most} fingerprints at once do not fit; give more memory")


class Scratch(threading.local):
    """Buffers that a thread reuses from chunk to chunk, because fresh pages cost more than the work done in them."""

    KEPT = 1 << 20  # elements; a longer buffer is for long chunks, and is not kept

    def __init__(self) -> None:
        self._buffers: dict[str, Words] = {}

    def take(self, name: str, count: int) -> Words:
        """An uninitialised uint64 [count] that is valid until this thread takes `name` again."""
        if count > self.KEPT:
            return np.empty(count, np.uint64)
        held = self._buffers.get(name)
        if held is None or len(held) < count:  # the first count may be 0
            held = self._buffers[name] = np.empty(max(count, 1 << 16), np.uint64)
        return held[:count]


SCRATCH = Scratch()  # names differ between files
