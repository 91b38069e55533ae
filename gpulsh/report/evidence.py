"""Sums up duplicates.parquet: similarities, clusters, dropped rows by file, and some pairs with their texts.

The summary depends on the written evidence alone, so every engine gives the same.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, Values
from gpulsh.io.arrow.buffers import null_mask, number_values, string_array
from gpulsh.io.arrow.ids import json_text, python_value, python_values
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.ragged import run_bounds
from gpulsh.report.drawn_rows import SIZES, DroppedRows, draw_clusters, example_rows, member_rows, size_counts
from gpulsh.report.excerpts import Beginnings, FileRow, excerpts, read_texts, texts_in_memory
from gpulsh.report.wording import shorten

BINS = 100  # of similarity, from 0 to 1
REREAD_BYTES = 1 << 28  # of files that are read again for the texts of the sample of clusters
MAX_LISTED = 1000  # pairs of INPUTs
MAX_ID = 1000  # characters of an id in an example
UNKNOWN_FILE = -1  # number of a file of an earlier run
ROW_BYTES = 128  # of memory for each row of a part, with the arrays that sort it


def summarise(
    duplicates: Path,
    files: Sequence[File],
    columns: Columns,
    threshold: float,
    known: Iterable[Beginnings],
    threads: int,
    memory: int,
) -> Mapping[str, Any]:
    """The summary as JSON values. Texts that are not `known` are read from `files`, by so many `threads` at most.

    A text is empty if the files to read for it are too large, except in `examples`. The rows are read again for each
    part of the clusters, so that a part takes a quarter of `memory`.

    `dropped`, `rejected` and, with --passages, `contaminated` have a count for each file. `dropped_for` lists how many
    documents of an INPUT were dropped for documents of another, largest first; the INPUT None is earlier runs, and
    `more` counts the rest. `similarity` is as in `similarity_counts`. `clusters` counts dropped documents only, because
    the evidence has no kept ones. Its `sample` has some clusters, each `picked` as one of the largest, at random, or
    for a document next to the threshold.
    """
    evidence = Evidence(_local_file(duplicates), files)
    bits = (evidence.count * ROW_BYTES // (memory // 4)).bit_length()
    drawn = draw_clusters(evidence.read_rows, threshold, bits)
    members = member_rows(evidence.read_rows, drawn.kinds, threshold)
    chosen = [example_rows(evidence.read_rows), *(members[label] for label in drawn.kinds)]
    rows = evidence.rows(np.concatenate(chosen).tolist())
    pairs, *shown = (
        rows[end - len(part) : end] for end, part in zip(np.cumsum([*map(len, chosen)]), chosen, strict=True)
    )
    found = texts_in_memory(evidence.file_rows(rows), known)
    missing = [sorted(evidence.file_rows(some) - found.keys()) for some in (pairs, *shown)]
    found |= read_texts(files, columns, {*missing[0], *_affordable(files, itertools.chain(*missing[1:]))}, threads)
    dropped, dropped_for = evidence.dropped_counts()
    contamination = duplicates.with_name("contamination.parquet")
    return {
        "dropped": dropped,
        "dropped_for": dropped_for,
        "rejected": evidence.rejected_counts(duplicates.with_name("rejected.parquet")),
        **({"contaminated": evidence.contaminated_counts(contamination)} if contamination.exists() else {}),
        "similarity": similarity_counts(rows.similarity for rows in evidence.read_rows()),
        "clusters": {
            "count": int(drawn.size_counts.sum()),
            "sizes": _size_classes(drawn.size_counts),
            "sample": [
                {
                    "cluster": label,
                    "dropped": drawn.sizes[label],
                    "picked": kinds,
                    "pairs": [evidence.pair(row, found) for row in some],
                }
                for (label, kinds), some in zip(drawn.kinds.items(), shown, strict=True)
            ],
        },
        "examples": [evidence.pair(row, found) for row in pairs],
    }


def cluster_counts(clusters: Path) -> Mapping[str, Any] | None:
    """The number of rows of clusters.parquet, the largest size, and rows by size; None without it.

    A size is `verified`, 1 + copies + near, or the `component`; each class of `sizes` begins with its `least`.
    """
    if not clusters.exists():
        return None
    file = _open_parquet(_local_file(clusters))
    found: dict[str, Any] = {"documents": file.metadata.num_rows}
    most, counts = np.zeros(2, np.int64), np.zeros((2, len(SIZES)), np.int64)
    for batch in file.iter_batches(columns=["copies", "near", "component"], use_threads=False):
        copies, near, component = map(number_values, batch.columns)
        for at, sizes in enumerate((1 + copies + near, component)):
            most[at] = max(most[at], sizes.max(initial=0))
            counts[at] += size_counts(sizes)
    for at, name in enumerate(("verified", "component")):
        found[name] = {"most": int(most[at]), "sizes": _size_classes(counts[at])}
    return found


def _size_classes(counts: Numbers) -> list[dict[str, int]]:
    """The classes of SIZES that are not empty, each with its least size."""
    return [{"least": least, "count": count} for least, count in zip(SIZES, counts.tolist(), strict=True) if count]


def _affordable(files: Sequence[File], places: Iterable[FileRow]) -> Iterator[FileRow]:
    """The first of the `places` whose files have REREAD_BYTES together at most."""
    left, opened = REREAD_BYTES, dict[int, bool]()
    for number, row in places:
        if number not in opened:
            size = files[number].size()
            opened[number] = size is not None and size <= left
            left -= size if size is not None and opened[number] else 0
        if opened[number]:
            yield number, row


def similarity_counts(parts: Iterable[NDArray[np.floating]]) -> Mapping[str, Any]:
    """Counts by similarity: `below_one` has a count for each hundredth, by its lower edge; NaN is `unmeasured`.

    >>> similarity_counts([np.array([0.8, 0.809, 0.5]), np.array([1, np.nan])])
    {'below_one': {'0.50': 1, '0.80': 2}, 'one': 1, 'unmeasured': 1}
    """
    counts, unmeasured = np.zeros(BINS + 1, np.int64), 0
    for similarity in parts:
        measured = np.isfinite(similarity)
        # A bin includes its lower edge. In float32 the edge may be slightly lower.
        bins = np.minimum((similarity[measured].astype(np.float64) * BINS + 1e-4).astype(np.int64), BINS)
        counts += np.bincount(bins, minlength=BINS + 1)
        unmeasured += int((~measured).sum())
    return {
        "below_one": {f"{at / BINS:.2f}": int(counts[at]) for at in np.flatnonzero(counts[:BINS]).tolist()},
        "one": int(counts[BINS]),
        "unmeasured": unmeasured,
    }


class Evidence:
    """The rows of duplicates.parquet, read one row group at a time."""

    def __init__(self, duplicates: File, files: Sequence[File]) -> None:
        self.files, self._source = files, _open_parquet(duplicates)
        self._names = string_array([file.name for file in files])
        self._numbers = {name: at for at, name in enumerate(self._names.to_pylist())}

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self._source.metadata.num_rows)

    def read_rows(self) -> Iterator[DroppedRows]:
        """All rows in order, a row group at a time."""
        start = 0
        for table in self._groups("similarity", "cluster"):
            numbers = np.arange(start, start + len(table))
            yield DroppedRows(numbers, *(number_values(column.combine_chunks()) for column in table.columns))
            start += len(table)

    def column(self, name: str) -> Values:
        """All values of a number column."""
        return number_values(self._source.read([name], use_threads=False).column(name).combine_chunks())

    def pair(self, row: Mapping[str, Any], texts: Mapping[FileRow, str]) -> Mapping[str, Any]:
        """A dropped document and its kept duplicate, with the parts of their texts that differ."""
        found = [texts.get(self.file_row(row, prefix), "") for prefix in ("", "duplicate_of_")]
        return {
            "cluster": row["cluster"],
            "similarity": round(row["similarity"], 6) if np.isfinite(row["similarity"]) else None,
            "dropped": _document(row, ""),
            "kept": _document(row, "duplicate_of_"),
            "texts": excerpts(*found),
        }

    def rows_of_id(self, name: str) -> Numbers:
        """The places of the rows whose dropped or kept document has this id, compared as text."""
        found, start = [np.empty(0, np.int64)], 0
        for table in self._groups("id", "duplicate_of_id"):
            ids = ([None if id is None else _id_text(id) for id in python_values(column)] for column in table.columns)
            found.append(start + np.flatnonzero([name in pair for pair in zip(*ids, strict=True)]))
            start += table.num_rows
        return np.concatenate(found)

    def _groups(self, *columns: str) -> Iterator[pa.Table]:
        """Some columns, a row group at a time."""
        for group in range(self._source.num_row_groups):
            yield self._source.read_row_group(group, columns=list(columns), use_threads=False)

    def rows_by_file(self) -> list[Numbers]:
        """The dropped rows of each file, ascending, int64."""
        found = [[np.empty(0, np.int64)] for _ in self.files]
        for table in self._groups("file", "row"):
            files, rows = self._file_numbers(table.column("file")), number_values(table.column("row").combine_chunks())
            for start, stop in run_bounds(files):  # the rows of a file are one run
                found[files[start]].append(rows[start:stop])
        return [np.concatenate(runs) for runs in found]

    def dropped_counts(self) -> tuple[list[int], Mapping[str, Any]]:
        """The number of dropped rows of each file, in the files' order.

        Then of each INPUT, by the INPUT of the document that they are dropped for, largest count first.
        """
        inputs = list(dict.fromkeys(file.source for file in self.files))
        places = {name: place for place, name in enumerate(inputs)}
        # UNKNOWN_FILE, the file of an earlier run, is the last place.
        of_file = np.array([*(places[file.source] for file in self.files), len(inputs)], np.int64)
        of_files, of_pairs = np.zeros(len(self.files), np.int64), Counter[int]()
        for table in self._groups("file", "duplicate_of_file"):
            own, other = map(self._file_numbers, table.columns)
            of_files += np.bincount(own, minlength=len(of_files))
            pairs = of_file[own] * len(of_file) + of_file[other]
            for pair, count in zip(*np.unique(pairs, return_counts=True), strict=True):
                of_pairs[int(pair)] += int(count)
        others = [*inputs, None]
        ranked = sorted(of_pairs.items(), key=lambda item: (-item[1], item[0]))
        listed = [
            {"input": inputs[pair // len(of_file)], "of": others[pair % len(of_file)], "count": count}
            for pair, count in ranked[:MAX_LISTED]
        ]
        return of_files.tolist(), {"listed": listed, "more": sum(count for _, count in ranked[MAX_LISTED:])}

    def rejected_counts(self, path: Path) -> list[int]:
        """The number of rejected rows of each file, in the files' order, by the list of them; zeros without a list."""
        counts = Counter[str]()
        if path.exists():
            for batch in _open_parquet(_local_file(path)).iter_batches(columns=["file", "rows"]):
                sums = pa.table(batch).group_by("file").aggregate([("rows", "sum")]).to_pydict()
                counts.update(dict(zip(sums["file"], sums["rows_sum"], strict=True)))
        return [counts[name] for name in self._numbers]

    def contaminated_counts(self, path: Path) -> list[int]:
        """The number of documents of each file in contamination.parquet."""
        batches = _open_parquet(_local_file(path)).iter_batches(columns=["file", "row"])
        places = (place for batch in batches for place in zip(*map(pa.Array.to_pylist, batch.columns), strict=True))
        counts = Counter(place[0] for place, _ in itertools.groupby(places))  # rows of one document are neighbours
        return [counts[name] for name in self._numbers]

    def rows(self, chosen: Sequence[int]) -> list[Mapping[str, Any]]:
        """The rows at the places `chosen`, in that order; long ids are cut."""
        found: dict[int, Mapping[str, Any]] = {}
        start = 0
        for group in range(self._source.num_row_groups):
            count = self._source.metadata.row_group(group).num_rows
            here = sorted({place for place in chosen if start <= place < start + count})
            if here:
                table = self._source.read_row_group(group, use_threads=False)
                for place in here:
                    columns = table.slice(place - start, 1).combine_chunks().columns
                    values = (python_value(column.chunk(0), 0) for column in columns)
                    row = dict(zip(table.column_names, values, strict=True))
                    found[place] = row | {name: _short_id(row[name]) for name in ("id", "duplicate_of_id")}
            start += count
        return [found[place] for place in chosen]

    def file_row(self, row: Mapping[str, Any], prefix: str) -> FileRow:
        """The number of the file and the row in it; `prefix` is "" or "duplicate_of_"."""
        return self._numbers.get(row[f"{prefix}file"], UNKNOWN_FILE), int(row[f"{prefix}row"] or 0)

    def file_rows(self, rows: Iterable[Mapping[str, Any]]) -> set[FileRow]:
        """Both documents of each row, as far as they are in `files`."""
        found = {self.file_row(row, prefix) for row in rows for prefix in ("", "duplicate_of_")}
        return {place for place in found if place[0] != UNKNOWN_FILE}

    def _file_numbers(self, column: pa.ChunkedArray) -> Numbers:
        """int64 [n]: the number of each named file, UNKNOWN_FILE for other names."""
        places = pc.index_in(column.combine_chunks(), value_set=self._names)
        found = number_values(places).astype(np.int64)
        if (missing := null_mask(places)) is not None:
            found[missing] = UNKNOWN_FILE
        return found


def _document(row: Mapping[str, Any], prefix: str) -> Mapping[str, Any]:
    found = {name: row[prefix + name] for name in ("file", "row", "id")}
    if found["id"] is None:
        del found["id"]
    return found


def _short_id(value: object) -> int | str | None:
    """An id as JSON has it, without its middle if it is long."""
    return value if value is None or isinstance(value, int) else shorten(_id_text(value), MAX_ID)


def _id_text(value: object) -> str:
    return json_text(value) if isinstance(value, bytes) else str(value)


def _local_file(path: Path) -> File:
    return File(str(path), path.name, str(path))


def _open_parquet(file: File) -> pq.ParquetFile:
    # Reading ahead gains nothing on a local file, and needs threads, which may not be available.
    return pq.ParquetFile(file.open_arrow(), pre_buffer=file.filesystem is not None)
