"""The contents of an index at one moment: segments in memory until they grow large or are committed, then in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from gpulsh.arrays import Numbers
from gpulsh.index.evidence.places import Source
from gpulsh.index.groups import Group
from gpulsh.index.merging import joined, stored
from gpulsh.index.segment import NOTHING, Segment, remove_files

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
