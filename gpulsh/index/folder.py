"""An index's folder: one writer at a time, and commits that are there as a whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from gpulsh import __version__
from gpulsh.arrays import Numbers
from gpulsh.errors import InputError, OutputError
from gpulsh.index.segments.groups import Groups, kept_groups
from gpulsh.index.segments.merging import merged
from gpulsh.index.segments.segment import KEY_TYPES
from gpulsh.index.segments.snapshots import (
    KNOWN_FILES,
    LOCK,
    Snapshot,
    StoredSegment,
    WriterLock,
    check_files,
    commit_snapshot,
    file_name,
    has_index,
    read_snapshot,
    sound_groups,
    sweep,
)
from gpulsh.index.shelves import INTACT, NOTHING, Contents, Shelved, mapped_shelf, new_name, stored
from gpulsh.method import Method
from gpulsh.store.columns import MappedColumns, damaged_file, write_columns
from gpulsh.store.durable import FileFact, writing

READS = 16  # of a manifest whose files a `compact` removes meanwhile


class Removed(NamedTuple):
    """The columns of the file of removed documents."""

    number: Numbers


class Folder:
    """An index's folder: `contents` as of its newest commit when it was opened, or of a later one of its own."""

    def __init__(self, path: Path, snapshot: Snapshot) -> None:
        self.path, self.snapshot = path, snapshot
        self._lock: WriterLock | None = None
        self._was_there = True  # the folder, before this
        self._is_removed = False

    @classmethod
    def made(cls, path: Path, method: Method, secret: bytes) -> Folder:
        """A new one, absent or empty before, locked for writing; nothing is committed.

        For its owner alone: hashes of known text would tell whoever reads them what keys they are computed under.
        """
        try:
            was_there = path.is_dir()
            if not was_there and os.path.lexists(path):
                raise OutputError(f"{path}: is no folder; give the path of one, or of nothing")
            os.makedirs(path.parent, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            if has_index(path):
                raise OutputError(f"{path}: is an index already; add to it, or give another folder")
            strange = [name for name in os.listdir(path) if not _own(path, name)]
            if strange:
                raise OutputError(f"{path}: is not empty, it holds {min(strange)}; give another folder")
            folder = cls(path, Snapshot(method.matching(), secret.hex()))
            folder._was_there = was_there
            if folder.lock() is not None:  # somebody was quicker
                folder.unlock()
                raise OutputError(f"{path}: is an index already; add to it, or give another folder")
        except OutputError:
            raise
        except OSError as error:
            raise OutputError(f"{path}: cannot be made: {os.strerror(error.errno or 0)}") from error
        return folder

    @classmethod
    def opened(cls, path: Path, *, contents: bool) -> tuple[Folder, Contents]:
        """The newest commit; InputError names what is damaged, of files' contents only with `contents`."""
        snapshot, found = _stable(path, contents=contents)
        return cls(path, snapshot), found

    def lock(self, *, changed: bool = False) -> Contents | None:
        """Become the writer; what was committed since this was opened, None where nothing was.

        OutputError where there is another writer, or was one since, and `changed` says that there is something to lose;
        where another index lies there now, or `abandon` has removed this one.
        """
        if self.is_locked():
            return None
        if self._is_removed:
            raise OutputError(f"{self.path}: was closed before its first save, which removed it; make it again")
        self.unlock()  # a lock that this process inherited would be in its own way
        self._lock = WriterLock(self.path)
        try:
            newest = read_snapshot(self.path) if has_index(self.path) else self.snapshot
            if newest == self.snapshot:
                return None
            if changed:
                raise OutputError(f"{self.path}: was written to by another since this Index was closed; open it again")
            if newest.secret != self.snapshot.secret:
                raise OutputError(f"{self.path}: holds another index than when it was opened; open it again")
            self.snapshot, contents = _stable(self.path, contents=False)
            return contents
        except BaseException:
            self.unlock()
            raise

    def is_locked(self) -> bool:
        """Whether this is the writer, in this process."""
        return self._lock is not None and self._lock.is_own()

    def unlock(self) -> None:
        """Let others write."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def commit(self, contents: Contents, groups: Groups, runs: Mapping[str, tuple[int, int]] | None = None) -> Contents:
        """Everything durable, then the manifest; what is in memory becomes one segment of files.

        `runs` are new ones.
        """
        shelves = list(contents.shelves)
        loose = [shelved for shelved in shelves if shelved.stored is None]
        if len(loose) > 1 and all(shelved.stored is None for shelved in shelves[-len(loose) :]):
            shelves[-len(loose) :] = [Shelved(merged([shelved.segment for shelved in loose], contents.removed))]
        with writing(self.path, INTACT):
            shelves = [stored(shelved, self.path) for shelved in shelves]
            removed = self._written(contents.removed)
            segments = tuple(shelved.stored for shelved in shelves if shelved.stored)
            snapshot = replace(
                self.snapshot,
                generation=self.snapshot.generation + 1,
                next_number=contents.next_number,
                keys=contents.keys,
                segments=segments,
                removed=removed,
                runs={**self.snapshot.runs, **(runs or {})},
                groups=groups.keep([shelved.segment for shelved in shelves]),
            )
            commit_snapshot(self.path, snapshot, __version__)
            before, self.snapshot = self.snapshot, snapshot
            for name in before.groups.keys() - snapshot.groups.keys():  # without which others read them, too
                (self.path / name).unlink(missing_ok=True)
        return replace(contents, shelves=tuple(shelves))

    def abandon(self) -> None:
        """Where nothing was ever committed, remove what was made, the folder too if it was and holds nothing else."""
        if self.snapshot.generation == 0 and self.is_locked() and not has_index(self.path):
            self._is_removed = True
            with suppress(OSError):
                sweep(self.path, self.snapshot)
                (self.path / LOCK).unlink()
                if not self._was_there:
                    self.path.rmdir()
        self.unlock()

    def sweep(self) -> None:
        """Remove the files that the newest commit, this one's own, does not name."""
        with writing(self.path, INTACT):
            sweep(self.path, self.snapshot)

    def _written(self, removed: Numbers) -> StoredSegment | None:
        if len(removed) == 0:
            return None
        name = new_name()
        fact = write_columns(self.path / file_name("removed", name), {"number": removed})
        return StoredSegment(name, {"removed": fact})


def _own(folder: Path, name: str) -> bool:
    """Whether a file is what a killed writer left: its lock is empty, and it makes no links."""
    found = os.lstat(folder / name)
    if not stat.S_ISREG(found.st_mode):
        return False
    return found.st_size == 0 if name == LOCK else KNOWN_FILES.fullmatch(name) is not None


def _stable(path: Path, *, contents: bool) -> tuple[Snapshot, Contents]:
    """A commit with its files open; read again where a `compact` removed them in between."""
    snapshot = read_snapshot(path)
    for _ in range(READS):
        try:
            check_files(path, snapshot, contents=contents)
            return snapshot, _mapped(path, snapshot, sound_groups(path, snapshot, contents=contents))
        except (InputError, FileNotFoundError):
            newer = read_snapshot(path)
            if newer == snapshot:
                raise
            snapshot = newer
    raise InputError(f"{path}: is written to faster than it can be opened; try again")


def _mapped(path: Path, snapshot: Snapshot, groups: Mapping[str, FileFact]) -> Contents:
    shelves = []
    for segment in snapshot.segments:
        try:
            shelves.append(mapped_shelf(path, segment))
        except (FileNotFoundError, InputError):
            raise
        except (OSError, pa.ArrowException, ValueError) as error:
            raise InputError(
                f"{path / file_name('*', segment.name)}: the segment is damaged: {error}; restore it from a copy"
            ) from error
    kind = KEY_TYPES[snapshot.keys] if snapshot.keys else None
    for shelved in shelves:
        keys = shelved.segment.keys
        if keys is not None and len(shelved.segment) and keys.key.type != kind:
            assert shelved.stored is not None
            raise damaged_file(
                path / file_name("keys", shelved.stored.name), f"its keys are {keys.key.type}, not {snapshot.keys}s"
            )
    removed = NOTHING
    if snapshot.removed is not None:
        removed = MappedColumns(path / file_name("removed", snapshot.removed.name), Removed).whole().number
    kept = kept_groups(path, groups, [shelved.segment for shelved in shelves])
    return Contents(tuple(shelves), removed, snapshot.next_number, snapshot.keys, kept)
