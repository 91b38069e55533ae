"""A job over files: its parameters, its tasks, and the positions of documents.

A task is a pure function from inputs and files of the work folder to files of the work folder. Its results follow from
the job and the task alone, so it may run again, anywhere, at any time.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.budget import TaskSizes
from gpulsh.cached import cached_value
from gpulsh.io.arrow.buffers import string_array, to_arrow
from gpulsh.io.columns import Columns
from gpulsh.io.conversion import FormatName
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import FileTexts, HeldTexts, PartitionFacts, Piece
from gpulsh.io.files.read_options import DEFAULTS, ReadOptions
from gpulsh.io.files.readers import Reader, open_files
from gpulsh.io.formats.endings import format_of
from gpulsh.io.limits import Limit
from gpulsh.io.output_codec import OutputCodec
from gpulsh.io.stamps import Stamps
from gpulsh.method import Method
from gpulsh.params import SCHEME, Shingling
from gpulsh.ragged import offsets, row_of, slices_by_range
from gpulsh.run.key_rule import KeyRule
from gpulsh.run.policy import Counting, Policy, Screening, Write
from gpulsh.secret import EvidenceKeys
from gpulsh.stats.stages import OPTION_STAGES, Progress, StageRow, with_progress
from gpulsh.store.durable import FileFact

ADMIT = "admit"  # the step that decides by an index, which may have added the documents
JOIN = "join-index"  # after this step, documents may have joined an index of passages

DIGEST_VALUES = 1 << 12  # values that are JSON text at once

MIN_PARTS = 8  # one task soon reads a file of fewer
NOT_CUT = TaskSizes(memory=0, partition=0, digests=0, group=0)

OnError = Literal["fail", "skip"]


@dataclass(frozen=True)
class EarlierIndex:
    """Documents of earlier runs, which come first."""

    index: str  # the folder of the index that knows them
    key: str | None  # the column of its keys; None: keys are FILE:ROW


@dataclass(frozen=True, kw_only=True)
class FileJob(ABC):
    """A run over files: what decides the bytes of its results, and how the work is read and cut."""

    files: tuple[File, ...]
    columns: Columns
    stamps: Stamps  # of `files`
    on_error: OnError = "fail"
    read_options: ReadOptions = DEFAULTS
    reader: Reader = "arrow"
    cut: TaskSizes = NOT_CUT  # until the engine is open

    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """All that decides the bytes of its results, but for the files."""

    def to_json(self) -> Mapping[str, Any]:
        """The parameters and the input files as JSON values. A run resumes only where they are equal."""
        inputs = {file.name: stamp for file, stamp in zip(self.files, self.stamps.known, strict=True)}
        found: dict[str, Any] = {"scheme": SCHEME, "parameters": self.parameters(), "inputs": inputs}
        if (names := list(inputs)) != sorted(names):  # the keys of a manifest have no order
            found["order"] = _digest(names)
        # If the same files are given by other INPUT folders, their places in `data/` differ.
        if any("/" in file.relative for file in self.files):
            found["places"] = _digest([file.relative for file in self.files])
        return found

    @cached_value
    def file_names(self) -> pa.StringArray:
        """The name of each file, as results show it."""
        return string_array([file.name for file in self.files])

    @property
    def screening(self) -> Screening | None:
        """How documents that hold items of a test set are found; None if none are looked for."""
        return None

    @property
    def earlier_files(self) -> int:
        """How many of the files, the first ones, are of earlier runs."""
        return 0

    @property
    def other_files(self) -> tuple[str, ...]:
        """Paths of other files that tasks read, outside the work folder."""
        return ()

    @property
    def protected_inputs(self) -> tuple[str, ...]:
        """The INPUTs whose documents are never dropped; their files are the first ones."""
        return ()

    @property
    def earlier_partitions(self) -> int:
        """How many of the partitions, the first ones, are of earlier runs."""
        return 0

    def protects(self, number: int) -> bool:
        """Whether the documents of a file, given by number, are never dropped, nor written."""
        return self.files[number].source in self.protected_inputs

    @property
    def protected_files(self) -> int:
        """How many of the files are protected."""
        return sum(map(self.protects, range(len(self.files))))

    def with_parts(self, progress: Progress) -> Self:
        """The job with seek points in its large files of lines, which are read once for it."""
        least, files, large = self.cut.part, list(self.files), dict[int, int]()
        if least is None:
            return self
        for (number, file), (size, *_) in zip(enumerate(files), self.stamps.known, strict=True):
            if not isinstance(size, int) or size < MIN_PARTS * least:
                continue
            if format_of(file).takes_seek_points(file):
                large[number] = size
        if not large:
            return self
        row = OPTION_STAGES["divide"]
        with progress.stage(row.name, sum(large.values()), row.unit):
            for number in large:
                with self.stamps.unchanged([number]):
                    points = format_of(files[number]).find_seek_points(files[number], least, progress.advance)
                files[number] = replace(files[number], seek_points=points)
        return replace(self, files=tuple(files))

    def ranges(self, hashes: int) -> int:
        """The number of ranges for so many hashes."""
        return max(1, -(-hashes // self.cut.digests))

    def layout(self, facts_by_partition: Sequence[Mapping[str, Any]]) -> Layout:
        """The positions of partitions and files, by the facts of each partition that was read."""
        rows = np.zeros(len(self.files), np.int64)
        for facts in facts_by_partition:
            rows[facts["first_file"] :][: len(facts["rows"])] += np.array(facts["rows"], np.int64)
        files = offsets(rows)
        bad = [
            (number, facts["first_file"], facts) for number, facts in enumerate(facts_by_partition) if facts["rejected"]
        ]
        return Layout(
            offsets([facts["documents"] for facts in facts_by_partition]),
            files,
            np.array(self._source_numbers(), np.int64),
            int(files[self.protected_files]),
            tuple((number, first, first + len(facts["rows"]) - 1) for number, first, facts in bad),
        )

    def _source_numbers(self) -> list[int]:
        """The number of the INPUT of each file."""
        numbers = dict[str, int]()
        return [numbers.setdefault(file.source, len(numbers)) for file in self.files]

    def own_files(self) -> list[int]:
        """The numbers of the files that are neither protected nor of earlier runs."""
        return [number for number in range(self.earlier_files, len(self.files)) if not self.protects(number)]

    def file_and_row(
        self, layout: Layout, positions: Numbers, null: NDArray[np.bool_] | None = None
    ) -> tuple[pa.Array, pa.Array]:
        """The file's name and the row of the document at each of `positions` [m]; null where `null` [m] is true."""
        files = layout.file_of(positions)
        return self.file_names.take(to_arrow(files, null)), to_arrow(positions - layout.files[files], null)

    def texts(self, ops: Backend, parallel: int = 1, held: HeldTexts | None = None) -> FileTexts:
        """The documents of the files, for one of `parallel` readers at the same time."""
        skips, limit = self.on_error == "skip", self.limit(parallel)
        return open_files(self.reader, self.files, self.columns, ops, skips, limit, self.stamps, held)

    def limit(self, parallel: int) -> Limit:
        """The memory of one of `parallel` readers or writers at the same time."""
        return Limit(self.cut.memory, parallel)

    def step_parameters(self) -> Mapping[str, Any]:
        """The job and how its steps are cut, which decide the meaning of a finished step's files."""
        return {**self.to_json(), "cut": asdict(self.cut)}


@dataclass(frozen=True, kw_only=True)
class Job(FileJob):
    """A run of `deduplicate_files`."""

    method: Method
    policy: Policy
    write: Write
    earlier: EarlierIndex | None = None
    key: KeyRule | None = None
    format: FormatName | None = None  # of the output; None: as the inputs
    codec: OutputCodec | None = None  # likewise
    counting: Counting = field(default_factory=Counting)

    def parameters(self) -> Mapping[str, Any]:
        """All that decides the bytes of its results, but for the files."""
        return {
            **json.loads(self.method.to_json()),
            "text_column": self.columns.text,
            "id_column": self.columns.id,
            **self.policy.to_json(),
            "write": self.write,
            "on_error": self.on_error,
            **self.read_options.facts(),
            **self.counting.to_json(),
            **({} if self.format is None else {"format": self.format}),
            **({} if self.codec is None else {"compression": str(self.codec)}),
            **({} if self.key is None else self.key.to_json()),
            **({} if self.earlier is None else {"index": self.earlier.index, "key": self.earlier.key}),
        }

    def to_json(self) -> Mapping[str, Any]:
        """The parameters and the input files, with the INPUT of each file if they are of several."""
        numbers = self._source_numbers()
        return {**super().to_json(), **({"sources": _digest(numbers)} if any(numbers) else {})}

    @property
    def screening(self) -> Screening | None:
        """How documents that hold protected items are found, with --passages."""
        overlap, method = self.policy.overlap, self.method
        if overlap is None:
            return None
        words = Shingling(unit=method.shingling.unit, symbols=method.shingling.symbols)  # no stop words, stems, anchors
        return Screening(overlap, words.with_folding(method.folding), method.folding)

    @property
    def protected_inputs(self) -> tuple[str, ...]:
        """The INPUTs of --protect."""
        return self.policy.protect

    @cached_value
    def inputs(self) -> pa.StringArray:
        """Each INPUT of its files, by the number that `Layout.sources` has for it."""
        return string_array(list(dict.fromkeys(file.source for file in self.files)))

    def added_columns(self) -> tuple[str, ...]:
        """The names of the columns that are added to written rows."""
        return self.counting.added_columns(self.write)


def step_of(stage: str, number: int) -> str:
    """The step of a stage that does the partition, range, group, share or file of this number."""
    return f"{stage}-{number:06d}"


def step_file(folder: Path, step: str, what: str) -> Path:
    """The file of a step that holds `what` of it."""
    return folder / f"{step}-{what}.arrow"


@dataclass(frozen=True)
class Layout:
    """The positions of partitions and files."""

    partitions: Numbers  # [partitions + 1] positions of their first documents, and how many documents there are
    files: Numbers  # [files + 1] likewise for files
    sources: Numbers  # [files] the number of the INPUT that each is of
    protected: int  # documents that are never dropped, the first ones
    rejections: tuple[tuple[int, int, int], ...]  # partitions with rejected records, the first and last file of each

    def __len__(self) -> int:
        return int(self.partitions[-1])

    def bounds(self, partition: int) -> tuple[int, int]:
        """The position of the first document of a partition, and the one after its last."""
        start, stop = self.partitions[partition : partition + 2].tolist()
        return start, stop

    def file_bounds(self, number: int) -> tuple[int, int]:
        """The position of the first document of a file, and the one after its last."""
        start, stop = self.files[number : number + 2].tolist()
        return start, stop

    def rows(self) -> list[int]:
        """How many rows each file has."""
        rows: list[int] = np.diff(self.files).tolist()
        return rows

    def by_partition(self, positions: Numbers) -> Iterator[tuple[int, slice]]:
        """Each partition that has some of ascending `positions`, and which of them."""
        return slices_by_range(positions, self.partitions)

    def source_of(self, positions: Numbers) -> Numbers:
        """int64 [m]: the number of the INPUT of each document."""
        return self.sources[self.file_of(positions)]

    def file_of(self, positions: Numbers) -> Numbers:
        """int64 [m]: the number of the file of each document."""
        return row_of(self.files, positions)


AnyJob = TypeVar("AnyJob", bound=FileJob, covariant=True)


@dataclass(frozen=True)
class TaskContext(Generic[AnyJob]):
    """The work folder and the backend of a task."""

    job: AnyJob
    folder: Path
    ops: Backend
    progress: Progress
    keys: EvidenceKeys
    parallel: int = 1  # so many tasks share the memory with the held texts
    held: HeldTexts | None = None  # texts that earlier tasks read

    def texts(self) -> FileTexts:
        """The documents of the job's files."""
        return self.job.texts(self.ops, self.parallel, self.held)

    def read(
        self,
        pieces: Sequence[Piece],
        facts: PartitionFacts,
        prepare: Callable[[TextBatch], TextBatch] | None = None,
        max_bytes: int | None = None,
    ) -> Iterator[TextBatch]:
        """`prepare` of each batch of some pieces, with progress; `facts` is complete when all batches are used."""
        batches = self.texts().read(pieces, max_bytes or self.ops.sizes().batch, facts)
        return with_progress(batches, self.progress, prepare)

    def unchanged(self, files: Iterable[int]) -> AbstractContextManager[None]:
        """ChangedInputError if one of the files of these numbers is changed before the context is left."""
        return self.job.stamps.unchanged(files)

    def unchanged_pieces(self, pieces: Iterable[Piece]) -> AbstractContextManager[None]:
        """`unchanged` for the files that have these pieces."""
        return self.unchanged(piece.file for piece in pieces)


JobContext: TypeAlias = TaskContext[Job]


@dataclass(frozen=True)
class TaskResult:
    """The results of a task: durable files, relative to the work folder, and facts as JSON values. It is `brief` if it
    can be repeated soon after a power cut.

    The fact `amount` is the task's part of its stage's total, which it reports while it works. Without that fact a task
    is one unit, reported at its end. Progress also shows `documents`, `bytes` and `dropped`.
    """

    files: Mapping[str, FileFact] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    brief: bool = False


@dataclass(frozen=True)
class Task:
    """`work(context, *arguments)`, a function and arguments that can be pickled; `step` is its name."""

    step: str
    work: Callable[..., TaskResult]
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True)
class Stage:
    """Independent tasks, and their row in the table of stages."""

    row: StageRow
    tasks: Sequence[Task]
    parallel: bool = False  # whether tasks run in parallel, because each leaves threads of the backend idle


def report_done(facts: Mapping[str, Any], unit: str, progress: Progress, *, before: bool = False) -> None:
    """Report a finished task, of a stage in `unit`, that was done elsewhere, or `before` the run that this resumes."""
    amount = facts.get("amount", 1)
    progress.advance(amount)
    documents = 0 if unit == "documents" else facts.get("documents", 0)
    size = 0 if unit == "B" else facts.get("bytes", 0)
    progress.count(documents=documents, size=size, dropped=facts.get("dropped", 0))
    if before:
        progress.done_before(amount, documents=documents, size=size)


def fact_sum(facts: Sequence[Mapping[str, Any]], name: str) -> int:
    """The sum of a fact over tasks."""
    return sum(int(fact.get(name, 0)) for fact in facts)


def _digest(values: Sequence[str | int]) -> str:
    """The SHA-256 of a value for each file as a JSON list, which a report of a million files needs no room for."""
    found = hashlib.sha256(b"[")
    for start in range(0, len(values), DIGEST_VALUES):
        some = json.dumps(values[start : start + DIGEST_VALUES])[1:-1]
        found.update(f", {some}".encode() if start else some.encode())
    found.update(b"]")
    return found.hexdigest()
