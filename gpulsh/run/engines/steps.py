"""Which tasks of a job are done, by the steps of its manifest; and progress of tasks that run in parallel."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from gpulsh.budget import TASK_MEMORY
from gpulsh.run.job import Made
from gpulsh.stats.stages import Progress
from gpulsh.store.manifest import Manifest, Step

ADMIT = "admit"  # the step that decides by an index; the index may have taken in what was decided
WORTH_BYTES = 256 << 20  # of signed text: so much work outlives an error; an interrupted run keeps all of it

_log = logging.getLogger("gpulsh")


class Steps:
    """The steps of a manifest."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest

    @property
    def secret(self) -> bytes:
        """That the run's evidence is computed under."""
        return self._manifest.secret

    def finished(self, step: str) -> Mapping[str, Any] | None:
        """The facts of a finished step, its files intact; None where it must be done, or done again."""
        found = self.recorded(step)
        return found.facts if found and self.intact(self._manifest.damaged(found)) else None

    def recorded(self, step: str) -> Step | None:
        """The step if it was finished; its files may be damaged since."""
        return self._manifest.find(step)

    def intact(self, damaged: str | None) -> bool:
        """Whether a finished step counts; warns of the file of it that is `damaged`."""
        if damaged is not None:
            _log.warning("%s is missing or damaged; it is computed again", damaged)
        return damaged is None

    def finish(self, step: str, made: Made) -> None:
        """Record a finished step."""
        self._manifest.add(step, made.files, made.facts, brief=made.brief)


def report_done(facts: Mapping[str, Any], unit: str, progress: Progress, *, before: bool = False) -> None:
    """Report a task, of a stage in `unit`, that another process did, or `before` the run that this one resumes."""
    progress.advance(facts.get("amount", 0))
    documents, size = (
        0 if unit == own else facts.get(name, 0) for name, own in (("documents", "documents"), ("bytes", "B"))
    )
    progress.count(documents=documents, size=size, dropped=facts.get("dropped", 0))
    if before:
        progress.done_before(facts.get("amount", 0), documents=documents, size=size)


def anything_finished(manifest: Manifest) -> bool:
    """Whether there is a step to resume from, which an interrupted run keeps."""
    return any(step.files for _, step in manifest.steps())


def worth_resuming(manifest: Manifest) -> bool:
    """Whether finished steps took so long that they stay after an error, too."""
    signed = sum(step.facts.get("bytes", 0) for name, step in manifest.steps() if name.startswith("sign-"))
    return bool(signed >= WORTH_BYTES) or manifest.find(ADMIT) is not None


def most_parallel(threads: int, memory: int) -> int:
    """How many tasks a process with so many threads and bytes does in parallel."""
    return max(1, min(threads, memory // TASK_MEMORY))


class Stopped(Exception):
    """The result of the task is not needed any more."""


class Attempt(Progress):
    """The progress of one attempt at a task, passed on to a listener by one thread at a time.

    Once it is `stopped`, the attempt ends when it next reports progress.
    """

    def __init__(self, listener: Progress, reporting: Lock, stopped: Callable[[], bool]) -> None:
        self._listener, self._reporting, self._stopped = listener, reporting, stopped
        self._advanced = 0
        self._counted: Counter[str] = Counter()

    def advance(self, amount: int) -> None:
        """As `Progress`."""
        if self._stopped():
            raise Stopped
        self._advanced += amount
        with self._reporting:
            self._listener.advance(amount)

    def count(self, **amounts: int) -> None:
        """As `Progress`."""
        self._counted.update(amounts)
        with self._reporting:
            self._listener.count(**amounts)

    def take_back(self) -> None:
        """Undoes the progress that this attempt reported."""
        with self._reporting:
            self._listener.advance(-self._advanced)
            self._listener.count(**{name: -amount for name, amount in self._counted.items()})
        self._advanced, self._counted = 0, Counter()
