"""Dropped documents of a finished run to be read: which of them, and their texts, read again where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.errors import GpulshError, ParameterError
from gpulsh.facts import Facts
from gpulsh.io.columns import Columns
from gpulsh.io.file import File, reading
from gpulsh.report.evidence import Evidence, spread
from gpulsh.report.excerpts import Place, read_texts
from gpulsh.report.originals import Originals


@dataclass
class Review:
    """The evidence of a run, its duplicates.parquet, with its report."""

    duplicates: File
    report: Facts
    missing: dict[str, str] = field(default_factory=dict)  # why a text is not at hand, by file

    def __post_init__(self) -> None:
        self._originals = Originals(self.report)
        with reading(self.duplicates):
            self._evidence = Evidence(self.duplicates, self._originals.named)

    def chosen(self, *, cluster: int | None, name: str | None, near_threshold: bool) -> Numbers:
        """The places of rows: those of a cluster, of an id, or all; the least similar first where that is asked for.

        Where nothing is asked for, a few from the least similar to the most. ParameterError where there is no such row.
        """
        with reading(self.duplicates):
            similarity = self._evidence.column("similarity", np.float32)
            clusters = self._evidence.column("cluster", np.int64)
            named = None if name is None else self._evidence.named(name)
        if cluster is None and name is None and not near_threshold:
            return spread(similarity, clusters)
        found = np.arange(len(similarity)) if named is None else named
        if name is not None and not len(found):
            raise ParameterError(f"id is {name!r}, which no dropped document has, nor one that others are dropped for")
        if cluster is not None:
            found = found[clusters[found] == cluster]
            if not len(found):
                raise ParameterError(f"cluster is {cluster}, and nothing of it is dropped; give one that is shown")
        return found[np.argsort(similarity[found], kind="stable")] if near_threshold else found

    def pairs(self, places: Numbers) -> list[Facts]:
        """Those rows as the report has its examples, with their texts; one that is not at hand is empty."""
        with reading(self.duplicates):
            rows = self._evidence.rows(places.tolist())
        texts = self._texts(self._evidence.places(rows))
        return [self._evidence.pair(row, texts) for row in rows]

    def _texts(self, places: set[Place]) -> Mapping[Place, str]:
        found: dict[Place, str] = {}
        columns = Columns(text=self.report["parameters"]["text_column"])
        for number in sorted({number for number, _ in places}):
            here = {(0, row) for at, row in places if at == number}
            try:
                texts = read_texts([self._originals.find(number)], columns, here)
            except GpulshError as error:
                self.missing[self._originals.named[number].name] = error.message
            else:
                found |= {(number, row): text for (_, row), text in texts.items()}
        return found
