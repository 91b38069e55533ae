"""Tasks side by side in one process: how many, and what each attempt at one tells of its progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Lock

from gpulsh.account.progress import Progress
from gpulsh.budget import TASK_MEMORY


def most_abreast(threads: int, memory: int) -> int:
    """How many tasks a process with so many threads and bytes does side by side."""
    return max(1, min(threads, memory // TASK_MEMORY))


class Stopped(Exception):
    """Nobody waits for the task any more."""


class Attempt(Progress):
    """The progress of one attempt at a task, passed on to a listener that hears one thread at a time.

    Once it is `stopped`, the attempt ends when it next reports progress. Whoever runs tasks tells of their stages.
    """

    def __init__(self, listener: Progress, telling: Lock, stopped: Callable[[], bool]) -> None:
        self._listener, self._telling, self._stopped = listener, telling, stopped
        self._advanced = 0
        self._counted: Counter[str] = Counter()

    def advance(self, amount: int) -> None:
        """As `Progress`."""
        if self._stopped():
            raise Stopped
        self._advanced += amount
        with self._telling:
            self._listener.advance(amount)

    def count(self, **amounts: int) -> None:
        """As `Progress`."""
        self._counted.update(amounts)
        with self._telling:
            self._listener.count(**amounts)

    def take_back(self) -> None:
        """Undoes the progress that this attempt reported."""
        with self._telling:
            self._listener.advance(-self._advanced)
            self._listener.count(**{name: -amount for name, amount in self._counted.items()})
        self._advanced, self._counted = 0, Counter()
