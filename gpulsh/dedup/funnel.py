"""Counts and seconds of every stage: how many documents went in, met, were compared, and went out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from gpulsh.dedup.progress import Progress
from gpulsh.dedup.stage_table import StageRow


@dataclass(eq=False)
class Funnel(Mapping[str, Any]):
    """What became of the documents: a mapping, and `funnel["candidates"]` reads as `funnel.candidates`."""

    documents: int = 0
    rejected: int = 0  # bad records of files that were passed over, no documents
    nulls: int = 0  # documents that were null
    empty: int = 0  # documents without a token, the null ones among them
    bytes: int = 0  # UTF-8
    shingles: int = 0  # with repeats
    exact_copies: int = 0  # folded into their first copy before anything was compared
    crowded: int = 0  # documents in a bucket too large for all pairs
    candidates: int = 0  # pairs of small buckets, and of large ones the similar: what no cut of the work changes
    verified: int = 0  # pairs found similar, copies with their first among them
    dropped: int = 0
    earlier: int = 0  # of the dropped, those for documents of earlier runs
    kept: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # by stage, in order

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)

    def to_dict(self) -> dict[str, Any]:
        """All counts, and the seconds by stage."""
        return asdict(self)

    def leave_out(self, records: int, rows: int) -> None:
        """Bad records and their rows, which went through the stages as null documents and are none."""
        self.rejected = records
        self.documents -= rows
        self.empty -= rows
        self.kept -= rows

    @contextmanager
    def stage(self, progress: Progress, row: StageRow, total: int | None) -> Iterator[None]:
        """Time a stage and tell `progress` of it."""
        start = time.perf_counter()
        with progress.stage(row.name, total, row.unit):
            yield
        self.seconds[row.name] = self.seconds.get(row.name, 0.0) + time.perf_counter() - start
