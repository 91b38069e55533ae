"""Times by device events: medians over rounds that rotate through inputs larger than the cache."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from gpulsh.backends.cuda.launcher import Launcher

MIN_ROUNDS = 3  # even where the time is up


@dataclass(frozen=True)
class Times:
    """Seconds of each round, in order."""

    seconds: list[float]

    @property
    def median(self) -> float:
        return median(self.seconds)

    def columns(self) -> dict[str, Any]:
        """The columns of a table row."""
        return {
            "median ms": self.median * 1e3,
            "min ms": min(self.seconds) * 1e3,
            "max ms": max(self.seconds) * 1e3,
            "rounds": len(self.seconds),
        }


def by_events(cupy: Any, calls: Sequence[Callable[[], Any]], rounds: int, limit: float) -> Times:
    """Each of `calls` once to warm up, then `rounds` of them in turn, fewer if that takes over `limit` seconds.

    A call does the same work on another input; with enough of them none finds its input in the cache. An event stands
    before and behind each call, so pauses in which the device waits for the host count.
    """
    for call in calls:
        call()
    seconds: list[float] = []
    began = time.perf_counter()
    for turn in range(rounds):
        if turn >= MIN_ROUNDS and time.perf_counter() - began > limit:
            break
        before, behind = cupy.cuda.Event(), cupy.cuda.Event()
        before.record()
        made = calls[turn % len(calls)]()
        behind.record()
        behind.synchronize()
        seconds.append(cupy.cuda.get_elapsed_time(before, behind) / 1e3)
        del made  # its memory goes back to the pool before the next round asks for the same
    return Times(seconds)


def by_clock(call: Callable[[], Any], rounds: int, limit: float, *, warm: bool = True) -> tuple[Times, list[Any]]:
    """The host's clock around calls that end with their result on the host, and what each call gave."""
    if warm:
        call()
    seconds: list[float] = []
    given: list[Any] = []
    began = time.perf_counter()
    for turn in range(rounds):
        if turn >= 1 and time.perf_counter() - began + seconds[-1] > limit:
            break
        start = time.perf_counter()
        given.append(call())
        seconds.append(time.perf_counter() - start)
    return Times(seconds), given


class TimingLauncher:
    """Another launcher; while `watching`, with events around each launch, which say where an operation's time goes."""

    def __init__(self, cuda: Any, launch: Launcher) -> None:
        self._cuda, self._launch = cuda, launch
        self._events: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
        self.bytes: dict[str, int] = {}
        self.watching = False

    def __call__(self, file: str, kernel: str, blocks: tuple[int, int], threads: int, *arguments: Any) -> None:
        if not self.watching:
            return self._launch(file, kernel, blocks, threads, *arguments)
        before, behind = self._cuda.Event(), self._cuda.Event()
        before.record()
        self._launch(file, kernel, blocks, threads, *arguments)
        behind.record()
        self._events[kernel].append((before, behind))
        self.bytes[kernel] = sum(int(a.size) * a.dtype.itemsize for a in arguments if not isinstance(a, np.generic))

    def take(self) -> dict[str, dict[str, float]]:
        """For each kernel since the last call: launches, milliseconds in total, GB/s of the last launch's arrays."""
        self._cuda.Device().synchronize()
        found = {}
        for kernel, pairs in self._events.items():
            milliseconds = [float(self._cuda.get_elapsed_time(*pair)) for pair in pairs]
            found[kernel] = {
                "launches": len(milliseconds),
                "ms": sum(milliseconds),
                "GB/s": self.bytes[kernel] / max(milliseconds[-1], 1e-6) / 1e6,
            }
        self._events.clear()
        return found
