"""How long kernels have been compiled in this process, which is no part of a stage's time, and who is told of it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock


class Compiling:
    """Seconds in which a kernel, or several at once, were compiled.

    Until then no garbage is collected: a compiler makes many objects that live on, which a collector would look through
    again and again.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running = 0
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
            listeners = list(self._listeners) if tell else []
        for listener in listeners:
            listener()

    def end(self) -> None:
        """It is compiled."""
        with self._lock:
            self._running -= 1
            if not self._running:
                self._seconds += time.perf_counter() - self._began
                if self._collects:
                    gc.enable()

    def seconds(self) -> float:
        """Since the process began, those of a kernel that is being compiled among them."""
        with self._lock:
            return self._seconds + (time.perf_counter() - self._began if self._running else 0.0)

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


COMPILING = Compiling()


class Stopwatch:
    """Seconds from its making on but for those in which kernels were compiled."""

    def __init__(self) -> None:
        self._start, self._compiled = time.perf_counter(), COMPILING.seconds()

    def seconds(self) -> float:
        """So far."""
        return max(time.perf_counter() - self._start - (COMPILING.seconds() - self._compiled), 0.0)
