"""The manifest of a job: a file with a checksummed line for each finished step, and the files that the step made.

A crash may leave a torn line at the end, which is ignored. A step counts only if its files are as its line says. So a
power failure may lose a line or a file, and the step is done again. Lines of brief steps are made durable many at a
time, because a disk may take milliseconds for each. The manifest contains the run's secret, so only its owner can read
it.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from gpulsh.errors import InputError, OutputError
from gpulsh.store.durable import FileFact, durable_file, fact_of, naming, open_file

NAME = "manifest.jsonl"
FORMAT = 2  # of a run's work folder; it changes when a version cannot continue the runs of the one before
SYNCED_LINES = 64  # lines that are made durable together

_log = logging.getLogger("gpulsh")


@dataclass(frozen=True)
class Step:
    """One finished step: its files, relative to the manifest's folder, and other facts."""

    files: Mapping[str, FileFact]
    facts: Mapping[str, Any]


@dataclass
class Manifest:
    """The steps of the job that `job` describes, in a folder of its own."""

    folder: Path
    job: Mapping[str, Any]  # of an opened manifest; empty in a new one, because it may be large and has no use there
    secret: bytes
    _steps: dict[str, Step]
    _length: int  # bytes
    _waiting: int = 0  # lines that are not durable

    @classmethod
    def begin(cls, folder: Path, job: Mapping[str, Any], secret: bytes) -> Self:
        """A new manifest, without steps."""
        line = _line({"format": FORMAT, "job": job, "secret": secret.hex()})
        with durable_file(folder / NAME, private=True) as file:
            file.write(line)
        return cls(folder, {}, secret, {}, len(line))

    @classmethod
    def open(cls, folder: Path) -> Self | None:
        """The manifest in the folder; None if there is none, or its first line is torn."""
        try:
            with open_file(folder / NAME) as file:
                data = file.read()
        except FileNotFoundError:
            return None
        entries, length = list[dict[str, Any]](), 0
        for line in data.splitlines(keepends=True):  # the whole ones at the beginning
            checksum, _, content = line.removesuffix(b"\n").partition(b" ")
            if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(content):
                break
            entries.append(json.loads(content))
            length += len(line)
        if not entries:
            return None
        begun, *steps = entries
        if begun.get("format") != FORMAT:
            raise OutputError(
                f"{folder / NAME}: another version of gpulsh began this run; continue with that version, or give"
                " --overwrite"
            )
        try:
            known = {entry["step"]: Step(file_facts(entry["files"]), entry["facts"]) for entry in steps}
        except ValueError as error:
            raise OutputError(f"{folder / NAME}: is damaged: {error}; start again with --overwrite") from error
        return cls(folder, begun["job"], bytes.fromhex(begun["secret"]), known, length)

    def steps(self) -> Iterable[tuple[str, Step]]:
        """All finished steps with their names, in order."""
        return self._steps.items()

    def find(self, step: str) -> Step | None:
        """The step if it is done."""
        return self._steps.get(step)

    def finished(self, step: str) -> Mapping[str, Any] | None:
        """The facts of a finished step, its files intact; None if it must be done, or done again."""
        found = self.find(step)
        files = found.files if found else {}
        lost = next((name for name, fact in files.items() if fact_of(self.folder / name) != fact), None)
        if lost is not None:
            _log.warning("%s is missing or damaged; it is computed again", lost)
        return found.facts if found and lost is None else None

    def add(self, step: str, files: Mapping[str, FileFact], facts: Mapping[str, Any], *, brief: bool = False) -> None:
        """Record a finished step, whose files are in the folder, durably; a `brief` one only with later ones."""
        content = {name: asdict(fact) for name, fact in files.items()}
        line = _line({"step": step, "files": content, "facts": facts})
        with naming(self.folder / NAME), open(self.folder / NAME, "r+b") as file:
            file.truncate(self._length)  # drops a torn line
            file.seek(self._length)
            file.write(line)
            file.flush()
            self._waiting += 1
            if not brief or self._waiting >= SYNCED_LINES:
                os.fsync(file.fileno())
                self._waiting = 0
        self._length += len(line)
        self._steps[step] = Step(dict(files), dict(facts))


def write_checked(path: Path, content: bytes) -> None:
    """Replace a file as a whole by a checksum and `content`; only the owner may read it."""
    with durable_file(path, private=True) as file:
        file.write(b"crc32 %08x\n" % zlib.crc32(content) + content)


def read_checked(path: Path) -> bytes:
    """The content of such a file; InputError if it is damaged, FileNotFoundError if there is none."""
    with open_file(path) as file:
        checksum, _, content = file.read().partition(b"\n")
    if checksum != b"crc32 %08x" % zlib.crc32(content):
        raise InputError(f"{path}: is damaged, its checksum differs; restore it from a copy")
    return content


def file_facts(facts: Mapping[str, Mapping[str, int]]) -> dict[str, FileFact]:
    """Facts of files by name, from JSON; ValueError for a file outside of the folder that names it."""
    if outside := [name for name in facts if name.startswith("/") or ".." in name.split("/") or "\0" in name]:
        raise ValueError(f"it names the file {outside[0]!r}")
    return {name: FileFact(**fact) for name, fact in facts.items()}


def _line(entry: Mapping[str, Any]) -> bytes:
    content = json.dumps(entry, sort_keys=True).encode()
    return b"%08x %s\n" % (zlib.crc32(content), content)
