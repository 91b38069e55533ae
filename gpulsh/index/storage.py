"""Where an index's segments lie: in memory until they are saved or grow large, then in its folder."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gpulsh import __version__
from gpulsh.arrays import Numbers
from gpulsh.errors import InputError, OutputError
from gpulsh.index.segments.groups import Group, Groups, kept_groups
from gpulsh.index.segments.merging import joined, merged
from gpulsh.index.segments.segment import KEY_TYPES, KINDS, Keys, Segment, map_segment, with_mapped_keys, write_segment
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
from gpulsh.method import Method
from gpulsh.store.columns import MappedColumns, write_columns
from gpulsh.store.durable import FileFact, writing
from gpulsh.store.mapping import damaged_file

SPILL_BYTES = 128 << 20  # of segments in memory, from which on one is written to the index's folder, at most
SMALL_BYTES = 1 << 16  # of a segment that costs more to be asked by itself than to be merged with the next
NOTHING = np.empty(0, np.int64)
INTACT = "; what was saved before is intact"
READS = 16  # of a manifest whose files a `compact` removes meanwhile


class Removed(NamedTuple):
    """The columns of the file of removed documents."""

    number: Numbers


@dataclass(frozen=True, eq=False)
class Shelved:
    """A segment, and its files where it is written."""

    segment: Segment
    stored: StoredSegment | None = None

    def bytes(self) -> int:
        """About the memory that it takes; 0 where it is mapped."""
        segment = self.segment
        return 0 if self.stored else int(8 * segment.documents.size.sum()) + 16 * segment.entries + 48 * len(segment)


@dataclass(frozen=True, eq=False)
class Contents:
    """All of an index at one moment."""

    shelves: tuple[Shelved, ...] = ()
    removed: Numbers = field(default_factory=lambda: NOTHING)  # ascending
    next_number: int = 0
    keys: str | None = None  # their kind
    groups: Sequence[Group] = ()  # whose filters were kept


def spill_bytes(memory: int | None) -> int:
    """Bytes of segments in memory from which on one is written, of a budget of `memory` bytes."""
    return SPILL_BYTES if memory is None else min(SPILL_BYTES, memory >> 4)


def settled(shelves: Sequence[Shelved], folder: Path | None, spill: int) -> list[Shelved]:
    """The same documents in fewer segments: of those in memory, each is more than twice the next; large ones on disk.

    So a document is merged about log2(n) times, and memory is bounded where there is a folder: what has the `spill`
    bytes to be written is merged while it is.
    """
    shelves = list(shelves)
    while len(shelves) > 1 and _mergeable(shelves[-2], shelves[-1]):
        later, earlier = shelves.pop(), shelves.pop()
        large = folder is not None and earlier.bytes() + later.bytes() > spill
        parts = earlier.segment, later.segment
        shelves.append(Shelved(merged(parts, NOTHING) if large else joined(*parts)))
    if folder is not None and shelves and shelves[-1].bytes() > spill:
        shelves.append(stored(shelves.pop(), folder))
    return shelves


def compacted(contents: Contents, folder: Path | None) -> Contents:
    """One segment in place of all, read when it is used, without removed documents; the work lies in `folder`."""
    if not contents.shelves:
        return contents
    parts = [shelved.segment for shelved in contents.shelves]
    with writing(folder, INTACT) if folder else nullcontext():
        whole = merged(parts, contents.removed, folder)
    return replace(contents, shelves=(Shelved(whole),), removed=NOTHING)


def _mergeable(earlier: Shelved, later: Shelved) -> bool:
    both_in_memory = earlier.stored is None and later.stored is None
    alike = (earlier.segment.keys is None) == (later.segment.keys is None)
    return both_in_memory and alike and max(2 * later.bytes(), SMALL_BYTES) >= earlier.bytes()


def stored(shelved: Shelved, folder: Path) -> Shelved:
    """The segment in files of `folder`, with its keys where it has them."""
    if shelved.stored is not None:
        return shelved
    name = new_name()
    place = _namer(folder, name)
    keys = shelved.segment.keys
    try:
        with writing(folder, INTACT):
            facts = write_segment(place, shelved.segment)
            if keys is not None:
                facts["keys"] = write_columns(place("keys"), keys._asdict())
    except BaseException:
        with suppress(OSError):  # a full disk is no fuller than before
            _remove(folder, name)
        raise
    return _shelved(folder, StoredSegment(name, facts), keys=keys is not None)


def keyed(shelved: Shelved, keys: Keys, folder: Path | None) -> Shelved:
    """The segment with its keys, which are written where it is."""
    if shelved.stored is None:
        return Shelved(replace(shelved.segment, keys=keys))
    assert folder is not None
    path = folder / file_name("keys", shelved.stored.name)
    with writing(folder, INTACT):
        files = {**shelved.stored.files, "keys": write_columns(path, keys._asdict())}
    return Shelved(with_mapped_keys(shelved.segment, path), StoredSegment(shelved.stored.name, files))


def discard(shelves: Sequence[Shelved], folder: Path | None) -> None:
    """Remove the files of segments that were never committed."""
    for shelved in shelves:
        if shelved.stored and folder:
            _remove(folder, shelved.stored.name)


def _remove(folder: Path, name: str) -> None:
    for kind in KINDS:
        (folder / file_name(kind, name)).unlink(missing_ok=True)


class Folder:
    """An index's folder: `contents` as of its newest commit when it was opened, or of a later one of its own."""

    def __init__(self, path: Path, snapshot: Snapshot) -> None:
        self.path, self.snapshot = path, snapshot
        self._lock: WriterLock | None = None
        self._was_there = True  # the folder, before this

    @classmethod
    def made(cls, path: Path, method: Method, secret: bytes) -> Folder:
        """A new one, absent or empty before, locked for writing; nothing is committed.

        For its owner alone: hashes of known text would tell whoever reads them what keys they are computed under.
        """
        try:
            was_there = path.is_dir()
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

        OutputError where there is another writer, or was one since, and `changed` says that there is something to lose.
        """
        if self._lock is not None:
            return None
        self._lock = WriterLock(self.path)
        try:
            newest = read_snapshot(self.path) if has_index(self.path) else self.snapshot
            if newest == self.snapshot:
                return None
            if changed:
                raise OutputError(f"{self.path}: was written to by another since this Index was closed; open it again")
            self.snapshot, contents = _stable(self.path, contents=False)
            return contents
        except BaseException:
            self.unlock()
            raise

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
        if self.snapshot.generation == 0 and self._lock is not None and not has_index(self.path):
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


def new_name() -> str:
    """A name that no segment has had, so that a retried commit never overwrites what a manifest names."""
    return secrets.token_hex(8)


def _shelved(folder: Path, stored: StoredSegment, *, keys: bool = True) -> Shelved:
    """The segment of these files, mapped."""
    return Shelved(replace(map_segment(_namer(folder, stored.name), keys=keys), name=stored.name), stored)


def _namer(folder: Path, name: str) -> Callable[[str], Path]:
    return lambda kind: folder / file_name(kind, name)


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
            shelves.append(_shelved(path, segment))
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
