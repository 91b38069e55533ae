"""A job over files: what to do with which, and how the work is cut. A worker needs to know nothing else."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from gpulsh.backends.protocol import Backend
from gpulsh.budget import Cut
from gpulsh.facts import Facts
from gpulsh.io.columns import Columns
from gpulsh.io.compression.packing import Packing
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.form import USUAL, Form
from gpulsh.io.files.held_texts import HeldTexts
from gpulsh.io.files.readers import Reader, open_files
from gpulsh.io.files.stamps import Stamps
from gpulsh.io.limits import Limit
from gpulsh.io.outputs.conversion import FormatName
from gpulsh.method import Method
from gpulsh.params import SCHEME
from gpulsh.run.job.policy import Policy

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

    def parameters(self) -> Facts:
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
            **({} if self.packing is None else {"compression": self.packing.told()}),
            **({} if self.earlier is None else {"index": self.earlier.index, "key": self.earlier.key}),
        }

    def to_json(self) -> Facts:
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

    def steps(self) -> Facts:
        """Describe the job and how its steps are cut, by which a finished step's file is known again."""
        return {**self.to_json(), "cut": asdict(self.cut)}


def step_of(stage: str, number: int) -> str:
    """The step of a stage that does the partition, range, group, share or file of this number."""
    return f"{stage}-{number:06d}"


def step_file(folder: Path, step: str, what: str) -> Path:
    """The file of a step that holds `what` of it."""
    return folder / f"{step}-{what}.arrow"
