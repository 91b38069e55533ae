"""The contents of an index at one moment, and its folder: one writer at a time, commits that are complete or absent.

Segments are in memory until they grow large or are committed, then in files.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from gpulsh import __version__
from gpulsh.arrays import Numbers
from gpulsh.errors import InputError, OutputError
from gpulsh.index.evidence.places import Source
from gpulsh.index.groups import Group, grouped, kept_groups, written
from gpulsh.index.manifest import KNOWN_FILES, LOCK, Manifest, commit_manifest, damage, has_index, read_manifest, sweep
from gpulsh.index.merging import joined, stored
from gpulsh.index.segment import INTACT, NOTHING, Segment, StoredSegment, file_name, mapped, new_name, remove_files
from gpulsh.method import Method
from gpulsh.params import EvidenceName
from gpulsh.store.columns import MappedColumns, write_columns
from gpulsh.store.durable import writing

SPILL_BYTES = 128 << 20  # most bytes of segments in memory before they are written to the index's folder
SMALL_BYTES = 1 << 16  # a segment of fewer bytes costs more to search by itself than to join with the next


@dataclass(frozen=True, eq=False)
class Contents:
    """All of an index at one moment; segments ascend by document number."""

    segments: tuple[Segment, ...] = ()
    removed: Numbers = field(default_factory=lambda: NOTHING)  # ascending
    next_number: int = 0
    keys: str | None = None  # their kind
    groups: Sequence[Group] = ()  # those with common filters
    sources: Sequence[Source] = ()  # of the texts, with evidence at the source


def spill_bytes(memory: int | None) -> int:
    """The most bytes of segments in memory, under a budget of `memory` bytes."""
    return SPILL_BYTES if memory is None else min(SPILL_BYTES, memory >> 4)


def settled(segments: Sequence[Segment], folder: Path | None, spill: int) -> list[Segment]:
    """The same documents in fewer segments: each one in memory has more than twice the bytes of the next.

    So each document is joined about log2(n) times. With a folder, segments in memory that together have more than
    `spill` bytes are merged into files, a range of hashes at a time.
    """
    most = 1 << 62 if folder is None else spill
    found: list[Segment] = []
    for segment in segments:
        while found and _joinable(found[-1], segment, most):
            segment = joined([found.pop(), segment])
        found.append(segment)
    if folder is not None and sum(segment.bytes for segment in found) > spill:
        return in_files(found, NOTHING, folder)
    return found


def _joinable(earlier: Segment, later: Segment, most: int) -> bool:
    if earlier.files or later.files or earlier.bytes + later.bytes > most:
        return False
    return max(2 * later.bytes, SMALL_BYTES) >= earlier.bytes


def in_files(segments: Sequence[Segment], removed: Numbers, folder: Path) -> list[Segment]:
    """All segments in files of `folder`; several in memory that follow one another become one without `removed`."""
    found: list[Segment] = []
    for in_memory, run in groupby(segments, lambda segment: segment.files is None):
        parts = list(run)
        found += [stored(parts, removed if len(parts) > 1 else NOTHING, folder)] if in_memory else parts
    return found


def compacted(contents: Contents, folder: Path | None) -> Contents:
    """One segment instead of all, without removed documents; in files if there is a folder."""
    if not contents.segments:
        return contents
    parts, removed = contents.segments, contents.removed
    whole = stored(parts, removed, folder) if folder else joined(parts, removed)
    return replace(contents, segments=(whole,), removed=NOTHING, groups=())


def discard(segments: Sequence[Segment], folder: Path | None) -> None:
    """Remove the files of segments that were never committed."""
    for segment in segments:
        if segment.files and folder:
            remove_files(folder, segment.name)


LOCKING = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
READS = 16  # of a manifest whose files a `compact` removes meanwhile


class Removed(NamedTuple):
    """The columns of the file of removed documents."""

    number: Numbers


class Folder:
    """An index's folder and its newest manifest, as it was opened or as this wrote it. A lock admits one writer."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        self._handle: int | None = None  # of the lock of the writer, which is the process `_writer`
        self._writer = 0
        self._existed = True  # before this
        self._is_removed = False

    @classmethod
    def made(cls, path: Path, method: Method, secret: bytes, evidence: EvidenceName) -> Folder:
        """A new folder, absent or empty before, locked for writing; nothing is committed.

        Only its owner may read it: hashes of known texts would reveal the keys that they are computed under.
        """
        taken = f"{path}: is already an index; add to it, or give another folder"
        try:
            existed = path.is_dir()
            if not existed and os.path.lexists(path):
                raise OutputError(f"{path}: is not a folder; give a folder, or a path that does not exist")
            os.makedirs(path.parent, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            if has_index(path):
                raise OutputError(taken)
            strange = [name for name in os.listdir(path) if not _is_own(path, name)]
            if strange:
                raise OutputError(f"{path}: is not empty, it holds {min(strange)}; give another folder")
            folder = cls(path, Manifest(method.matching(), secret.hex(), evidence=evidence))
            folder._existed = existed
            if folder.lock() is not None:  # another process committed in between
                folder.unlock()
                raise OutputError(taken)
        except OutputError:
            raise
        except OSError as error:
            raise OutputError(f"{path}: cannot be made: {os.strerror(error.errno or 0)}") from error
        return folder

    @classmethod
    def opened(cls, path: Path, *, contents: bool) -> tuple[Folder, Contents]:
        """The newest commit; InputError for a damaged file, which only `contents` finds by its content."""
        manifest, found = _read(path, contents=contents)
        return cls(path, manifest), found

    def lock(self, *, changed: bool = False) -> Contents | None:
        """Become the writer. The result is the contents of a newer commit, None if there is none.

        OutputError if there is another writer; if another one has committed and `changed` says that changes would be
        lost; if the folder holds another index now; or if `abandon` has removed this one.
        """
        if self.is_locked():
            return None
        if self._is_removed:
            raise OutputError(f"{self.path}: was closed before its first save and so removed; create it again")
        self.unlock()  # an inherited lock would block this process
        try:
            self._handle, self._writer = os.open(self.path / LOCK, LOCKING, 0o644), os.getpid()
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
            raise OutputError(
                f"{self.path}: another process or Index writes to it; wait until that ends, or close it"
            ) from None
        except OSError as error:
            self.unlock()
            raise OutputError(f"{self.path}: cannot be locked: {os.strerror(error.errno or 0)}") from error
        try:
            newest = read_manifest(self.path) if has_index(self.path) else self.manifest
            if newest == self.manifest:
                return None
            if changed:
                raise OutputError(f"{self.path}: another writer changed it since this Index was closed; open it again")
            if newest.secret != self.manifest.secret:
                raise OutputError(f"{self.path}: holds another index than when it was opened; open it again")
            self.manifest, contents = _read(self.path, contents=False)
            return contents
        except BaseException:
            self.unlock()
            raise

    def is_locked(self) -> bool:
        """Whether this is the writer, in this process."""
        return self._handle is not None and self._writer == os.getpid()

    def unlock(self) -> None:
        """Let other processes write."""
        if self._handle is not None:
            if self.is_locked():  # a forked process has the handle, too, and leaves the lock alone
                fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.unlock()

    def commit(self, contents: Contents, runs: Mapping[str, tuple[int, int]] | None = None) -> Contents:
        """Make everything durable, then the manifest with new `runs`. The result has all segments in files."""
        removed = None
        with writing(self.path, INTACT):
            segments = in_files(contents.segments, contents.removed, self.path)
            groups = written(grouped(segments, contents.groups, self.path), self.path)
            if len(contents.removed):  # after the large files: a full disk leaves nothing behind
                name = new_name()
                fact = write_columns(self.path / file_name("removed", name), {"number": contents.removed})
                removed = StoredSegment(name, {"removed": fact})
            manifest = replace(
                self.manifest,
                generation=self.manifest.generation + 1,
                next_number=contents.next_number,
                keys=contents.keys,
                segments=tuple(StoredSegment(segment.name, segment.files) for segment in segments if segment.files),
                removed=removed,
                runs={**self.manifest.runs, **(runs or {})},
                groups={group.name: group.fact for group in groups if group.fact},
                sources=tuple(contents.sources),
            )
            commit_manifest(self.path, manifest, __version__)
            before, self.manifest = self.manifest, manifest
            for name in before.groups.keys() - manifest.groups.keys():  # readers do without them
                (self.path / name).unlink(missing_ok=True)
        return replace(contents, segments=tuple(segments), groups=groups)

    def abandon(self) -> None:
        """Stop writing. If nothing was ever committed, remove the index's files, and the folder if this made it."""
        if self.manifest.generation == 0 and self.is_locked() and not has_index(self.path):
            self._is_removed = True
            with suppress(OSError):
                sweep(self.path, self.manifest)
                (self.path / LOCK).unlink()
                if not self._existed:
                    self.path.rmdir()
        self.unlock()

    def sweep(self) -> None:
        """Remove the files that the newest commit, this one's own, does not name."""
        with writing(self.path, INTACT):
            sweep(self.path, self.manifest)


def _is_own(folder: Path, name: str) -> bool:
    """Whether a killed writer left the file; its lock is empty, and it makes no links."""
    found = os.lstat(folder / name)
    if not stat.S_ISREG(found.st_mode):
        return False
    return found.st_size == 0 if name == LOCK else KNOWN_FILES.fullmatch(name) is not None


def _read(path: Path, *, contents: bool) -> tuple[Manifest, Contents]:
    """A commit with its files open; read again if a `compact` removed them in between."""
    manifest = read_manifest(path)
    for _ in range(READS):
        try:
            return manifest, _mapped(path, manifest, contents=contents)
        except (InputError, FileNotFoundError):
            newer = read_manifest(path)
            if newer == manifest:
                raise
            manifest = newer
    raise InputError(f"{path}: is written to faster than it can be opened; try again")


def _mapped(path: Path, manifest: Manifest, *, contents: bool) -> Contents:
    """InputError with the first file that is missing, of another size, a link or, with `contents`, damaged."""
    for name, fact in manifest.needed().items():
        if wrong := damage(path / name, fact, contents=contents):
            raise InputError(f"{path / name}: {wrong}; restore it from a copy, or build the index again")
    segments = tuple(mapped(path, stored, manifest.sources) for stored in manifest.segments)
    removed = NOTHING
    if manifest.removed is not None:
        removed = MappedColumns(path / file_name("removed", manifest.removed.name), Removed).whole().number
    sound = {name: fact for name, fact in manifest.groups.items() if not damage(path / name, fact, contents=contents)}
    groups = kept_groups(path, sound, segments)
    return Contents(segments, removed, manifest.next_number, manifest.keys, groups, manifest.sources)
