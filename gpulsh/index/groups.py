"""Filters of several segments together, so that an index of many segments answers as fast as one of a few.

Few new hashes pass the filter of a group. Those that do are looked up in its segments by their own filters. The
segments of a group follow one another, and it has more than FOLD times the documents of the next group.
Without groups, an index of 16 segments adds documents 28 % slower and answers queries 60 % slower
(`benchmarks/record/amd-epyc-2-cores/2026-11-25/index-groups.md`).

Filters are made when they pay, in files without names, and the next commit keeps them for later processes. They hold
nothing that segments do not: without a file, or with a damaged one, each segment is searched by itself until the
filters are made again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.errors import InputError
from gpulsh.index.filters import BLOCK, Words, filter_of
from gpulsh.index.segment import FILTERS, FilterWords, Segment, file_name
from gpulsh.store.columns import Mapped, MappedColumns, columns_file, damaged_file
from gpulsh.store.durable import FileFact
from gpulsh.store.scratch import Column

FOLD = 2  # a group with at most so many times the documents of the next one is united with it
PAYS = 8  # filters are made once one document was looked up for each so many documents of the group
NAME = re.compile(r"(groups|key-groups)-([0-9a-f]+)-([0-9]{1,9})\.arrow")
Hashes = Sequence[Sequence[NDArray[np.uint64]]]  # of each filter, of each segment


@dataclass(frozen=True, eq=False)
class Group:
    """Segments, and their common filters, of keys or as in `Segment.filters`; None if each is searched by itself."""

    segments: Sequence[Segment]
    filters: Sequence[Words] | None = None
    keys: bool = False
    mapped: Mapped | None = None  # the mapped memory of the filters
    fact: FileFact | None = None  # of the file in the index that holds them

    @property
    def name(self) -> str:
        """Return the name of its file in the index."""
        return file_name("key-groups" if self.keys else "groups", f"{self.segments[0].name}-{len(self.segments)}")

    def is_of(self, segments: Sequence[Segment]) -> bool:
        """Whether these are its segments, as they are now or were before they had keys."""
        return len(self.segments) == len(segments) and self.begins_with(segments)

    def begins_with(self, segments: Sequence[Segment]) -> bool:
        """Whether these are its first segments."""
        own = self.segments[: len(segments)]
        return [segment.name for segment in own] == [segment.name for segment in segments]

    def release(self) -> None:
        """Release the pages that were read; with common filters, few are of the segments."""
        for mapped in [self.mapped] if self.mapped else self.segments:
            mapped.release()


class Groups:
    """The groups of an index, with temporary files in `folder`; `asked` counts the documents that were looked up.

    Several threads may use it, some with segments of an earlier moment; one of them makes filters at a time.
    """

    def __init__(self, folder: Path | None = None, kept: Sequence[Group] = ()) -> None:
        self.folder, self.asked = folder, 0
        self._making = Lock()
        self._refused = False
        self._made = {(group.keys, group.segments[0].name): group for group in kept}

    def of(self, segments: Sequence[Segment], *, keys: bool = False, keep: bool = False) -> Iterator[Group]:
        """All segments, in order, with the existing filters of their digests and hashes, or of their keys.

        Filters are made when they pay, and all of them if they are to be kept.
        """
        stored = [*takewhile(lambda segment: segment.filters is not None, segments)]
        for run in _runs(stored) if self.folder is not None and not self._refused else ():
            if len(run) > 1 and (keep or self.asked * PAYS >= sum(map(len, run))):
                try:
                    with self._making:
                        self._make(run, keys)
                except OSError:  # a read-only folder, or a full disk: each segment is searched by itself
                    if keep:
                        raise
                    self._refused = True
        start = 0
        while start < len(segments):
            group = self._made.get((keys, segments[start].name))
            if group is None or not group.is_of(segments[start : start + len(group.segments)]):
                group = Group(segments[start : start + 1])
            yield group
            start += len(group.segments)

    def keep(self, segments: Sequence[Segment]) -> dict[str, FileFact]:
        """The files of filters of all groups, by name; missing ones are written."""
        assert self.folder is not None
        kept = {}
        for keys in (False, True):
            for group in self.of(segments, keys=keys, keep=True):
                if group.filters is not None:
                    if group.fact is None:
                        group = _written(self.folder, group)
                        self._made[keys, group.segments[0].name] = group
                    assert group.fact is not None
                    kept[group.name] = group.fact
        return kept

    def _make(self, segments: Sequence[Segment], keys: bool) -> None:
        """Make filters of all of these segments, in place of those of some; a larger group, made since, stays."""
        name = keys, segments[0].name
        if name in self._made and self._made[name].begins_with(segments):
            return
        hashes = _of_keys(segments) if keys else _of_digests(segments)
        if hashes is None:
            return
        made = _together(segments, hashes, keys, self.folder)
        for segment in segments:
            self._made.pop((keys, segment.name), None)
        self._made[name] = made


def kept_groups(folder: Path, files: Mapping[str, FileFact], segments: Sequence[Segment]) -> list[Group]:
    """The groups of an index's `segments` for which these files hold filters, without damaged ones."""
    places = {segment.name: place for place, segment in enumerate(segments)}
    groups = []
    for name, fact in files.items():
        if found := NAME.fullmatch(name):
            start = places.get(found[2], len(segments))
            group = Group(segments[start : start + int(found[3])], keys=found[1] == "key-groups", fact=fact)
            with suppress(InputError, OSError, ValueError, pa.ArrowException):
                if group.segments and group.name == name:
                    groups.append(_mapped(folder, group))
    return groups


def _runs(segments: Sequence[Segment]) -> Iterator[Sequence[Segment]]:
    """The segments of each group, in order."""
    runs: list[tuple[int, int]] = []  # the first segment of each, and its documents
    for start, size in enumerate(map(len, segments)):
        while runs and runs[-1][1] <= FOLD * size:
            start, earlier = runs.pop()
            size += earlier
        runs.append((start, size))
    return (segments[start:stop] for start, stop in pairwise([*(start for start, _ in runs), len(segments)]))


def _of_digests(segments: Sequence[Segment]) -> Hashes:
    bands = [[segment.bands[band].digest for segment in segments] for band in range(len(segments[0].bands))]
    return [*bands, [segment.hashes.hash_0 for segment in segments]]


def _of_keys(segments: Sequence[Segment]) -> Hashes | None:
    """None if some of the segments have no keys yet."""
    found = [segment.keys.key_hash for segment in segments if segment.keys is not None]
    return [found] if len(found) == len(segments) else None


def _together(segments: Sequence[Segment], hashes: Hashes, keys: bool, folder: Path | None) -> Group:
    column, ends = Column(np.uint64, folder), [0]
    for parts in hashes:
        words = filter_of(parts, together=True)
        column.append(words)
        ends.append(ends[-1] + len(words))
        for segment in segments:
            segment.release()
    whole = column.whole()
    return Group(segments, [whole[start:stop] for start, stop in pairwise(ends)], keys, column)


def _written(folder: Path, group: Group) -> Group:
    """The group, with its filters written to a file of the index."""
    assert group.filters is not None
    with columns_file(folder / group.name, FILTERS) as file:
        for words in group.filters:
            file.append([words])
        fact = file.finish()
    return _mapped(folder, replace(group, fact=fact))


def _mapped(folder: Path, group: Group) -> Group:
    """The group, with the filters in its file."""
    file = MappedColumns(folder / group.name, FilterWords)
    filters = [filter.word for filter in file.runs()]
    count = 1 if group.keys else len(group.segments[0].bands) + 1
    if len(filters) != count or any(len(words) % BLOCK for words in filters):
        raise damaged_file(folder / group.name, f"it does not hold {count} filters of whole blocks")
    return replace(group, filters=filters, mapped=file)
