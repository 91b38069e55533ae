"""How long kernels have been compiled in this process, which is no part of a stage's time, and who is told of it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock


@dataclass(frozen=True)
class Compiled:
    """Kernels that were compiled, and how long that took while nothing else of a process could be done."""

    kernels: int = 0  # that were told of
    seconds: float = 0.0

    def since(self, before: Compiled) -> Compiled:
        """What has come to `before`."""
        return Compiled(self.kernels - before.kernels, self.seconds - before.seconds)


class Compiling:
    """Seconds in which a kernel, or several at once, were compiled.

    Until then no garbage is collected: a compiler makes many objects that live on, which a collector would look through
    again and again.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running = self._kernels = 0
        self._began = self._seconds = 0.0
        self._collects = False
        self._listeners: list[Callable[[], None]] = []

    def begin(self, *, tell: bool = True) -> None:
        """A kernel is about to be compiled; listeners hear of it unless it may come from a cache after all."""
        with self._lock:
            if not self._running:
                self._began = time.perf_counter()
                self._collects = gc.isenabled()
                gc.disable()
            self._running += 1
            self._kernels += tell
        if tell:
            self._tell()

    def end(self) -> None:
        """It is compiled."""
        with self._lock:
            self._running -= 1
            if not self._running:
                self._seconds += time.perf_counter() - self._began
                if self._collects:
                    gc.enable()

    def seconds(self) -> float:
        """Those of `so_far`."""
        return self.so_far().seconds

    def so_far(self) -> Compiled:
        """Since the process began, by it and by others for it; a kernel that is being compiled counts."""
        with self._lock:
            running = time.perf_counter() - self._began if self._running else 0.0
            return Compiled(self._kernels, self._seconds + running)

    def elsewhere(self, compiled: Compiled) -> None:
        """Other processes have compiled kernels, for which this one waited."""
        with self._lock:
            self._kernels += compiled.kernels
            self._seconds += compiled.seconds
        if compiled.kernels:
            self._tell()

    @contextmanager
    def told(self, listener: Callable[[], None]) -> Iterator[None]:
        """Inside, `listener` is called whenever a kernel is about to be compiled, by the thread that does it."""
        with self._lock:
            self._listeners.append(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)

    def _tell(self) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener()


COMPILING = Compiling()


class Stopwatch:
    """Seconds from its making on but for those in which kernels were compiled."""

    def __init__(self) -> None:
        self._start, self._compiled = time.perf_counter(), COMPILING.seconds()

    def seconds(self) -> float:
        """So far."""
        return max(time.perf_counter() - self._start - (COMPILING.seconds() - self._compiled), 0.0)
