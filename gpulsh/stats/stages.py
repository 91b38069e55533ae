"""The stages of a run: names and units, progress, and the counts and seconds of a `Funnel`.

Two kinds of run may have a stage of the same name. It does the same work, perhaps counted in other units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

from gpulsh.arrays import TextBatch, html_table
from gpulsh.backends.compiling import Stopwatch
from gpulsh.ragged import total_size
from gpulsh.stats.counts import COUNTS

OTHER = "other"  # in a report: seconds of the run outside of all stages
COMPILE = "compile"  # seconds in which stages waited for kernels
REST_MEANINGS = {
    OTHER: "start, checks, evidence and this summary",
    COMPILE: "compile kernels for this processor; later runs reuse them",
}


@dataclass(frozen=True)
class StageRow:
    """A row of the table."""

    name: str
    meaning: str
    unit: str  # of its progress; B is for bytes of text
    cost: str | None = None  # the amount that its time grows with, in plans; None: not estimated


TASK_UNITS = ("ranges", "partitions", "files", "runs")  # units: a task is one


def _table(*rows: tuple[str, ...]) -> dict[str, StageRow]:
    return {row[0]: StageRow(*row) for row in rows}


# `deduplicate_files`, and the command.
FILE_STAGES = _table(
    ("sign", "read every document, fold, cut into shingles, sign", "B", "bytes of text"),
    ("copies", "find exact copies by their hashes", "ranges", "documents"),
    ("collide", "sort band digests, find documents that share a bucket", "bands", "digests"),
    ("connect", "group documents that candidate pairs connect", "ranges", "documents"),
    ("route", "bring candidate pairs and copies to their groups", "ranges", "pairs"),
    ("gather", "read the documents of candidate pairs again", "documents", "bytes of text"),
    ("compare", "compare the candidate pairs of groups too large for one task", "pairs"),  # part of verify in plans
    ("verify", "compare the other candidate pairs, decide which documents to keep", "documents", "bytes of text"),
    ("collect", "return decisions to the partitions of their documents", "partitions", "documents"),
    ("write", "write kept rows and evidence", "documents", "bytes of text"),
)

# With large files of lines, or some options: --key; --source-column or --date-column; an index with a --keep other than
# "first".
OPTION_STAGES = _table(
    ("divide", "find rows of large files from which tasks can read", "B"),
    ("keys", "find documents with equal keys", "ranges"),
    ("sight", "read the sources and dates of documents", "partitions"),
    ("survey", "read the values of --keep", "B"),
    ("rank", "put documents in the order of --keep", "documents"),
    ("arrange", "bring the texts into that order", "documents"),
)

# With --passages, before the others; also of `passages_files`.
ITEM_STAGES = _table(
    ("protect", "index the windows of the protected files", "B"),
    ("screen", "read every document, find the protected items in it", "B"),
)

# With the measure containment, instead of "collide".
CONTAINMENT_STAGES = _table(
    ("weigh", "count how many documents have each shingle", "ranges"),
    ("prefix", "choose the rarest shingles of each document", "partitions"),
    ("join", "find documents that share a rare shingle", "ranges"),
)

# With an index of earlier runs, instead of all stages before "write".
INDEXED_STAGES = {
    **_table(("admit", "compare every document with earlier ones, decide, add it to the index", "B")),
    "write": FILE_STAGES["write"],
}

# `deduplicate`.
MEMORY_STAGES = {"sign": FILE_STAGES["sign"]} | _table(
    ("collide", "find exact copies, sort band digests, find documents that share a bucket", "bands"),
    ("read", "read the documents of candidate pairs again", "documents"),
    ("verify", "compare the candidate pairs of small buckets", "pairs"),
    ("resolve", "compare within large buckets, decide which documents to keep", "documents"),
)

# `gpulsh index`.
INDEX_STAGES = _table(
    ("index", "compare every document with the index, decide, add it", "B"),
    ("save", "commit the index, write its evidence", "documents"),
    ("query", "compare every document with the index", "B"),
)

# `passages_files` and `cut_files`.
PASSAGE_STAGES = _table(
    ("sample", "read every document, sample its windows", "B"),
    ("meet", "find samples that occur again", "ranges"),
    ("window", "read documents with such samples again, hash the windows near them", "partitions"),
    ("repeat", "find windows that occur more than once", "ranges"),
    ("mark", "mark tokens", "partitions"),
    ("locate", "read marked documents and first occurrences again, find the bytes of tokens", "partitions"),
    ("part", "read every document, hash its lines or paragraphs", "B"),
    ("count", "find lines or paragraphs that occur more than once", "ranges"),
    ("hold", "mark text that items of the test set cover", "partitions"),
    ("pick", "list copies beyond a number, read the most frequent again", "partitions"),
    ("collect", "return first occurrences and ids to the passages", "partitions"),
    ("list", "write the passages", "files"),
    ("cut", "write texts without passages", "documents"),
    ("store", "copy samples to the index", "runs"),
)

# All stages that a report may have.
REPORT_STAGES = {**ITEM_STAGES, **FILE_STAGES, **OPTION_STAGES, **CONTAINMENT_STAGES, **INDEXED_STAGES}
ALL_STAGES = {**PASSAGE_STAGES, **REPORT_STAGES}  # by `run.driver.Stages`
# The stages that `gpulsh plan` estimates, in order.
COSTS = {row.name: row.cost for row in FILE_STAGES.values() if row.cost is not None}
ESTIMATED_STAGES = tuple(COSTS)

Advance = Callable[[int], None]  # called with the amount of work done since the last call


def no_progress(done: int) -> None:
    """Report nothing."""


class Progress:
    """A listener to the progress of a run. This one shows nothing. Stages follow one another, never nested."""

    def stage(self, name: str, total: int | None, unit: str) -> AbstractContextManager[None]:
        """A stage begins, and ends with the context; `total` is in `unit` ("B", "documents", "pairs"), if known."""
        return nullcontext()

    def advance(self, amount: int) -> None:
        """`amount` more units of the current stage are done."""

    def count(self, *, documents: int = 0, size: int = 0, dropped: int = 0) -> None:
        """So many more documents, bytes of text and dropped documents passed the current stage.

        Amounts in the unit of the stage are left out.
        """

    def done_before(self, amount: int, *, documents: int = 0, size: int = 0) -> None:
        """An earlier run did this work, and this run resumes it: rates leave it out."""


def with_progress(
    batches: Iterable[TextBatch], progress: Progress, prepare: Callable[[TextBatch], TextBatch] | None = None
) -> Iterator[TextBatch]:
    """`prepare` of each batch. It reports the bytes and documents of a batch that was used, and releases it first."""
    for batch in batches:
        size, count = total_size(batch), len(batch)
        ready = prepare(batch) if prepare else batch
        del batch
        yield ready
        del ready  # before the next one is read
        progress.advance(size)
        progress.count(documents=count)


@dataclass(eq=False, repr=False)
class Funnel(Mapping[str, Any]):
    """Counts of documents and pairs: a mapping, in which `funnel["candidates"]` is `funnel.candidates`.

    `stats.counts` has the meaning and the parts of each number.
    """

    documents: int = 0
    rejected: int = 0
    protected: int = 0
    contaminated: int = 0
    nulls: int = 0
    wordless: int = 0
    empty: int = 0
    bytes: int = 0
    not_utf8: int = 0
    stray_bytes: int = 0
    shingles: int = 0
    exact_copies: int = 0
    copies_of_kept: int = 0
    copies_of_dropped: int = 0
    copies_left: int = 0
    key_copies: int = 0
    crowded: int = 0
    candidates: int = 0  # from large buckets only the similar pairs, so that no cut of the work changes it
    similar: int = 0
    dissimilar: int = 0
    verified: int = 0
    dropped: int = 0
    near_duplicates: int = 0
    earlier: int = 0
    few_sources: int = 0
    kept: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # by stage, in order
    resumed: list[str] = field(default_factory=list)  # stages that an earlier run had begun

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)

    def __repr__(self) -> str:
        counts = ", ".join(f"{row.name}={self[row.name]}" for row in COUNTS.values() if self[row.name])
        return f"Funnel({counts})"

    def _repr_html_(self) -> str:
        counts = ((row.label, f"{self[row.name]:,}", row.meaning) for row in COUNTS.values() if self[row.name])
        seconds = ((name, f"{seconds:.3f} s") for name, seconds in self.seconds.items())
        return html_table("Funnel", ("", "count", "meaning"), counts) + html_table("Stages", ("", "took"), seconds)

    def to_dict(self) -> Mapping[str, Any]:
        """All counts, and the seconds by stage."""
        return asdict(self)

    def subtract_rejected(self, records: int, rows: int, protected: int, *, few_sources: bool = False) -> None:
        """Take out bad records. Their rows were counted as documents without a word, `protected` of them protected, the
        others as kept ones, or as of `few_sources`.
        """
        self.rejected = records
        self.documents -= rows
        self.empty -= rows
        self.wordless -= rows
        self.protected -= protected
        if few_sources:
            self.few_sources -= rows - protected
        else:
            self.kept -= rows - protected

    @contextmanager
    def stage(self, progress: Progress, row: StageRow, total: int | None) -> Iterator[None]:
        """Time a stage, without the compiling of kernels, and report it to `progress`."""
        watch = Stopwatch()
        with progress.stage(row.name, total, row.unit):
            yield
        self.seconds[row.name] = self.seconds.get(row.name, 0.0) + watch.seconds()
