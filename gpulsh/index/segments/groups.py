"""Filters of several segments together, so that an index of many is asked about as fast as one of a few.

What passes the filter of a group, little of what is new, is looked for in its segments by their own filters; so columns
of a grown index are not looked at for what their filters let through by chance, either. Groups are of 4, 16, 64, ...
segments that follow one another. They lie in files without a name, not in the index: whoever asks about few documents,
for which it would not pay to read all digests, makes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpulsh.index.segments.filters import Words, filter_of
from gpulsh.index.segments.segment import Segment
from gpulsh.store.scratch import Column

WIDTH = 4
Hashes = Sequence[Sequence[NDArray[np.uint64]]]  # of each filter, of each segment
PAYS = 8  # documents of a group for each one that was asked about, up to which its filters are made


@dataclass(frozen=True, eq=False)
class Group:
    """Segments, and their filters together, of keys or as `Segment.filters` are; None where each is asked by itself."""

    segments: Sequence[Segment]
    filters: Sequence[Words] | None = None
    column: Column = field(default_factory=lambda: Column(np.uint64))  # what the filters lie in

    def let_go(self) -> None:
        """Let the system drop the pages that were read; few are of segments that are asked by filters together."""
        if self.filters is not None:
            self.column.let_go()
            return
        for segment in self.segments:
            segment.let_go()


class Groups:
    """The groups of an index whose work lies in `folder`; `asked` counts documents that it was asked about."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder, self.asked = folder, 0
        self._refused = False
        self._made: dict[tuple[bool | int, ...], Group] = {}  # by the filters of segments, which stay when keys come

    def of(self, segments: Sequence[Segment], *, keys: bool = False) -> Iterator[Group]:
        """All segments, in order; with filters of their digests and hashes, or of their keys."""
        start, stored = 0, 0
        if self.folder is not None and len(segments) >= WIDTH:
            stored = next((n for n, segment in enumerate(segments) if segment.filters is None), len(segments))
        while start + WIDTH <= stored:
            width = WIDTH
            while start % (width * WIDTH) == 0 and start + width * WIDTH <= stored:
                width *= WIDTH
            while (group := self._group(segments[start : start + width], keys)) is None and width > WIDTH:
                width //= WIDTH
            yield group or Group(segments[start : start + width])
            start += width
        if start < len(segments):
            yield Group(segments[start:])

    def _group(self, segments: Sequence[Segment], keys: bool) -> Group | None:
        """Those together, where it has paid or pays now to make their filters."""
        name = (keys, *(id(segment.filters) for segment in segments))
        if name in self._made:
            return self._made[name]
        if self._refused or self.asked * PAYS < sum(map(len, segments)):
            return None
        hashes = _of_keys(segments) if keys else _of_digests(segments)
        if hashes is None:
            return None
        try:
            made = _together(segments, hashes, self.folder)
        except OSError:  # of a folder that is only read, or a full disk: each segment is asked by itself
            self._refused = True
            return None
        within = {known for known in self._made if known[0] == keys and {*known[1:]} <= {*name[1:]}}
        self._made = {known: group for known, group in self._made.items() if known not in within}
        self._made[name] = made
        return made


def _of_digests(segments: Sequence[Segment]) -> Hashes:
    bands = [[segment.bands[band].digest for segment in segments] for band in range(len(segments[0].bands))]
    return [*bands, [segment.hashes.hash_0 for segment in segments]]


def _of_keys(segments: Sequence[Segment]) -> Hashes | None:
    """None where some of the segments have no keys yet."""
    found = [segment.keys.key_hash for segment in segments if segment.keys is not None]
    return [found] if len(found) == len(segments) else None


def _together(segments: Sequence[Segment], hashes: Hashes, folder: Path | None) -> Group:
    column, ends = Column(np.uint64, folder), [0]
    for parts in hashes:
        words = filter_of(parts, together=True)
        column.append(words)
        ends.append(ends[-1] + len(words))
        for segment in segments:
            segment.let_go()
    whole = column.whole()
    return Group(segments, [whole[start:stop] for start, stop in pairwise(ends)], column)
