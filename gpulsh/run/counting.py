"""Columns that a run over files adds to the rows it writes, and where it finds sources and dates of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpulsh.decide.counts.weights import Recipe, WeightBy
from gpulsh.errors import InputError
from gpulsh.io.conversion import FormatName
from gpulsh.io.file import File
from gpulsh.io.formats.arrow_ipc import Ipc
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.jsonl import JsonLines
from gpulsh.io.formats.parquet import Parquet
from gpulsh.stats.counts import CLUSTERS, MARKS, WEIGHT

Write = Literal["data", "duplicates", "marked"]


@dataclass(frozen=True)
class Counting:
    """Uses of counts in a run, besides `clusters.parquet`."""

    source: str | None = None  # the column of sources; None: each INPUT is one
    date: str | None = None
    add_counts: bool = False
    weights: Recipe | None = None
    weight_by: WeightBy = "verified"

    def to_json(self) -> Mapping[str, Any]:
        """The parameters that are given, as a report has them."""
        return {
            **({} if self.source is None else {"source_column": self.source}),
            **({} if self.date is None else {"date_column": self.date}),
            **({"add_counts": True} if self.add_counts else {}),
            **({} if self.weights is None else {"weights": self.weights.to_json(), "weight_by": self.weight_by}),
        }

    def read(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(name for name in (self.source, self.date) if name is not None)

    def added(self, write: Write) -> tuple[str, ...]:
        """The names of the columns that are added to written rows, in order."""
        marked = write == "marked"
        counts = [row.name for row in CLUSTERS if row.counted] if marked or self.add_counts else []
        weight = [WEIGHT.name] if self.weights is not None and write != "duplicates" else []
        return (*([row.name for row in MARKS] if marked else []), *counts, *weight)


def refuse_without_columns(files: Sequence[File], format: FormatName | None) -> None:
    """InputError for a file whose format takes no more columns."""
    if format is not None:
        return
    for file in files:
        if not isinstance(format_of(file), (Parquet, Ipc, JsonLines)):
            raise InputError(
                f"{file.name}: its rows take no more columns in this format; run with --format parquet or jsonl"
            )
