"""The state of an index on disk: one manifest that names immutable files, replaced as a whole by each commit.

A reader reads the manifest once and then holds the files open: what it sees never changes. There is one writer, by a
lock that dies with its process. A commit writes new files first and the manifest last, so that a crash at any instant
leaves the state before or the state after it. Files that no manifest names any more are removed by `sweep` alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import field as of_dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from gpulsh.errors import DamagedInputError, InputError, OutputError
from gpulsh.index.segments.segment import KEY_TYPES, KINDS
from gpulsh.params import SCHEME
from gpulsh.secret import SECRET_BYTES
from gpulsh.store.durable import FileFact, durable_file, fact_of
from gpulsh.store.manifest import ShapeError, count, field, file_facts, json_object

NAME = "index.json"
LOCK = "lock"
# Of the files; where signatures are of bits; where the measure is containment. CHANGELOG.md tells what each changed.
FORMAT, OF_BITS, OF_CONTAINMENT = 3, 4, 5
KNOWN_FILES = re.compile(
    r"(documents|digests|hashes|fingerprints|filters|keys|removed|groups|key-groups)-[0-9a-f-]+\.arrow(\.[0-9a-f]+\.part)?"
    r"|index\.json\.[0-9a-f]+\.part"
)


@dataclass(frozen=True)
class StoredSegment:
    """A segment's files, by kind; `name` is what they have in common."""

    name: str
    files: Mapping[str, FileFact]


@dataclass(frozen=True)
class Snapshot:
    """What the manifest says. `removed` is the file of removed documents' numbers, if there are any.

    `runs` are those that documents were taken in for, so that one that was interrupted finds out whether it was before
    the commit.
    """

    parameters: Mapping[str, Any]
    secret: str = of_dataclass(repr=False)  # of 256 bits, in hexadecimal: the index's evidence is computed under it
    generation: int = 0  # commits so far
    next_number: int = 0  # of the next document
    keys: str | None = None  # "string" or "integer"; None before the first key
    segments: tuple[StoredSegment, ...] = ()
    removed: StoredSegment | None = None
    runs: Mapping[str, tuple[int, int]] = of_dataclass(default_factory=dict)  # by name: first number, beyond the last
    groups: Mapping[str, FileFact] = of_dataclass(default_factory=dict)  # files of filters, which can be made again

    def files(self) -> dict[str, FileFact]:
        """Every file that it names."""
        return {**self.needed(), **self.groups}

    def needed(self) -> dict[str, FileFact]:
        """Those without which it cannot be read."""
        return {file_name(kind, part.name): fact for part in self.parts() for kind, fact in part.files.items()}

    def parts(self) -> list[StoredSegment]:
        """Everything that has files: the segments, and the removed documents."""
        return [*self.segments, *([self.removed] if self.removed else [])]


def file_name(kind: str, name: str) -> str:
    """Return the name of the file of a kind of the segment `name`."""
    return f"{kind}-{name}.arrow"


def has_index(folder: Path) -> bool:
    """Whether a manifest is there, or what has its name."""
    return os.path.lexists(folder / NAME)


def read_snapshot(folder: Path) -> Snapshot:
    """The newest commit; InputError where there is none, or one that this version cannot read."""
    path = folder / NAME
    _refuse_link(path)
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise InputError(f"{folder}: is no folder; an index is one, so give the folder that holds it") from None
        found = "is no index" if os.path.isdir(folder) else "no such folder"
        raise InputError(f"{folder}: {found}; make an index with `gpulsh index build`, or Index.save") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {os.strerror(error.errno or 0)}") from error
    checksum, _, content = data.partition(b"\n")
    if checksum != _checksum(content):
        raise InputError(f"{path}: is damaged, its checksum differs; restore it from a copy")
    try:
        told = json_object(content)
        for name, own in (("format", (FORMAT, OF_BITS, OF_CONTAINMENT)), ("scheme", (SCHEME,))):
            if field(told, name, int) not in own:
                raise InputError(
                    f"{folder}: is an index of {name} {told[name]}, written by gpulsh"
                    f" {field(told, 'version', str)}, and this version reads {name} {' or '.join(map(str, own))};"
                    " use that version, or build the index again"
                )
        return _snapshot(told)
    except ShapeError as error:
        raise DamagedInputError(f"{path}: is damaged: {error}; restore it from a copy") from error


def commit_snapshot(folder: Path, snapshot: Snapshot, version: str) -> None:
    """Make it the newest commit; its files are durable already. `version` of gpulsh is for messages alone.

    The manifest holds the secret, so it is for its owner alone.
    """
    written = FORMAT
    if "near" in snapshot.parameters:
        written = OF_BITS
    elif "measure" in snapshot.parameters:
        written = OF_CONTAINMENT
    told = {"version": version, "format": written, "scheme": SCHEME, "checksum": "crc32", **asdict(snapshot)}
    content = json.dumps(told, sort_keys=True, indent=1).encode() + b"\n"
    with durable_file(folder / NAME, private=True) as file:
        file.write(_checksum(content) + b"\n" + content)


def check_files(folder: Path, snapshot: Snapshot, *, contents: bool) -> None:
    """InputError that names the first file that is missing, of another size or, with `contents`, damaged."""
    _refuse_strange(folder, snapshot)
    for name, fact in snapshot.needed().items():
        if wrong := _wrong(folder / name, fact, contents=contents):
            raise InputError(f"{folder / name}: {wrong}; restore it from a copy, or build the index again")


def sound_groups(folder: Path, snapshot: Snapshot, *, contents: bool) -> dict[str, FileFact]:
    """The files of filters that are as they were written, as far as `check_files` would tell."""
    groups = snapshot.groups.items()
    return {name: fact for name, fact in groups if not _wrong(folder / name, fact, contents=contents)}


def _wrong(path: Path, fact: FileFact, *, contents: bool) -> str | None:
    """How a file differs from what was written; None where it does not."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return "is missing"
    if size != fact.size:
        return f"is damaged, it has {size} bytes and was written with {fact.size}"
    return "is damaged, its CRC-32 differs from what was written" if contents and fact_of(path) != fact else None


def _refuse_strange(folder: Path, snapshot: Snapshot) -> None:
    """InputError where a file that is named, or would be, lies elsewhere: by its name, or behind a link."""
    for name in (*snapshot.files(), *(file_name("keys", part.name) for part in snapshot.parts())):
        if not KNOWN_FILES.fullmatch(name):
            raise InputError(f"{folder / NAME}: was tampered with, it names {name!r}, which no index has; restore it")
    for name in os.listdir(folder):
        if KNOWN_FILES.fullmatch(name):
            _refuse_link(folder / name)


def sweep(folder: Path, snapshot: Snapshot) -> None:
    """Remove the index's files that the snapshot does not name: replaced ones, and what killed writers left."""
    named = snapshot.files()
    for name in os.listdir(folder):
        if name not in named and KNOWN_FILES.fullmatch(name):
            os.unlink(folder / name)


class WriterLock:
    """While it is held, nobody else writes to the index in `folder`; OutputError where somebody does."""

    def __init__(self, folder: Path) -> None:
        self._handle: int | None = None
        self._process = os.getpid()
        try:
            self._handle = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise OutputError(f"{folder}: another process or Index writes to it; close that one first") from None
        except OSError as error:
            self.release()
            raise OutputError(f"{folder}: cannot be locked: {os.strerror(error.errno or 0)}") from error

    def is_own(self) -> bool:
        """Whether this process holds it; one that was forked since does not."""
        return self._process == os.getpid()

    def release(self) -> None:
        """Let others write."""
        if self._handle is not None:
            if self.is_own():
                fcntl.flock(self._handle, fcntl.LOCK_UN)  # a process that was forked has the handle, too
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.release()


def _refuse_link(path: Path) -> None:
    """InputError where a link, which leads elsewhere, or a pipe, which may never end, has the name of a file."""
    try:
        kind = path.lstat().st_mode
    except OSError:  # told of where it is read
        return
    if not stat.S_ISREG(kind):
        what = "is a link" if stat.S_ISLNK(kind) else "is no file"
        raise InputError(f"{path}: {what}, which gpulsh did not make; put the file itself there")


def _keys(told: str | None) -> str | None:
    if told is not None and told not in KEY_TYPES:
        raise ShapeError(f"its keys are {told[:100]!r}, not {' or '.join(KEY_TYPES)}")
    return told


def _secret(told: Mapping[str, Any]) -> str:
    secret = field(told, "secret", str)
    if len(secret) != 2 * SECRET_BYTES or set(secret) - set("0123456789abcdef"):
        raise ShapeError(f"its secret is not {SECRET_BYTES} bytes in hexadecimal")
    return str(secret)


def _snapshot(told: Mapping[str, Any]) -> Snapshot:
    removed = field(told, "removed", dict, NoneType)
    return Snapshot(
        parameters=field(told, "parameters", dict),
        secret=_secret(told),
        generation=count(told, "generation"),
        next_number=count(told, "next_number"),
        keys=_keys(field(told, "keys", str, NoneType)),
        segments=tuple(_segment(segment, KINDS) for segment in field(told, "segments", list)),
        removed=_segment(removed, ("removed",)) if removed else None,
        runs={name: _run(run, name) for name, run in field({"runs": {}, **told}, "runs", dict).items()},
        groups=file_facts({"groups": {}, **told}, "groups"),
    )


def _segment(told: Mapping[str, Any], kinds: Sequence[str]) -> StoredSegment:
    if not isinstance(told, dict):
        raise ShapeError("a segment is no object")
    files = file_facts(told, "files")
    if sorted(files) != sorted(kinds):
        raise ShapeError(f"a segment has the files {', '.join(files) or 'none'}, not {', '.join(kinds)}")
    return StoredSegment(field(told, "name", str), files)


def _run(told: object, name: str) -> tuple[int, int]:
    if not isinstance(told, list) or len(told) != 2 or not all(isinstance(number, int) for number in told):
        raise ShapeError(f"{name!r} is no range of numbers")
    return told[0], told[1]


def _checksum(content: bytes) -> bytes:
    return b"crc32 %08x" % zlib.crc32(content)
