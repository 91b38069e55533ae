"""A job over files, and its tasks: what to do with which files, how the work is cut, and where documents are.

A task is a pure function from inputs and files of the work folder to files of the work folder. What it makes follows
from the job and the task alone, so it may run again, anywhere, after any end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.budget import Cut
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.form import USUAL, Form
from gpulsh.io.files.held_texts import HeldTexts
from gpulsh.io.files.readers import Reader, open_files
from gpulsh.io.files.stamps import Stamps
from gpulsh.io.limits import Limit
from gpulsh.io.outputs.conversion import FormatName
from gpulsh.io.packing import Packing
from gpulsh.method import Method
from gpulsh.params import SCHEME
from gpulsh.run.policy import Policy
from gpulsh.secret import EvidenceKeys
from gpulsh.stats.stages import Progress, StageRow
from gpulsh.store.durable import FileFact

Write = Literal["data", "duplicates"]
OnError = Literal["fail", "skip"]


@dataclass(frozen=True)
class Earlier:
    """Documents that come before those of the run."""

    index: str  # the folder of the index that knows them
    key: str | None  # the column that its keys are of; None where they are FILE:ROW


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What `deduplicate_files` is asked for: all that decides the bytes of its results."""

    method: Method
    policy: Policy
    files: tuple[File, ...]
    columns: Columns
    on_error: OnError
    write: Write
    stamps: Stamps  # of `files`
    earlier: Earlier | None = None
    format: FormatName | None = None  # of what is written; None: as the inputs
    packing: Packing | None = None  # likewise
    form: Form = USUAL

    def parameters(self) -> Mapping[str, Any]:
        """All of it but for the files."""
        return {
            **json.loads(self.method.to_json()),
            "text_column": self.columns.text,
            "id_column": self.columns.id,
            **self.policy.to_json(),
            "write": self.write,
            "on_error": self.on_error,
            **self.form.facts(),
            **({} if self.format is None else {"format": self.format}),
            **({} if self.packing is None else {"compression": str(self.packing)}),
            **({} if self.earlier is None else {"index": self.earlier.index, "key": self.earlier.key}),
        }

    def to_json(self) -> Mapping[str, Any]:
        """All of it: a run goes on only with the same."""
        inputs = {file.name: stamp for file, stamp in zip(self.files, self.stamps.known, strict=True)}
        told: dict[str, Any] = {"scheme": SCHEME, "parameters": self.parameters(), "inputs": inputs}
        # The same files may be given as others of the INPUTs' folders, and then lie elsewhere in `data/`.
        if places := {file.name: file.relative for file in self.files if "/" in file.relative}:
            told["places"] = places
        if self.policy.by_source() or self.policy.ranks is not None:
            given: dict[str, int] = {}
            told["sources"] = {file.name: given.setdefault(file.source, len(given)) for file in self.files}
        return told


@dataclass(frozen=True, kw_only=True)
class Job(Terms):
    """One run: what is asked for, and how the work is cut and read."""

    reader: Reader
    cut: Cut

    @classmethod
    def of(cls, terms: Terms, reader: Reader, cut: Cut) -> Self:
        """That of the terms."""
        return cls(**vars(terms), reader=reader, cut=cut)

    def texts(self, ops: Backend, abreast: int = 1, held: HeldTexts | None = None) -> FileTexts:
        """The documents of the files, for one of `abreast` readers at the same time."""
        given = self.reader, self.files, self.columns, ops, self.on_error == "skip", self.limit(abreast), self.stamps
        return open_files(*given, held)

    def limit(self, abreast: int = 1) -> Limit:
        """What one of `abreast` readers or writers at the same time may hold."""
        return Limit(self.cut.memory, abreast)

    def steps(self) -> Mapping[str, Any]:
        """Describe the job and how its steps are cut, by which a finished step's file is known again."""
        return {**self.to_json(), "cut": asdict(self.cut)}


def step_of(stage: str, number: int) -> str:
    """The step of a stage that does the partition, range, group, share or file of this number."""
    return f"{stage}-{number:06d}"


def step_file(folder: Path, step: str, what: str) -> Path:
    """The file of a step that holds `what` of it."""
    return folder / f"{step}-{what}.arrow"


@dataclass(frozen=True)
class Layout:
    """Mapping[str, Any] about partitions and files; nothing of a document."""

    partitions: Numbers  # [partitions + 1] positions of their first documents, and how many documents there are
    files: Numbers  # [files + 1] the same of files
    sources: Numbers  # [files] the number of the INPUT that each is of
    protected: int  # documents that are never dropped, the first ones
    rejecting: tuple[tuple[int, int, int], ...]  # partitions with rejected records, the first and last file of each

    def __len__(self) -> int:
        return int(self.partitions[-1])

    def by_partition(self, positions: Numbers) -> Iterator[tuple[int, slice]]:
        """Each partition that has some of ascending `positions`, and which of them."""
        ends = np.searchsorted(positions, self.partitions)
        for number in np.flatnonzero(ends[1:] > ends[:-1]).tolist():
            yield number, slice(int(ends[number]), int(ends[number + 1]))

    def source_of(self, positions: Numbers) -> Numbers:
        """int64 [m]: the number of the INPUT of each document."""
        return self.sources[self.file_of(positions)]

    def file_of(self, positions: Numbers) -> Numbers:
        """int64 [m]: the number of the file of each document."""
        return np.searchsorted(self.files, positions, side="right") - 1


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
    facts: Mapping[str, Any] = field(default_factory=dict)
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

    def run(self, stage: Stage) -> list[Mapping[str, Any]]:
        """The facts of each task, in order, once all are done and their files are durable."""


def tallied(facts: Sequence[Mapping[str, Any]], name: str) -> int:
    """The sum of a fact over tasks."""
    return sum(int(fact.get(name, 0)) for fact in facts)
