"""The folder of an index: one writer at a time, commits that are complete or absent.

A manifest names immutable files, and each commit replaces it as a whole. A reader reads the manifest once and then
holds the files open, so that its view never changes. A commit writes new files first and the manifest last, so that a
crash at any instant leaves the state before or after it. A writer removes files that no manifest names: before its
first change, as a killed one may have filled the disk, and after each commit.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import stat
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from gpulsh import __version__
from gpulsh.arrays import Numbers
from gpulsh.errors import InputError, OutputError
from gpulsh.index.evidence.places import Source
from gpulsh.index.groups import make_groups, read_groups, write_groups
from gpulsh.index.merging import merge_small_files, write_segments
from gpulsh.index.segment import INDEX, NO_NUMBERS, StoredSegment, file_name, map_segment, saving
from gpulsh.index.snapshot import Snapshot
from gpulsh.params import SCHEME, EvidenceName
from gpulsh.store.columns import MappedColumns, write_columns
from gpulsh.store.durable import FileFact, cause_of, fact_of, write_error
from gpulsh.store.lock import open_locked, record_commit, refuse_lost_commit
from gpulsh.store.manifest import file_facts, read_checked, write_checked

LOCK = "lock"
PASSAGES = "passages.json"  # instead of `index.json`, in an index of `gpulsh passages`
OPEN_ATTEMPTS = 16  # tries to read a manifest while `compact` removes its files
# Of most indexes, of those with signatures of bits, of those by containment, and of those with evidence at the source:
# only with 64-bit numbers, and with numbers of 32 bits, too. CHANGELOG.md lists the changes.
FORMATS = FORMAT, FORMAT_BITS, FORMAT_CONTAINMENT, FORMAT_SOURCE_WIDE, FORMAT_SOURCE = 3, 4, 5, 6, 7
KNOWN_FILES = re.compile(
    r"(documents|digests|hashes|fingerprints|filters|keys|places|removed|groups|key-groups)-[0-9a-f-]+\.arrow(\.[0-9a-f]+\.part)?"
    r"|index\.json\.[0-9a-f]+\.part"
)


@dataclass(frozen=True)
class Manifest:
    """The contents of `index.json`. `removed` is the file with the numbers of removed documents, if there are any.

    `runs` are those whose documents were added, so that an interrupted run finds out whether it has committed.
    """

    parameters: Mapping[str, Any]
    secret: str = field(repr=False)  # 256 bits in hexadecimal; the index's evidence is computed under it
    generation: int = 0  # commits so far
    next_number: int = 0  # of the next document
    keys: str | None = None  # "string" or "integer"; None before the first key
    segments: tuple[StoredSegment, ...] = ()
    removed: StoredSegment | None = None
    runs: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # by name: first number, beyond the last
    groups: Mapping[str, FileFact] = field(default_factory=dict)  # files of filters, which can be made again
    evidence: EvidenceName = "index"
    sources: tuple[Source, ...] = ()  # of the texts, with evidence at the source

    def files(self) -> dict[str, FileFact]:
        """All files that it names."""
        return {**self.required_files(), **self.groups}

    def required_files(self) -> dict[str, FileFact]:
        """The files without which the index cannot be read."""
        parts = [*self.segments, *([self.removed] if self.removed else [])]
        return {file_name(kind, part.name): fact for part in parts for kind, fact in part.files.items()}


class Removed(NamedTuple):
    """The columns of the file of removed documents."""

    number: Numbers


def has_index(folder: Path) -> bool:
    """Whether the folder has a manifest."""
    return os.path.lexists(folder / INDEX)


def commit_count(folder: str | os.PathLike[str]) -> int:
    """How many commits the folder has."""
    return read_manifest(Path(folder)).generation if has_index(Path(folder)) else 0


def read_manifest(folder: Path) -> Manifest:
    """The newest commit; InputError if there is none, or if this version cannot read it."""
    path = folder / INDEX
    _refuse_irregular(path)
    try:
        found = json.loads(read_checked(path))
    except (FileNotFoundError, NotADirectoryError) as error:
        # Not by what is there now: another process may have removed a new index since.
        if isinstance(error, NotADirectoryError) or (os.path.islink(folder) and not os.path.isdir(folder)):
            raise InputError(f"{folder}: is not a folder; give the folder of an index") from None
        _refuse_passages(folder)
        what = "is not an index" if os.path.isdir(folder) else "no such folder"
        raise InputError(f"{folder}: {what}; make an index with `gpulsh index build`, or Index.save") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {os.strerror(error.errno or 0)}") from error
    for name, own in (("format", FORMATS), ("scheme", (SCHEME,))):
        if found[name] not in own:
            raise InputError(
                f"{folder}: is an index of {name} {found[name]}, written by gpulsh {found['version']}, and this version"
                f" reads {name} {' or '.join(map(str, own))}; use that version, or build the index again"
            )

    def stored(part: Mapping[str, Any]) -> StoredSegment:
        return StoredSegment(part["name"], file_facts(part["files"]))

    return Manifest(
        parameters=found["parameters"],
        secret=found["secret"],
        generation=found["generation"],
        next_number=found["next_number"],
        keys=found["keys"],
        segments=tuple(map(stored, found["segments"])),
        removed=stored(found["removed"]) if found["removed"] else None,
        runs={name: (first, stop) for name, (first, stop) in found.get("runs", {}).items()},
        groups=file_facts(found.get("groups", {})),
        evidence=found.get("evidence", "index"),
        sources=tuple(Source(*source) for source in found.get("sources", ())),
    )


def commit_manifest(folder: Path, manifest: Manifest, version: str) -> None:
    """Make it the newest commit, for its owner alone, after its files. `version` appears only in messages."""
    form = FORMAT
    if manifest.evidence == "source":
        form = FORMAT_SOURCE
    elif "near" in manifest.parameters:
        form = FORMAT_BITS
    elif "measure" in manifest.parameters:
        form = FORMAT_CONTAINMENT
    written = {"version": version, "format": form, "scheme": SCHEME, "checksum": "crc32", **vars(manifest)}
    # On one line: Python writes indented JSON in ten times the time, and a manifest may name thousands of files.
    write_checked(folder / INDEX, json.dumps(written, sort_keys=True, default=_json_value).encode() + b"\n")


def _json_value(value: StoredSegment | FileFact) -> Mapping[str, Any]:
    return {"size": value.size, "crc32": value.crc32} if isinstance(value, FileFact) else vars(value)


def damage(path: Path, fact: FileFact, *, contents: bool) -> str | None:
    """The difference between a file and its fact, by its content if `contents`; None if there is none."""
    try:
        _refuse_irregular(path)
        size = path.stat().st_size
    except FileNotFoundError:
        return "is missing"
    if size != fact.size:
        return f"is damaged, it has {size} bytes and was written with {fact.size}"
    return "is damaged, its CRC-32 differs" if contents and fact_of(path) != fact else None


def _refuse_passages(folder: Path) -> None:
    if os.path.lexists(folder / PASSAGES):
        raise InputError(
            f"{folder}: is an index of passages, for `gpulsh passages --index` alone; give an index of `gpulsh index"
            " build`"
        ) from None


def _refuse_irregular(path: Path) -> None:
    """InputError for a link, which leads elsewhere, or a pipe, which may never end."""
    mode = path.lstat().st_mode if os.path.lexists(path) else stat.S_IFREG
    if not stat.S_ISREG(mode):
        kind = "a link" if stat.S_ISLNK(mode) else "not a file"
        raise InputError(f"{path}: is {kind}, which gpulsh did not make; put the file itself there")


def _open_commit(path: Path, *, contents: bool) -> tuple[Manifest, Snapshot]:
    """A commit with its files open; read again if a `compact` removed them in between.

    InputError with the first file that is missing, unreadable, of another size, a link or, with `contents`, damaged.
    """
    manifest = read_manifest(path)
    for _ in range(OPEN_ATTEMPTS):
        try:
            return manifest, _map_commit(path, manifest, contents=contents)
        except (InputError, FileNotFoundError):
            newer = read_manifest(path)
            if newer == manifest:
                raise
            manifest = newer
        except OSError as error:
            raise InputError(f"{error.filename or path}: cannot be read: {error.strerror or error}") from error
    raise InputError(f"{path}: is written to faster than it can be opened; try again")


def _map_commit(path: Path, manifest: Manifest, *, contents: bool) -> Snapshot:
    for name, fact in manifest.required_files().items():
        if wrong := damage(path / name, fact, contents=contents):
            raise InputError(f"{path / name}: {wrong}; restore it from a copy, or build the index again")
    segments = tuple(map_segment(path, stored, manifest.sources) for stored in manifest.segments)
    removed = NO_NUMBERS
    if manifest.removed is not None:
        removed = MappedColumns(path / file_name("removed", manifest.removed.name), Removed).whole().number
    valid = {name: fact for name, fact in manifest.groups.items() if not damage(path / name, fact, contents=contents)}
    groups = read_groups(path, valid, segments)
    return Snapshot(segments, removed, groups, manifest.next_number, manifest.keys, manifest.sources)


class Folder:
    """An index's folder and its newest manifest, as it was opened or as this wrote it. A lock admits one writer."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        self._lock: int | None = None  # a handle, of the process `_writer`
        self._writer = 0
        self._existed = True  # before this
        self._is_removed = False

    @classmethod
    def create(cls, path: Path, manifest: Manifest) -> Folder:
        """A new folder, absent or empty before, locked for writing; nothing is committed.

        Only its owner may read it: hashes of known texts would reveal the keys that they are computed under.
        """
        folder = cls(path, manifest)
        taken = f"{path}: is already an index; add to it, or give another folder"
        try:
            folder._existed = path.is_dir()
            if not folder._existed and os.path.lexists(path):
                raise OutputError(f"{path}: is not a folder; give a folder, or a path that does not exist")
            os.makedirs(path.parent, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            if has_index(path):
                raise OutputError(taken)
            _refuse_passages(path)
            refuse_lost_commit(path / LOCK, INDEX)
            strange = [name for name in os.listdir(path) if not _is_left_by_writer(path, name)]
            if strange:
                raise OutputError(f"{path}: is not empty, it holds {min(strange)}; give another folder")
            if folder.lock() is not None:  # another process committed in between
                folder.unlock()
                raise OutputError(taken)
        except OutputError:
            raise
        except OSError as error:
            raise write_error(path, error) from error
        return folder

    @classmethod
    def open(cls, path: Path, *, contents: bool) -> tuple[Folder, Snapshot]:
        """The newest commit; InputError for a damaged file, which only `contents` finds by its content."""
        manifest, found = _open_commit(path, contents=contents)
        return cls(path, manifest), found

    def lock(self, *, changed: bool = False) -> Snapshot | None:
        """Become the writer. The result is the contents of a newer commit, None if there is none.

        Raises OutputError if there is another writer, if the folder now has another index, or if `abandon` has removed
        this one. With `changed`, it also does so for a newer commit of another writer: changes would be lost.
        """
        if self.is_locked():
            return None
        if self._is_removed:
            raise OutputError(f"{self.path}: was closed before its first save, which removed it; create it again")
        self.unlock()  # an inherited lock would block this process
        try:
            self._lock, self._writer = open_locked(self.path / LOCK, 0o644), os.getpid()
        except BlockingIOError:
            raise OutputError(
                f"{self.path}: another process or Index writes to it; wait until that ends, or close it"
            ) from None
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be locked: {cause_of(error)}") from error
        try:
            newest = read_manifest(self.path) if has_index(self.path) else self.manifest
            is_newer, contents = newest != self.manifest, None
            if is_newer and changed:
                raise OutputError(f"{self.path}: another writer changed it since this Index was closed; open it again")
            if newest.secret != self.manifest.secret:
                raise OutputError(f"{self.path}: holds another index than when it was opened; open it again")
            if is_newer:
                self.manifest, contents = _open_commit(self.path, contents=False)
            if not changed:  # otherwise some hold the changes
                self.remove_unnamed_files()
            return contents
        except BaseException:
            self.unlock()
            raise

    def is_locked(self) -> bool:
        """Whether this is the writer, in this process."""
        return self._lock is not None and self._writer == os.getpid()

    def unlock(self) -> None:
        """Let other processes write."""
        if self._lock is not None:
            if self.is_locked():  # a forked process has the handle, too, and leaves the lock alone
                fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = None

    def __del__(self) -> None:
        self.unlock()

    def write(self, contents: Snapshot) -> Snapshot:
        """The contents with all segments and filters in durable files, which no manifest names yet."""
        with saving(self.path):
            segments = write_segments(contents.segments, contents.removed, self.path)
            segments = merge_small_files(segments, contents.removed, self.path)
            groups = write_groups(make_groups(segments, contents.groups, self.path), self.path)
        return replace(contents, segments=tuple(segments), groups=groups)

    def commit(self, contents: Snapshot, runs: Mapping[str, tuple[int, int]]) -> Snapshot:
        """Make everything durable, then the manifest with new `runs`. The result has all segments in files."""
        removed, contents = None, self.write(contents)
        with saving(self.path):
            if len(contents.removed):  # after the large files: a full disk leaves nothing behind
                name = secrets.token_hex(8)
                fact = write_columns(self.path / file_name("removed", name), {"number": contents.removed})
                removed = StoredSegment(name, {"removed": fact})
            before = self.manifest
            manifest = replace(
                before,
                generation=before.generation + 1,
                next_number=contents.next_number,
                keys=contents.kind,
                segments=tuple(StoredSegment(each.name, each.files) for each in contents.segments if each.files),
                removed=removed,
                runs={**before.runs, **runs},
                groups={group.name: group.fact for group in contents.groups if group.fact},
                sources=tuple(contents.sources),
            )
            for name in manifest.required_files().keys() - before.required_files().keys():
                os.stat(self.path / name)  # another writer has removed it if this one had closed the index meanwhile
            commit_manifest(self.path, manifest, __version__)
            self.manifest = manifest
            assert self._lock is not None
            record_commit(self._lock, INDEX)
        self.remove_unnamed_files(before.required_files())  # a reader may open these now; it does without groups
        return contents

    def abandon(self) -> None:
        """Stop writing. If nothing was ever committed, remove the index's files, and the folder if this made it."""
        if self.manifest.generation == 0 and self.is_locked() and not has_index(self.path):
            self._is_removed = True
            with suppress(OSError):
                self.remove_unnamed_files()
                (self.path / LOCK).unlink()
                if not self._existed:
                    self.path.rmdir()
        self.unlock()

    def remove_unnamed_files(self, kept: Container[str] = ()) -> None:
        """Remove files that the newest commit, this one's own, does not name: replaced ones, and of killed writers.

        The files `kept` stay.
        """
        named = self.manifest.files()
        with saving(self.path):
            for name in os.listdir(self.path):
                if name not in named and name not in kept and KNOWN_FILES.fullmatch(name):
                    os.unlink(self.path / name)


def _is_left_by_writer(folder: Path, name: str) -> bool:
    """Whether a killed writer left the file; its lock is empty, and it makes no links."""
    found = os.lstat(folder / name)
    if not stat.S_ISREG(found.st_mode):
        return False
    return found.st_size == 0 if name == LOCK else KNOWN_FILES.fullmatch(name) is not None
