"""Filters of several segments together, so that an index of many segments answers as fast as one of a few.

Few new hashes pass the filter of a group. Those that do are looked up in its segments by their own filters. The
segments of a group follow one another, and it has more than RATIO times the documents of the next group.
Without groups, an index of 16 segments adds documents 28 % slower and answers queries 60 % slower
(`benchmarks/record/amd-epyc-2-cores/2026-11-25/index-groups.md`). Keys have no such filters, which saved 6 %.

Segments without fingerprints have no filters of their own, so one that is alone is a group, too.

A writer makes filters when it writes a segment, in files without names, and the next commit keeps them for later
processes. They hold nothing that segments do not: without a file, or with a damaged one, each segment is searched by
itself until a writer makes the filters again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from pathlib import Path

import numpy as np

from gpulsh.errors import InputError
from gpulsh.index.filters import COMPACT_HASH_BITS, Words, bloom_filter
from gpulsh.index.segment import FILTERS, FilterWords, Segment, file_name, saving
from gpulsh.store.columns import Column, MappedBatches, MappedColumns, columns_file
from gpulsh.store.durable import FileFact

RATIO = 2  # a group with at most so many times the documents of the next one is united with it
FILE_NAME = re.compile(r"groups-([0-9a-f]+)-([0-9]{1,9})\.arrow")


@dataclass(frozen=True, eq=False)
class Group:
    """Segments, and their common filters as in `Segment.filters`; none if each is searched by itself."""

    segments: Sequence[Segment]
    filters: Sequence[Words] = ()
    mapped: MappedBatches | Column | None = None  # the mapped memory of the filters
    fact: FileFact | None = None  # of the file in the index that holds them

    @property
    def name(self) -> str:
        """Return the name of its file in the index."""
        return file_name("groups", f"{self.segments[0].name}-{len(self.segments)}")

    def has_segments(self, segments: Sequence[Segment]) -> bool:
        """Whether these are its segments, as they are now or were before they had keys."""
        return [segment.name for segment in self.segments] == [segment.name for segment in segments]

    def release(self) -> None:
        """Release the pages that were read; with common filters, few are of the segments."""
        for mapped in [self.mapped] if self.mapped else self.segments:
            mapped.release()


def groups_of(segments: Sequence[Segment], known: Sequence[Group]) -> Iterator[Group]:
    """All segments, in order, in `known` groups with filters, or each by itself."""
    groups = {group.segments[0].name: group for group in known}
    start = 0
    while start < len(segments):
        group = groups.get(segments[start].name)
        if group is None or not group.has_segments(segments[start : start + len(group.segments)]):
            group = Group(segments[start : start + 1])
        yield group
        start += len(group.segments)


def make_groups(segments: Sequence[Segment], known: Sequence[Group], folder: Path) -> list[Group]:
    """The groups of the segments in files: `known` ones, and new ones with filters in temporary files in `folder`."""
    stored = [*takewhile(lambda segment: segment.files, segments)]
    runs: list[tuple[int, int]] = []  # the first segment of each group, and its documents
    for start, size in enumerate(map(len, stored)):
        while runs and runs[-1][1] <= RATIO * size:
            start, earlier = runs.pop()
            size += earlier
        runs.append((start, size))
    groups = []
    with saving(folder):
        for start, stop in pairwise([*(start for start, _ in runs), len(stored)]):
            run = stored[start:stop]
            if len(run) > 1 or run[0].reads_source:
                found = next((group for group in known if group.has_segments(run)), None)
                groups.append(replace(found, segments=run) if found else _make_group(run, folder))
    return groups


def _make_group(segments: Sequence[Segment], folder: Path) -> Group:
    hashes = [[segment.band(band).digest for segment in segments] for band in range(segments[0].band_count)]
    hashes.append([segment.hashes.hash_0 for segment in segments])
    column, ends = Column(np.uint64, folder), [0]
    for parts in hashes:
        words = bloom_filter(parts, together=True, bits=COMPACT_HASH_BITS if segments[0].reads_source else None)
        column.append(words)
        ends.append(ends[-1] + len(words))
        for segment in segments:
            segment.release()
    whole = column.whole()
    return Group(segments, [whole[start:stop] for start, stop in pairwise(ends)], column)


def write_groups(groups: Sequence[Group], folder: Path) -> list[Group]:
    """The groups, all of them with their filters in files of the index."""
    found = []
    for group in groups:
        if not group.fact:
            with columns_file(folder / group.name, FILTERS) as file:
                for words in group.filters:
                    file.append([words])
                fact = file.finish()
            group = _with_mapped_filters(folder, group, fact)
        found.append(group)
    return found


def read_groups(folder: Path, files: Mapping[str, FileFact], segments: Sequence[Segment]) -> list[Group]:
    """The groups of an index's `segments` for which these files hold filters, without damaged ones."""
    places = {segment.name: place for place, segment in enumerate(segments)}
    groups = []
    for name, fact in files.items():
        if (found := FILE_NAME.fullmatch(name)) and found[1] in places:
            start = places[found[1]]
            group = Group(segments[start : start + int(found[2])])
            with suppress(InputError, OSError):
                if group.name == name:
                    groups.append(_with_mapped_filters(folder, group, fact))
    return groups


def _with_mapped_filters(folder: Path, group: Group, fact: FileFact) -> Group:
    """The group, with the filters in its file."""
    file = MappedColumns(folder / group.name, FilterWords)
    return replace(group, filters=[filter.word for filter in file.runs()], mapped=file, fact=fact)
