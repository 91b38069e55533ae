"""The manifest of a job: which steps are done, with the files they made. Appended to, a checksummed line a step.

A line counts once it is whole; a torn one at the end, of a crash, is as if it had not been written. A step counts where
its files are as its line says, so either may be lost with the power: the step is done again. Lines of steps whose loss
is no matter are made durable many at a time: a disk may take milliseconds for each. The manifest holds the run's
secret, so it is for its owner alone.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gpulsh.errors import OutputError
from gpulsh.secret import SECRET_BYTES
from gpulsh.store.durable import FileFact, durable_file, fact_of, naming, open_file
from gpulsh.store.shapes import ShapeError, field, file_facts, strict_json

NAME = "manifest.jsonl"
RESULTS = "data"  # the only folder in which steps have files
AT_ONCE = 64  # lines that are made durable together


@dataclass(frozen=True)
class Step:
    """One finished step: its files, relative to the manifest's folder, and what else is worth knowing."""

    files: Mapping[str, FileFact]
    facts: Mapping[str, Any]


class Manifest:
    """The steps of the job that `job` describes, in a folder of its own."""

    def __init__(
        self, folder: Path, job: Mapping[str, Any], secret: bytes | None, steps: dict[str, Step], length: int
    ) -> None:
        self._path, self._folder = folder / NAME, folder
        self.job, self._secret, self._steps, self._length = job, secret, steps, length
        self._waiting = 0  # lines that are not durable

    @classmethod
    def begin(cls, folder: Path, job: Mapping[str, Any], secret: bytes) -> Self:
        """A new one, without steps."""
        line = _line({"job": job, "secret": secret.hex()})
        with durable_file(folder / NAME, private=True) as file:
            file.write(line)
        return cls(folder, job, secret, {}, len(line))

    @classmethod
    def open(cls, folder: Path) -> Self | None:
        """What is there; None where no manifest is, or not even the job's line is whole.

        OutputError where a step names a file that is not in the folder: gpulsh wrote no such line.
        """
        try:
            with open_file(folder / NAME) as file:
                data = file.read()
        except FileNotFoundError:
            return None
        try:
            entries, length = _entries(data)
            if not entries:
                return None
            steps = {}
            for entry in entries[1:]:
                files = file_facts(entry, "files")
                _refuse_outside(folder, files)
                steps[field(entry, "step", str)] = Step(files, field(entry, "facts", dict))
            return cls(folder, field(entries[0], "job", dict), _secret(entries[0]), steps, length)
        except ShapeError as error:
            raise OutputError(f"{folder / NAME}: is damaged: {error}; begin again with --overwrite") from error

    @property
    def secret(self) -> bytes:
        """The run's; OutputError where a version of gpulsh began it that kept none."""
        if self._secret is None:
            raise OutputError(
                f"{self._path}: holds no secret of {SECRET_BYTES} bytes: another version of gpulsh began this run;"
                " go on with that version, or give --overwrite"
            )
        return self._secret

    def steps(self) -> Iterable[tuple[str, Step]]:
        """All finished ones with their names, in order."""
        return self._steps.items()

    def find(self, step: str) -> Step | None:
        """The step if it is done."""
        return self._steps.get(step)

    def damaged(self, step: Step) -> str | None:
        """The first file of a finished step that is missing or not as it was; None where there is none."""
        return damaged(self._folder, step.files)

    def add(self, step: str, files: Mapping[str, FileFact], facts: Mapping[str, Any], *, brief: bool = False) -> None:
        """Record a finished step, whose files are in the folder.

        It survives a crash then, and all steps before it do; a `brief` one may need some more steps until it does.
        """
        content = {name: vars(fact) for name, fact in files.items()}
        line = _line({"step": step, "files": content, "facts": facts})
        with naming(self._path), open(self._path, "r+b") as file:
            file.truncate(self._length)  # what a crash left of another line
            file.seek(self._length)
            file.write(line)
            file.flush()
            self._waiting += 1
            if not brief or self._waiting >= AT_ONCE:
                os.fsync(file.fileno())
                self._waiting = 0
        self._length += len(line)
        self._steps[step] = Step(dict(files), dict(facts))


def _refuse_outside(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        first, *below = name.split("/")
        flat = not below or first == RESULTS
        if not flat or any(part in ("", ".", "..") or "\0" in part for part in (first, *below)):
            raise OutputError(
                f"{folder / NAME}: was tampered with, it names {name!r}, which no step of gpulsh writes; remove it, or"
                " begin again with --overwrite"
            )


def damaged(folder: Path, files: Mapping[str, FileFact]) -> str | None:
    """The first of `files` that is missing in `folder` or not as it was; None where there is none."""
    for name, fact in files.items():
        if fact_of(folder / name) != fact:
            return name
    return None


def _secret(begun: Mapping[str, Any]) -> bytes | None:
    told = begun.get("secret")
    try:
        secret = bytes.fromhex(told) if isinstance(told, str) else b""
    except ValueError:
        return None
    return secret if len(secret) == SECRET_BYTES else None


def _line(entry: Mapping[str, Any]) -> bytes:
    content = json.dumps(entry, sort_keys=True).encode()
    return b"%08x %s\n" % (zlib.crc32(content), content)


def _entries(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """The whole lines at the beginning, and their bytes."""
    entries, length = [], 0
    for line in data.splitlines(keepends=True):
        checksum, _, content = line.removesuffix(b"\n").partition(b" ")
        if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(content):
            break
        entries.append(strict_json(content))
        length += len(line)
    return entries, length
