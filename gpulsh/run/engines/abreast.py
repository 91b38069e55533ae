"""Tasks side by side in one process, which share its memory: one that meets a large document is done alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from threading import Condition, Lock
from typing import Any

from gpulsh.account.progress import Progress
from gpulsh.budget import TASK_MEMORY
from gpulsh.errors import LargeDocumentError
from gpulsh.run.job.task import Made, Workplace


def most_abreast(threads: int, memory: int) -> int:
    """How many tasks a process with so many threads and bytes does side by side."""
    return max(1, min(threads, memory // TASK_MEMORY))


class Abreast:
    """At one workplace at most `most` threads, each with a task. What is held there shares the memory as one more."""

    def __init__(self, place: Workplace, most: int) -> None:
        self._place = place
        self._sharing = most + (place.held is not None)
        self._changed, self._telling = Condition(), Lock()
        self._running = 0  # tasks
        self._secluded = 0  # those that wait to be alone, or are
        self._stopped = False

    def do(self, work: Callable[..., Made], *arguments: Any) -> Made:
        """`work(workplace, *arguments)`. Others may run beside it while no document takes more than their share.

        One that does cannot always be told beforehand, so the task is then begun again when it is alone.
        """
        attempt = _Attempt(self._place.progress, self._telling, lambda: self._stopped)
        try:
            with self._running_now(alone=False):
                return work(replace(self._place, progress=attempt, abreast=self._sharing), *arguments)
        except LargeDocumentError:
            if self._sharing == 1:
                raise
            attempt.take_back()
        with self._running_now(alone=True):
            if self._place.held is not None:
                self._place.held.close()
            return work(replace(self._place, progress=attempt, held=None), *arguments)

    def stop(self) -> None:
        """Nothing more begins, and what runs ends when it next tells of its progress."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @contextmanager
    def _running_now(self, *, alone: bool) -> Iterator[None]:
        """A task runs inside: beside others, unless one waits to be `alone`, or when no other does."""
        with self._changed:
            self._secluded += alone
            self._changed.wait_for(lambda: self._stopped or not (self._running if alone else self._secluded))
            if self._stopped:
                raise _Stopped
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._secluded -= alone
                self._changed.notify_all()


class _Stopped(Exception):
    """Nobody waits for the task any more."""


class _Attempt:
    """What one attempt at a task tells of its progress, to a listener that hears one thread at a time."""

    def __init__(self, listener: Progress, telling: Lock, stopped: Callable[[], bool]) -> None:
        self._listener, self._telling, self._stopped = listener, telling, stopped
        self._advanced = 0
        self._counted: dict[str, int] = {}

    def stage(self, name: str, total: int | None, unit: str) -> AbstractContextManager[None]:
        """Stages are begun by whoever runs their tasks."""
        raise NotImplementedError

    def advance(self, amount: int) -> None:
        """As `Progress`."""
        if self._stopped():
            raise _Stopped
        self._advanced += amount
        with self._telling:
            self._listener.advance(amount)

    def count(self, **amounts: int) -> None:
        """As `Progress`."""
        for name, amount in amounts.items():
            self._counted[name] = self._counted.get(name, 0) + amount
        with self._telling:
            self._listener.count(**amounts)

    def done_before(self, amount: int, *, documents: int = 0, size: int = 0) -> None:
        """Told by whoever runs tasks."""
        raise NotImplementedError

    def take_back(self) -> None:
        """What was told is not so."""
        with self._telling:
            self._listener.advance(-self._advanced)
            self._listener.count(**{name: -amount for name, amount in self._counted.items()})
        self._advanced, self._counted = 0, {}
