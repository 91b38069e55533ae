"""Where documents stand: partitions and files by position, known once all partitions are signed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Numbers


@dataclass(frozen=True)
class Layout:
    """Facts about partitions and files; nothing of a document."""

    partitions: Numbers  # [partitions + 1] positions of their first documents, and how many documents there are
    files: Numbers  # [files + 1] the same of files
    sources: Numbers  # [files] the number of the INPUT that each is of
    protected: int  # documents that are never dropped, the first ones
    rejecting: tuple[tuple[int, int, int], ...]  # partitions with rejected records, the first and last file of each

    def __len__(self) -> int:
        return int(self.partitions[-1])

    def by_partition(self, positions: Numbers) -> Iterator[tuple[int, slice]]:
        """Each partition that has some of ascending `positions`, and which of them."""
        ends = np.searchsorted(positions, self.partitions)
        for number in np.flatnonzero(ends[1:] > ends[:-1]).tolist():
            yield number, slice(int(ends[number]), int(ends[number + 1]))

    def source_of(self, positions: Numbers) -> Numbers:
        """int64 [m]: the number of the INPUT of each document."""
        return self.sources[self.file_of(positions)]

    def file_of(self, positions: Numbers) -> Numbers:
        """int64 [m]: the number of the file of each document."""
        return np.searchsorted(self.files, positions, side="right") - 1
