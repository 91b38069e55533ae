"""The time that this process has spent compiling kernels, which no stage's time includes, and listeners for it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock


@dataclass(frozen=True)
class Compiled:
    """A number of compiled kernels, and the seconds in which a process did nothing else."""

    kernels: int = 0  # reported to listeners
    seconds: float = 0.0

    def since(self, before: Compiled) -> Compiled:
        """The difference to an earlier count."""
        return Compiled(self.kernels - before.kernels, self.seconds - before.seconds)


class Compiling:
    """Seconds in which one kernel, or several at once, were compiled.

    Meanwhile no garbage is collected: a compiler makes many objects that stay, and a collector would visit them again
    and again.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running = self._kernels = 0
        self._began = self._seconds = 0.0
        self._collects = False
        self._listeners: list[Callable[[], None]] = []

    def begin(self, *, notify: bool = True) -> None:
        """A kernel is about to be compiled. `notify=False` if it may still come from a cache."""
        with self._lock:
            if not self._running:
                self._began = time.perf_counter()
                self._collects = gc.isenabled()
                gc.disable()
            self._running += 1
            self._kernels += notify
        if notify:
            self._notify()

    def end(self) -> None:
        """Note that the kernel is compiled."""
        with self._lock:
            self._running -= 1
            if not self._running:
                self._seconds += time.perf_counter() - self._began
                if self._collects:
                    gc.enable()

    def seconds(self) -> float:
        """The seconds of `current_count`."""
        return self.current_count().seconds

    def current_count(self) -> Compiled:
        """The count since the process began, with other processes that it waited for and kernels in work."""
        with self._lock:
            running = time.perf_counter() - self._began if self._running else 0.0
            return Compiled(self._kernels, self._seconds + running)

    def count_elsewhere(self, compiled: Compiled) -> None:
        """Count kernels that other processes compiled while this one waited."""
        with self._lock:
            self._kernels += compiled.kernels
            self._seconds += compiled.seconds
        if compiled.kernels:
            self._notify()

    @contextmanager
    def listen(self, listener: Callable[[], None]) -> Iterator[None]:
        """Inside, the thread that is about to compile a kernel calls `listener`."""
        with self._lock:
            self._listeners.append(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)

    def _notify(self) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener()


COMPILING = Compiling()


class Stopwatch:
    """Seconds since it was made, without those in which kernels were compiled."""

    def __init__(self) -> None:
        self._start, self._compiled = time.perf_counter(), COMPILING.seconds()

    def seconds(self) -> float:
        """The seconds so far."""
        return max(time.perf_counter() - self._start - (COMPILING.seconds() - self._compiled), 0.0)
