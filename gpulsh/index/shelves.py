"""Where an index's segments lie: in memory until they grow large or are committed, then in files of its folder."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.index.segments.groups import Group
from gpulsh.index.segments.merging import joined, merged
from gpulsh.index.segments.segment import KINDS, Keys, Segment, map_segment, with_mapped_keys, write_segment
from gpulsh.index.segments.snapshots import StoredSegment, file_name
from gpulsh.store.columns import write_columns
from gpulsh.store.durable import writing

SPILL_BYTES = 128 << 20  # of segments in memory, from which on one is written to the index's folder, at most
SMALL_BYTES = 1 << 16  # of a segment that costs more to be asked by itself than to be merged with the next
NOTHING = np.empty(0, np.int64)
INTACT = "; what was saved before is intact"


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
    return mapped_shelf(folder, StoredSegment(name, facts), keys=keys is not None)


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


def new_name() -> str:
    """A name that no segment has had, so that a retried commit never overwrites what a manifest names."""
    return secrets.token_hex(8)


def mapped_shelf(folder: Path, stored: StoredSegment, *, keys: bool = True) -> Shelved:
    """The segment of these files, mapped."""
    return Shelved(replace(map_segment(_namer(folder, stored.name), keys=keys), name=stored.name), stored)


def _namer(folder: Path, name: str) -> Callable[[str], Path]:
    return lambda kind: folder / file_name(kind, name)


def _remove(folder: Path, name: str) -> None:
    for kind in KINDS:
        (folder / file_name(kind, name)).unlink(missing_ok=True)
