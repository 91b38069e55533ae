"""Tasks side by side in one process: how many, and what each attempt at one tells of its progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock

from gpulsh.account.progress import Progress
from gpulsh.budget import TASK_MEMORY


def most_abreast(threads: int, memory: int) -> int:
    """How many tasks a process with so many threads and bytes does side by side."""
    return max(1, min(threads, memory // TASK_MEMORY))


class Stopped(Exception):
    """Nobody waits for the task any more."""


class Attempt:
    """The `Progress` of one attempt at a task, to a listener that hears one thread at a time; it ends at its next word
    once it was `stopped`.
    """

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
            raise Stopped
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
        """Undo what this attempt told."""
        with self._telling:
            self._listener.advance(-self._advanced)
            self._listener.count(**{name: -amount for name, amount in self._counted.items()})
        self._advanced, self._counted = 0, {}
