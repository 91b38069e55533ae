"""Documents of earlier runs, which `--index` holds: where their samples are, and how their texts are read again.

They come before the documents of the run. So a place, or a position, means the same in all stages; only new partitions
are sampled, marked and listed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulsh.errors import ChangedInputError, InputError
from gpulsh.io.file import File, Stamp
from gpulsh.io.files.file_texts import Partition
from gpulsh.io.files.stamps import Stamps


@dataclass(frozen=True)
class HeldRun:
    """The files of an earlier run, in the index."""

    first: int  # of its partitions
    samples: Path  # all of its samples, in runs as SAMPLES; from its first place on
    places: Path  # PLACES, a run for each of its partitions


@dataclass(frozen=True)
class Held:
    """All that an index held when a run began."""

    index: Path
    files: tuple[File, ...]
    stamps: tuple[Stamp, ...]  # of the files, when they were taken in
    partitions: tuple[Partition, ...]
    facts: tuple[Mapping[str, Any], ...]  # of each partition, as `find.sample` gives them
    runs: tuple[HeldRun, ...]

    def run_of(self, partition: int) -> HeldRun:
        """The run of a partition."""
        return self.runs[bisect_right(self.runs, partition, key=lambda run: run.first) - 1]

    @contextmanager
    def unchanged(self, file: int) -> Iterator[None]:
        """InputError if a file of an earlier run has changed before the context is left."""
        try:
            with Stamps(self.files, self.stamps).unchanged([file]):
                yield
        except ChangedInputError as error:
            raise InputError(
                f"{self.files[file].path}: is gone or changed, and {self.index} needs it; restore it, or"
                " start a new index"
            ) from error
