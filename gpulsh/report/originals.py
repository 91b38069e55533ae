"""Reads INPUT again for a finished run: texts of dropped documents, and shares of a column's values.

So a run need not know in advance which column or document its user will look at. Files are used only if they are
unchanged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.errors import GpulshError, InputError, ParameterError
from gpulsh.io.arrow.buffers import null_mask, number_values, plain_values, string_array
from gpulsh.io.arrow.ids import value_strings
from gpulsh.io.columns import Columns
from gpulsh.io.file import File, reading
from gpulsh.io.files.inputs import find_files
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.jsonl import JsonLines
from gpulsh.report.drawn_rows import example_rows
from gpulsh.report.evidence import Evidence
from gpulsh.report.excerpts import FileRow, read_texts

MAX_VALUES = 1 << 20  # values of a column
LISTED_VALUES = 200  # values in a report


class Originals:
    """The files of a finished run, by their numbers in its report."""

    def __init__(self, report: Mapping[str, Any]) -> None:
        sources = [source for source in report["sources"] for _ in range(source["files"])]
        self.named = [
            File(entry["file"], "", entry["file"], source=source["input"])
            for entry, source in zip(report["files"], sources, strict=True)
        ]
        self.unprotected = [number for number, source in enumerate(sources) if not source["protected"]]
        self._parameters, self._stamps = report["parameters"], report["job"]["inputs"]
        self._read_options = ReadOptions.taken_from(dict(self._parameters))
        self._known: dict[str, dict[str, File] | InputError] = {}

    def find(self, number: int) -> File:
        """The file to read; InputError if it is missing or has changed since the run."""
        name, source = self.named[number].name, self.named[number].source
        if source not in self._known:
            try:
                found = find_files([source], options=self._read_options, again=True)
                self._known[source] = {file.name: file for file in found}
            except InputError as error:  # the reason for each of its files
                self._known[source] = error
        known = self._known[source]
        if isinstance(known, InputError):
            raise known
        file = known.get(name)
        if file is None:
            raise InputError(f"{name}: is no longer there")
        if file.stamp() != self._stamps.get(name):
            raise InputError(f"{name}: has changed since the run")
        return replace(file, intact_only=self._parameters["on_error"] == "skip")


class Review:
    """Dropped documents of a finished run to look at: its duplicates.parquet, its report, and texts from INPUT.

    `missing` has the reason for a missing text, by file.
    """

    def __init__(self, duplicates: File, report: Mapping[str, Any]) -> None:
        self._duplicates, self._originals = duplicates, Originals(report)
        self._columns, self.missing = Columns(text=report["parameters"]["text_column"]), dict[str, str]()
        with reading(duplicates):
            self._evidence = Evidence(duplicates, self._originals.named)

    def select_rows(self, *, cluster: int | None, name: str | None, near_threshold: bool) -> Numbers:
        """The places of the rows of a cluster or of an id; `near_threshold`: of all rows, the least similar first.

        Without a choice, a few rows from the least similar to the most. ParameterError if there is no such row.
        """
        with reading(self._duplicates):
            if cluster is None and name is None and not near_threshold:
                return example_rows(self._evidence.read_rows)
            similarity, clusters = self._evidence.column("similarity"), self._evidence.column("cluster")
            named = None if name is None else self._evidence.rows_of_id(name)
        found = np.arange(len(similarity)) if named is None else named
        if name is not None and not len(found):
            raise ParameterError(f"id is {name!r}; give the id of a dropped document, or of its kept duplicate")
        if cluster is not None:
            found = found[clusters[found] == cluster]
            if not len(found):
                raise ParameterError(f"cluster is {cluster}, and it has no dropped documents; give another number")
        return found[np.argsort(similarity[found], kind="stable")] if near_threshold else found

    def pairs(self, places: Numbers) -> list[Mapping[str, Any]]:
        """These rows in the form of the report's examples; a text that cannot be read again is empty."""
        with reading(self._duplicates):
            rows = self._evidence.rows(places.tolist())
        found: dict[FileRow, str] = {}
        for number, here in groupby(sorted(self._evidence.file_rows(rows)), lambda place: place[0]):
            try:
                texts = read_texts([self._originals.find(number)], self._columns, {(0, row) for _, row in here})
            except GpulshError as error:
                self.missing[self._originals.named[number].name] = error.message
            else:
                found |= {(number, row): text for (_, row), text in texts.items()}
        return [self._evidence.pair(row, found) for row in rows]


def value_shares(report: Mapping[str, Any], lists: Sequence[File], rejected: File | None, column: str) -> pa.Table:
    """A pyarrow.Table: `value` string, `documents` and `dropped` int64; values of most documents first.

    `lists` have the dropped documents. A value that is not a text is given as JSON; null is for documents without a
    value. Protected documents do not count. Raises InputError if a file has no such column or has changed since the
    run, or if there are only JSON lines and none has the field. Raises ParameterError if there are more than 2^20
    values.
    """
    originals, parameters = Originals(report), report["parameters"]
    dropped = []
    for listed in lists:
        with reading(listed):
            dropped.append(Evidence(listed, originals.named).rows_by_file())
    bad, names = rejected_rows(rejected), string_array([file.name for file in originals.named]).to_pylist()
    columns = Columns(parameters["text_column"], more={column: "--by"})
    counts: dict[str | None, Numbers] = {}
    only_json_lines = True  # their readers do not refuse a missing field
    for number in originals.unprotected:
        file = originals.find(number)
        only_json_lines &= isinstance(format_of(file), JsonLines)
        # Of each row, whether it is a document, and whether it was dropped.
        what = np.zeros((report["files"][number]["rows"], 2), np.bool_)
        what[:, 0] = True
        for rows_of in dropped:
            what[rows_of[number], 1] = True
        for rows in bad[names[number]]:
            what[rows, 0] = False
        with reading(file):
            for value, found in _value_counts(file, columns, what):
                counts[value] = counts.get(value, 0) + found
        if len(counts) > MAX_VALUES:
            raise ParameterError(
                f"column {column!r} has more than {MAX_VALUES:,} values; name a column with fewer, such as a language"
            )
    if only_json_lines and counts.keys() == {None}:
        raise InputError(f"column {column!r}: no document has a value; name another field")
    ranked = sorted(counts.items(), key=lambda item: (-item[1][0], item[0] is not None, item[0]))
    both = np.array([found for _, found in ranked], np.int64).reshape(-1, 2)
    values = pa.array([value for value, _ in ranked], pa.string())
    return pa.table({"value": values, "documents": both[:, 0], "dropped": both[:, 1]})


def shares_to_json(column: str, table: pa.Table) -> Mapping[str, Any]:
    """The shares in a report: the first values, and the sums of all others."""
    rest = table.slice(LISTED_VALUES)
    more = {"values": len(rest), **{name: sum(rest[name].to_pylist()) for name in ("documents", "dropped")}}
    return {"column": column, "values": table.slice(0, LISTED_VALUES).to_pylist(), "more": more}


def rejected_rows(file: File | None) -> dict[str, list[slice]]:
    """The rows of bad records, by the name of their file."""
    found: dict[str, list[slice]] = defaultdict(list)
    if file is not None:
        with reading(file), file.open() as source:
            for name, row, rows in zip(*pq.read_table(source, columns=["file", "row", "rows"]), strict=True):
                found[name.as_py()].append(slice(row.as_py(), row.as_py() + rows.as_py()))
    return found


def _value_counts(file: File, columns: Columns, what: NDArray[np.bool_]) -> Iterator[tuple[str | None, Numbers]]:
    """Values of a file with the numbers of their documents and dropped ones, int64 [2]; values may repeat."""
    kind, (column,) = format_of(file), columns.more
    kind.check(file, columns)
    parts = kind.parts(file, columns)
    ends = [(0, len(what))] if parts is None else [(part.start, part.start + part.rows) for part in parts]
    for start, stop in ends:
        rows = start + np.flatnonzero(what[start:stop, 0])
        values = kind.values(file, column, rows)
        try:
            coded = values if pa.types.is_dictionary(values.type) else plain_values(values).dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise InputError(
                f"{file.name}: column {column!r} is {values.type}; name a column of texts, numbers or dates"
            ) from None
        none, null = len(coded.dictionary), null_mask(coded.indices)
        codes = number_values(coded.indices).astype(np.int64)  # a type of 8 bits may have no room for `none`
        if null is not None:
            codes[null] = none
        documents, dropped = (np.bincount(some, minlength=none + 1) for some in (codes, codes[what[rows, 1]]))
        for value, *found in zip([*value_strings(coded.dictionary).to_pylist(), None], documents, dropped, strict=True):
            if found[0]:
                yield value, np.array(found, np.int64)
