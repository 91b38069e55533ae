"""Counts and seconds of every stage: how many documents went in, met, were compared, and went out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from gpulsh.account.counts import COUNTS
from gpulsh.account.progress import Progress
from gpulsh.account.stages import StageRow
from gpulsh.backends.compiling import Stopwatch
from gpulsh.display import Tidy, html_table
from gpulsh.facts import Facts


@dataclass(eq=False, repr=False)
class Funnel(Tidy, Facts):
    """What became of the documents: a mapping, and `funnel["candidates"]` reads as `funnel.candidates`.

    What each number counts, and of which others it is the sum, stands in `counts`.
    """

    _inner = ("leave_out", "stage")

    documents: int = 0
    rejected: int = 0
    protected: int = 0
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
    crowded: int = 0
    candidates: int = 0  # of large buckets the similar pairs alone: what no cut of the work changes
    similar: int = 0
    dissimilar: int = 0
    verified: int = 0
    dropped: int = 0
    near_duplicates: int = 0
    earlier: int = 0
    kept: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # by stage, in order
    resumed: list[str] = field(default_factory=list)  # stages of which only the rest was done in these seconds

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)

    def __repr__(self) -> str:
        told = ", ".join(f"{row.name}={self[row.name]}" for row in COUNTS.values() if self[row.name])
        return f"Funnel({told})"

    def _repr_html_(self) -> str:
        counts = ((row.label, f"{self[row.name]:,}", row.meaning) for row in COUNTS.values() if self[row.name])
        seconds = ((name, f"{seconds:.3f} s") for name, seconds in self.seconds.items())
        return html_table("Funnel", ("", "count", "meaning"), counts) + html_table("Stages", ("", "took"), seconds)

    def to_dict(self) -> Facts:
        """All counts, and the seconds by stage."""
        return asdict(self)

    def leave_out(self, records: int, rows: int, protected: int) -> None:
        """Take out bad records and their rows, `protected` of them in protected files, which were counted as documents
        without a word.
        """
        self.rejected = records
        self.documents -= rows
        self.empty -= rows
        self.wordless -= rows
        self.protected -= protected
        self.kept -= rows - protected

    @contextmanager
    def stage(self, progress: Progress, row: StageRow, total: int | None) -> Iterator[None]:
        """Time a stage, but for kernels that are compiled in it, and tell `progress` of it."""
        watch = Stopwatch()
        with progress.stage(row.name, total, row.unit):
            yield
        self.seconds[row.name] = self.seconds.get(row.name, 0.0) + watch.seconds()
