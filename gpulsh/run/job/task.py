"""A task: a pure function from files of the work folder, and the inputs, to files of the work folder.

Whoever runs it gives it a workplace. What it makes follows from the job and the task alone, so that it may run again,
anywhere, after whatever end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpulsh.account.progress import Progress
from gpulsh.account.stages import StageRow
from gpulsh.backends.protocol import Backend
from gpulsh.facts import Facts
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.held_texts import HeldTexts
from gpulsh.run.job.job import Job
from gpulsh.secret import EvidenceKeys
from gpulsh.store.durable import FileFact


@dataclass(frozen=True)
class Workplace:
    """Where a task runs: the work folder, and what works there."""

    job: Job
    folder: Path
    ops: Backend
    progress: Progress
    keys: EvidenceKeys
    abreast: int = 1  # so many share the memory: tasks, and what is held
    held: HeldTexts | None = None  # of what tasks before it read

    def texts(self) -> FileTexts:
        """The documents of the job's files."""
        return self.job.texts(self.ops, self.abreast, self.held)

    def unchanged(self, files: Iterable[int]) -> AbstractContextManager[None]:
        """ChangedInputError where one of the files of these numbers is changed before the context is left."""
        return self.job.stamps.unchanged(files)


@dataclass(frozen=True)
class Made:
    """What a task made: files, relative to the work folder and durable, and facts as JSON has them. It is `brief` where
    it was soon made, and soon is again, should the power go.

    Of the facts, `amount` is how much of its stage's total the task was; `documents`, `bytes` and `dropped` are told to
    who watches.
    """

    files: Mapping[str, FileFact] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)
    brief: bool = False


@dataclass(frozen=True)
class Task:
    """`work(workplace, *arguments)`, a function of a module and what can be sent to a worker; `step` is its name."""

    step: str
    work: Callable[..., Made]
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True)
class Stage:
    """Tasks that need nothing of one another, and the row of the table that they are shown as."""

    row: StageRow
    tasks: Sequence[Task]
    abreast: bool = False  # whether a task leaves threads of the backend idle, so that others may run beside it


class Runner(Protocol):
    """Who runs tasks."""

    resumed: set[str]  # stages of which tasks were found done, by a run that this one goes on with

    def run(self, stage: Stage) -> list[Facts]:
        """The facts of each task, in order, once all are done and their files are durable."""


def tallied(facts: Sequence[Facts], name: str) -> int:
    """The sum of a fact over tasks."""
    return sum(int(fact.get(name, 0)) for fact in facts)
