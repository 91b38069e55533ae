"""The job of `passages_files`, and the tables that its tasks hand on in the work folder.

With `--index`, documents of earlier runs (`Held`) come before those of the run. So a place, or a position, means the
same in all stages; only new partitions are sampled, marked and listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.errors import ChangedInputError, InputError
from gpulsh.io.conversion import FormatName
from gpulsh.io.file import File, Stamp
from gpulsh.io.files.file_texts import Partition
from gpulsh.io.files.stamps import Stamps
from gpulsh.params import Folding, Shingling
from gpulsh.repeats import byte_text
from gpulsh.repeats.benchmark import Overlap
from gpulsh.repeats.copies import Copies, Part
from gpulsh.repeats.marks import Keep, TokenSpans
from gpulsh.repeats.windows import Repeats
from gpulsh.run.job import FileJob, Place
from gpulsh.run.policy import Screening
from gpulsh.run.records.tables import Table


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
class Held:
    """All that an index held when a run began."""

    index: Path
    files: tuple[File, ...]
    stamps: tuple[Stamp, ...]  # of the files, when they were taken in
    partitions: tuple[Partition, ...]
    facts: tuple[Mapping[str, Any], ...]  # of each partition, as `find.sample` gives them
    runs: tuple[HeldRun, ...]

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


@dataclass(frozen=True, kw_only=True)
class TokenJob(FileJob):
    """A run over files whose texts are read as tokens."""

    unit: Shingling
    folding: Folding

    @property
    def shingling(self) -> Shingling:
        """How tokens are read."""
        return self.unit.under(self.folding)

    def reading(self) -> Mapping[str, Any]:
        """How texts are read, as a part of the parameters."""
        return {
            "unit": self.unit.unit,
            "symbols": self.unit.symbols,
            "folding": asdict(self.folding),
            "text_column": self.columns.text,
            **({} if self.on_error == "fail" else {"on_error": self.on_error}),
            **self.form.facts(),
        }


@dataclass(frozen=True, kw_only=True)
class PassagesJob(TokenJob):
    """A run of `passages_files`. With an index, its files and partitions come after those that are held."""

    tokens: int  # of a window
    keep: Keep
    bridge: int
    whole_lines: bool
    part: Part | None = None  # what is counted instead of windows: copies within documents of equal `columns.identity`
    max_copies: int = 0
    of_bytes: bool = False  # whether a window is of bytes, whatever `unit` is; that counts what a cut leaves
    protect: tuple[str, ...] = ()  # INPUTs of a test set, whose items are marked instead of windows that repeat
    overlap: Overlap | None = None
    cutting: Cutting | None = None
    index: str | None = None  # the folder that holds the documents of earlier runs
    held: Held | None = None  # what is in it

    @property
    def windows(self) -> Shingling:
        """How the tokens of windows are read."""
        return byte_text.READING.under(byte_text.FOLDING) if self.of_bytes else self.shingling

    def parameters(self) -> Mapping[str, Any]:
        """All that decides the bytes of its results, but for the files."""
        windows = {
            "bytes" if self.of_bytes else "tokens": self.tokens,
            "keep": self.keep,
            "bridge": self.bridge,
            "whole_lines": self.whole_lines,
        }
        parts = {"part": self.part, "max_copies": self.max_copies, "within": self.columns.identity}
        items = {} if self.overlap is None else {"protect": list(self.protect), **self.overlap.to_json()}
        return {
            **(items or (windows if self.part is None else parts)),
            **self.reading(),
            "id_column": self.columns.id,
            **({} if self.cutting is None else {"cut": asdict(self.cutting)}),
            **({} if self.index is None else {"index": self.index}),
        }

    def of_index(self) -> Mapping[str, Any]:
        """The parameters that runs with one index share: how texts are read as windows."""
        windows = {"bytes" if self.of_bytes else "tokens": self.tokens, "unit": self.unit.unit}
        how = {"symbols": self.unit.symbols, "folding": asdict(self.folding), "text_column": self.columns.text}
        return {**windows, **how}

    @property
    def earlier_files(self) -> int:
        """How many of the files, the first ones, are of earlier runs."""
        return 0 if self.held is None else len(self.held.files)

    @property
    def earlier_partitions(self) -> int:
        """How many of the partitions, the first ones, are of earlier runs."""
        return 0 if self.held is None else len(self.held.partitions)

    @property
    def screening(self) -> Screening | None:
        """How documents that hold protected items are found."""
        if self.overlap is None:
            return None
        return Screening(self.protect, self.overlap, self.shingling, self.folding, marks=True)


@dataclass(frozen=True, kw_only=True)
class CutJob(TokenJob):
    """A run of `cut_files`."""

    passages: str
    passages_stamp: tuple[object, ...]
    cutting: Cutting

    def parameters(self) -> Mapping[str, Any]:
        """All that decides the bytes of its results, but for the files."""
        return {
            "passages": self.passages,
            "passages_stamp": list(self.passages_stamp),
            "cut": asdict(self.cutting),
            **self.reading(),
        }


PassagesPlace: TypeAlias = Place[PassagesJob]


class SampleRows(NamedTuple):
    """Samples, one for all equal ones of a run, in runs ordered by the first as `store.columns` has it."""

    value: NDArray[np.uint64]
    place: Numbers  # from the first place of the partition on


class PlaceRows(NamedTuple):
    """Places of tokens, ascending in each run."""

    place: Numbers


class TakenPlaces(NamedTuple):
    """How many places each document of the partition takes."""

    places: Numbers


class WindowRows(NamedTuple):
    """Windows, one for all equal ones of a run, in runs ordered by the first as `store.columns` has it."""

    proposed: NDArray[np.uint64]
    proven: NDArray[np.uint64]
    equal: Numbers  # how many of the run are equal, itself included
    place: Numbers  # of the first of them, from the first place of the partition on


class Followers(NamedTuple):
    """The other windows of a run, ascending, and for each the place of the one in `WindowRows`."""

    place: Numbers
    first: Numbers


class PartRows(NamedTuple):
    """Lines or paragraphs, one for all equal ones of a run, in runs ordered by the first as `store.columns` has it."""

    hash: NDArray[np.uint64]
    lower: NDArray[np.uint64]
    equal: Numbers  # how many of the run are equal, itself included
    number: Numbers  # of the first of them, from the first of the partition on


class CopiesHere(NamedTuple):
    """The other copies of a run, ascending; for each its number in `PartRows`, and how many come before it."""

    number: Numbers
    first: Numbers
    rank: Numbers


class Spots(NamedTuple):
    """All lines or paragraphs of a partition: documents in it, bytes of their texts, tokens."""

    document: Numbers
    start: Numbers
    stop: Numbers
    tokens: Numbers


class ByteStretches(NamedTuple):
    """Marked stretches of documents by position, in bytes of their texts; `first` is a place of a token, or -1."""

    document: Numbers
    start: Numbers
    stop: Numbers
    first: Numbers
    tokens: Numbers
    occurrences: Numbers


class FirstPlaces(NamedTuple):
    """First tokens of first occurrences, ascending: their documents and bytes."""

    place: Numbers
    document: Numbers
    start: Numbers


class Passages(NamedTuple):
    """The rows of `passages.parquet`, with documents by position; `first_document` is -1 where there is none."""

    document: Numbers
    start: Numbers
    stop: Numbers
    first_document: Numbers
    first_start: Numbers
    tokens: Numbers
    occurrences: Numbers


# By the stage that writes each, and behind it those that read it.
SAMPLES = Table("sample", "samples", SampleRows)  # meet
REST = Table("sample", "rest", SampleRows)  # who lets the run join an index; samples that SAMPLES lacks
MET_HERE = Table("sample", "met", PlaceRows)  # window; from the first place of the partition on
PLACES = Table("sample", "places", TakenPlaces)  # window, mark, locate
MET = Table("meet", "met", PlaceRows)  # window
WINDOWS = Table("window", "windows", WindowRows)  # repeat
FOLLOWERS = Table("window", "followers", Followers)  # mark
FOUND = Table("repeat", "found", Repeats)  # mark
PARTS = Table("part", "hashes", PartRows)  # count
COPIES_HERE = Table("part", "copies", CopiesHere)  # pick
SPOTS = Table("part", "spots", Spots)  # pick
COUNTED = Table("count", "counted", Copies)  # pick
STRETCHES = Table("mark", "stretches", TokenSpans)  # locate; in runs of documents
FIRSTS = Table("mark", "firsts", PlaceRows)  # locate
KEPT = Table("mark", "kept", PlaceRows)  # locate
BYTES = Table("locate", "bytes", ByteStretches)  # collect; of lines and paragraphs by `pick`
FIRST_PLACES = Table("locate", "firsts", FirstPlaces)  # collect; likewise
PASSAGES = Table("collect", "passages", Passages)  # list
