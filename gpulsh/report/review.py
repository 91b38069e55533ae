"""Dropped documents of a finished run to be read: which of them, and their texts, read again where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.errors import GpulshError, InputError, ParameterError
from gpulsh.facts import Facts
from gpulsh.io.files.inputs import find_files
from gpulsh.io.format import Columns, File, reading
from gpulsh.report.evidence import Evidence, spread
from gpulsh.report.excerpts import Place, read_texts


@dataclass
class Review:
    """The evidence of a run, its duplicates.parquet, with its report."""

    duplicates: File
    report: Facts
    missing: dict[str, str] = field(default_factory=dict)  # why a text is not at hand, by file

    def __post_init__(self) -> None:
        sources = [source for source in self.report["sources"] for _ in range(source["files"])]
        self._files = [
            File(entry["file"], "", entry["file"], source=source["input"])
            for entry, source in zip(self.report["files"], sources, strict=True)
        ]
        with reading(self.duplicates):
            self._evidence = Evidence(self.duplicates, self._files)

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
        """Those rows as the report has its examples, each with its `cluster`; a text that is not at hand is empty."""
        with reading(self.duplicates):
            rows = self._evidence.rows(places.tolist())
        texts = self._texts(self._evidence.places(rows))
        return [{**self._evidence.pair(row, texts), "cluster": row["cluster"]} for row in rows]

    def _texts(self, places: set[Place]) -> Mapping[Place, str]:
        found: dict[Place, str] = {}
        parameters, known = self.report["parameters"], dict[str, dict[str, File]]()
        columns = Columns(text=parameters["text_column"])
        for number in sorted({number for number, _ in places}):
            name, source = self._files[number].name, self._files[number].source
            try:
                if source not in known:
                    known[source] = {file.name: file for file in find_files([source])}
                file = replace(self._unchanged(known[source].get(name), name), lines=parameters.get("lines", False))
                here = {(0, row) for at, row in places if at == number}
                found |= {(number, row): text for (_, row), text in read_texts([file], columns, here).items()}
            except GpulshError as error:
                known.setdefault(source, {})
                self.missing[name] = error.message
        return found

    def _unchanged(self, file: File | None, name: str) -> File:
        if file is None:
            raise InputError(f"{name}: is not where it was")
        if file.stamp() != self.report["job"]["inputs"].get(name):
            raise InputError(f"{name}: was changed since the run")
        return file
