"""The jobs of `passages_files` and `cut_files`.

With `--index`, documents of earlier runs (`IndexContents`) come before the run's own. So a place, or a position, means
the same in all stages; only new partitions are sampled, marked and listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gpulsh.errors import ChangedInputError, InputError
from gpulsh.io.conversion import FormatName
from gpulsh.io.file import File, Stamp
from gpulsh.io.files.file_texts import Partition
from gpulsh.io.stamps import Stamps
from gpulsh.params import Folding, Shingling
from gpulsh.repeats.benchmark import Overlap
from gpulsh.repeats.copies import Part
from gpulsh.repeats.places import BYTES_FOLDING, BYTES_READING
from gpulsh.repeats.windows import Keep
from gpulsh.run.job import FileJob, TaskContext
from gpulsh.run.policy import Screening


@dataclass(frozen=True, kw_only=True)
class Cutting:
    """How texts are written without passages."""

    min_left: int  # tokens that a document must have left
    min_occurrences: int  # of passages that are cut
    format: FormatName | None = None  # None: as the inputs


@dataclass(frozen=True)
class HeldRun:
    """The files of an earlier run, in the index."""

    first: int  # of its partitions
    samples: Path  # all of its samples, in runs as SAMPLES; from its first place on
    places: Path  # PLACES, a run for each of its partitions


@dataclass(frozen=True)
class IndexContents:
    """All that an index held when a run began."""

    index: Path
    files: tuple[File, ...]
    stamps: tuple[Stamp, ...]  # of the files, when they were taken in
    partitions: tuple[Partition, ...]
    facts: tuple[Mapping[str, Any], ...]  # of each partition, as `find.sample_partition` gives them
    runs: tuple[HeldRun, ...]

    @contextmanager
    def unchanged(self, file: int) -> Iterator[None]:
        """InputError if a file of an earlier run has changed before the context is left."""
        try:
            with Stamps(self.files, self.stamps).unchanged([file]):
                yield
        except ChangedInputError as error:
            raise InputError(
                f"{self.files[file].path}: is gone or changed, and {self.index} needs it; restore it with its"
                " modification time, or start a new index"
            ) from error


@dataclass(frozen=True, kw_only=True)
class TokenJob(FileJob):
    """A run over files whose texts are read as tokens."""

    unit: Shingling
    folding: Folding

    @property
    def shingling(self) -> Shingling:
        """How tokens are read."""
        return self.unit.with_folding(self.folding)

    def reading(self) -> Mapping[str, Any]:
        """How texts are read, as a part of the parameters."""
        return {
            "unit": self.unit.unit,
            "symbols": self.unit.symbols,
            "folding": asdict(self.folding),
            "text_column": self.columns.text,
            **({} if self.on_error == "fail" else {"on_error": self.on_error}),
            **self.read_options.facts(),
        }


@dataclass(frozen=True, kw_only=True)
class PassagesJob(TokenJob):
    """A run of `passages_files`. Its files and partitions come after those in the index, if there is one."""

    tokens: int  # of a window
    keep: Keep
    bridge: int
    whole_lines: bool
    part: Part | None = None  # counts parts instead of windows: copies within documents of equal `columns.copy_key`
    max_copies: int = 0
    of_bytes: bool = False  # whether windows are of bytes; then `unit` only counts the text that a cut leaves
    protected_inputs: tuple[str, ...] = ()  # of a test set, whose items are marked instead of windows that repeat
    overlap: Overlap | None = None
    cutting: Cutting | None = None
    index: str | None = None  # the folder that holds the documents of earlier runs
    held: IndexContents | None = None  # its content

    @property
    def windows(self) -> Shingling:
        """How the tokens of windows are read."""
        return BYTES_READING.with_folding(BYTES_FOLDING) if self.of_bytes else self.shingling

    def parameters(self) -> Mapping[str, Any]:
        """All that decides the bytes of its results, but for the files."""
        windows = {
            "bytes" if self.of_bytes else "tokens": self.tokens,
            "keep": self.keep,
            "bridge": self.bridge,
            "whole_lines": self.whole_lines,
        }
        parts = {"part": self.part, "max_copies": self.max_copies, "within": self.columns.copy_key}
        items = {} if self.overlap is None else {"protect": list(self.protected_inputs), **self.overlap.to_json()}
        return {
            **(items or (windows if self.part is None else parts)),
            **self.reading(),
            "id_column": self.columns.id,
            **({} if self.cutting is None else {"cut": asdict(self.cutting)}),
            **({} if self.index is None else {"index": self.index}),
        }

    def index_parameters(self) -> Mapping[str, Any]:
        """The parameters that runs with one index share: how texts are read as windows."""
        windows = {"bytes" if self.of_bytes else "tokens": self.tokens, "unit": self.unit.unit}
        how = {"symbols": self.unit.symbols, "folding": asdict(self.folding), "text_column": self.columns.text}
        return {**windows, **how}

    @property
    def earlier_files(self) -> int:
        """How many of the files, the first ones, are of earlier runs."""
        return 0 if self.held is None else len(self.held.files)

    @property
    def other_files(self) -> tuple[str, ...]:
        """The samples of each earlier run, in the index."""
        return () if self.held is None else tuple(str(run.samples) for run in self.held.runs)

    @property
    def earlier_partitions(self) -> int:
        """How many of the partitions, the first ones, are of earlier runs."""
        return 0 if self.held is None else len(self.held.partitions)

    @property
    def screening(self) -> Screening | None:
        """How documents that hold protected items are found."""
        if self.overlap is None:
            return None
        return Screening(self.overlap, self.shingling, self.folding, marks=True)


@dataclass(frozen=True, kw_only=True)
class CutJob(TokenJob):
    """A run of `cut_files`."""

    passages: str
    passages_stamp: tuple[object, ...]
    cutting: Cutting

    @property
    def other_files(self) -> tuple[str, ...]:
        """The list of passages."""
        return (self.passages,)

    def parameters(self) -> Mapping[str, Any]:
        """All that decides the bytes of its results, but for the files."""
        return {
            "passages": self.passages,
            "passages_stamp": list(self.passages_stamp),
            "cut": asdict(self.cutting),
            **self.reading(),
        }


PassagesContext: TypeAlias = TaskContext[PassagesJob]
