"""Sums up duplicates.parquet: similarities, clusters, dropped rows by file, and some pairs with texts.

Everything is taken from the written evidence, so whoever ran the work, the summary is the same.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, Values
from gpulsh.facts import Facts
from gpulsh.io.arrow.buffers import null_mask, numbers, strings
from gpulsh.io.arrow.ids import python_value
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.report.excerpts import AtHand, Place, at_once, beside, read_texts
from gpulsh.report.picture import BINS
from gpulsh.report.sampled import members, sampled

SIZES = (1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 1025, 16385)  # least dropped documents of each class of clusters
EXAMPLES = 6
AGAIN_BYTES = 1 << 28  # of files that are read again for texts which are not at hand, beside those of the examples
LISTED = 1000  # pairs of INPUTs
UNKNOWN = -1  # number of a file that an earlier run read


def summarise(
    duplicates: Path, files: Sequence[File], columns: Columns, threshold: float, at_hand: AtHand | None = None
) -> Facts:
    """The summary as JSON values, with texts that are `at_hand`, and others that are read from `files`.

    A text stays empty where the files that it takes to read it are too large, unless it is of an example.

    It takes 12 bytes of memory a dropped document, and some times as many while clusters are counted and chosen.

    `dropped` and `rejected` have a count a file; `dropped_for` lists how many documents of an INPUT were dropped for
    those of another, the most first, and how many `more` there are: None are earlier runs; `similarity` is as
    `by_similarity` has it; `clusters` counts dropped documents only, since what is kept stands in no evidence, and has
    a `sample` of them, each `picked` as some of the largest, at random, or for a document next to the threshold.
    """
    evidence = Evidence(_local(duplicates), files)
    similarity = evidence.column("similarity", np.float32)
    cluster = evidence.column("cluster", np.int64)
    labels, sizes = np.unique(cluster, return_counts=True)
    classes = np.bincount(np.searchsorted(SIZES, sizes, side="right") - 1, minlength=len(SIZES))
    picked = sampled(similarity, cluster, labels, sizes, threshold)
    chosen = [spread(similarity, cluster), *(members(similarity, cluster, label, threshold) for label in picked)]
    rows = evidence.rows(np.concatenate(chosen).tolist())
    pairs, *shown = (
        rows[end - len(part) : end] for end, part in zip(np.cumsum([*map(len, chosen)]), chosen, strict=True)
    )
    texts = at_once(evidence.places(rows), at_hand)
    missing = [sorted(evidence.places(some) - texts.keys()) for some in (pairs, *shown)]
    texts |= read_texts(files, columns, {*missing[0], *_affordable(files, itertools.chain(*missing[1:]))})
    return {
        "dropped": evidence.by_file(),
        "dropped_for": evidence.by_input(),
        "rejected": evidence.rejected(duplicates.with_name("rejected.parquet")),
        "similarity": by_similarity(similarity),
        "clusters": {
            "count": len(labels),
            "sizes": [
                {"least": least, "count": int(count)} for least, count in zip(SIZES, classes, strict=True) if count
            ],
            "sample": [
                {
                    "cluster": label,
                    "dropped": int(sizes[np.searchsorted(labels, label)]),
                    "picked": kinds,
                    "pairs": [evidence.pair(row, texts) for row in some],
                }
                for (label, kinds), some in zip(picked.items(), shown, strict=True)
            ],
        },
        "examples": [evidence.pair(row, texts) for row in pairs],
    }


def _affordable(files: Sequence[File], places: Iterable[Place]) -> Iterator[Place]:
    """Those of `places` whose files have AGAIN_BYTES together at most, the first ones first."""
    left, opened = AGAIN_BYTES, dict[int, bool]()
    for number, row in places:
        if number not in opened:
            size = files[number].size()
            opened[number] = size is not None and size <= left
            left -= size if size is not None and opened[number] else 0
        if opened[number]:
            yield number, row


def by_similarity(similarity: NDArray[np.floating]) -> Facts:
    """How many are how similar: `below_one` has a count a hundredth, by its lower edge; NaN is `unmeasured`.

    >>> by_similarity(np.array([0.8, 0.809, 0.5, 1, np.nan]))
    {'below_one': {'0.50': 1, '0.80': 2}, 'one': 1, 'unmeasured': 1}
    """
    measured = np.isfinite(similarity)
    # A bin holds its lower edge, which in float32 may lie a little below it.
    bins = np.minimum((similarity[measured].astype(np.float64) * BINS + 1e-4).astype(np.int64), BINS)
    counts = np.bincount(bins, minlength=BINS + 1)
    return {
        "below_one": {f"{at / BINS:.2f}": int(counts[at]) for at in np.flatnonzero(counts[:BINS]).tolist()},
        "one": int(counts[BINS]),
        "unmeasured": int((~measured).sum()),
    }


def _told(row: Facts, prefix: str) -> Facts:
    found = {name: row[prefix + name] for name in ("file", "row", "id")}
    if found["id"] is None:
        del found["id"]
    elif not isinstance(found["id"], (int, str)):
        found["id"] = str(found["id"])
    return found


def spread(similarity: NDArray[np.float32], cluster: Numbers) -> Numbers:
    """A few dropped documents, each of another cluster, from the least similar to the most; exact ones come last."""
    near = np.flatnonzero(similarity < 1)
    if not len(near):
        near = np.arange(len(similarity))
    near = near[np.unique(cluster[near], return_index=True)[1]]
    near = near[np.argsort(similarity[near], kind="stable")]
    return near[np.unique(np.linspace(0, len(near) - 1, min(EXAMPLES, len(near))).round().astype(np.int64))]


@dataclass
class Evidence:
    """The rows of duplicates.parquet, a row group at a time."""

    duplicates: File
    files: Sequence[File]

    def __post_init__(self) -> None:
        self._source = _opened(self.duplicates)
        self._names = strings([file.name for file in self.files]).to_pylist()
        self._numbers = {name: at for at, name in enumerate(self._names)}

    def column(self, name: str, dtype: type[np.generic]) -> Values:
        """All values of a number column."""
        found = np.zeros(self._source.metadata.num_rows, dtype)
        at = 0
        for table in self._groups(name):
            for chunk in table.column(name).chunks:
                found[at : at + len(chunk)] = numbers(chunk)
                at += len(chunk)
        return found

    def pair(self, row: Facts, texts: Mapping[Place, str]) -> Facts:
        """A dropped document beside the one it is dropped for, with the parts of their texts that differ."""
        found = [texts.get(self.place(row, prefix), "") for prefix in ("", "duplicate_of_")]
        return {
            "cluster": row["cluster"],
            "similarity": round(row["similarity"], 6) if np.isfinite(row["similarity"]) else None,
            "dropped": _told(row, ""),
            "kept": _told(row, "duplicate_of_"),
            "texts": beside(*found),
        }

    def named(self, name: str) -> Numbers:
        """The places of rows whose dropped document, or the one it is dropped for, has an id that reads so."""
        found, start = [np.empty(0, np.int64)], 0
        for table in self._groups("id", "duplicate_of_id"):
            told = ([None if id is None else str(id) for id in column.to_pylist()] for column in table.columns)
            found.append(start + np.flatnonzero([name in pair for pair in zip(*told, strict=True)]))
            start += table.num_rows
        return np.concatenate(found)

    def _groups(self, *columns: str) -> Iterator[pa.Table]:
        """Some columns, a row group at a time."""
        for group in range(self._source.num_row_groups):
            yield self._source.read_row_group(group, columns=list(columns), use_threads=False)

    def by_file(self) -> list[int]:
        """Dropped rows of each file, in the files' order."""
        counts = dict.fromkeys(self._names, 0)
        for table in self._groups("file"):
            for entry in table.column("file").value_counts().to_pylist():
                counts[entry["values"]] += entry["counts"]
        return self._in_order(counts)

    def rows_by_file(self) -> list[Numbers]:
        """Of each file its dropped rows, ascending, int64."""
        names, found = strings(self._names), [[np.empty(0, np.int64)] for _ in self._names]
        for table in self._groups("file", "row"):
            files, rows = _numbered(table.column("file"), names), numbers(table.column("row").combine_chunks())
            starts = np.flatnonzero(np.diff(files, prepend=UNKNOWN)).tolist()  # those of a file are one run
            for start, stop in pairwise([*starts, len(files)]):
                found[files[start]].append(rows[start:stop])
        return [np.concatenate(runs) for runs in found]

    def by_input(self) -> Facts:
        """Dropped rows by their INPUT and that of the documents they are dropped for, the most first."""
        inputs = list(dict.fromkeys(file.source for file in self.files))
        places = {name: place for place, name in enumerate(inputs)}
        # UNKNOWN, the file of an earlier run, is the last place.
        of_file = np.array([*(places[file.source] for file in self.files), len(inputs)], np.int64)
        names, counts = strings(self._names), Counter[int]()
        for table in self._groups("file", "duplicate_of_file"):
            own, other = (of_file[_numbered(table.column(name), names)] for name in ("file", "duplicate_of_file"))
            for pair, count in zip(*np.unique(own * len(of_file) + other, return_counts=True), strict=True):
                counts[int(pair)] += int(count)
        others = [*inputs, None]
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        listed = [
            {"input": inputs[pair // len(of_file)], "of": others[pair % len(of_file)], "count": count}
            for pair, count in ranked[:LISTED]
        ]
        return {"listed": listed, "more": sum(count for _, count in ranked[LISTED:])}

    def rejected(self, path: Path) -> list[int]:
        """Rows of each file that were passed over as bad, in the files' order, as the list of them says, if any."""
        counts = dict.fromkeys(self._names, 0)
        if path.exists():
            for batch in _opened(_local(path)).iter_batches(columns=["file", "rows"]):
                sums = pa.table(batch).group_by("file").aggregate([("rows", "sum")]).to_pydict()
                for name, rows in zip(sums["file"], sums["rows_sum"], strict=True):
                    counts[name] += rows
        return self._in_order(counts)

    def _in_order(self, counts: dict[str, int]) -> list[int]:
        return [counts[name] for name in self._names]

    def rows(self, chosen: Sequence[int]) -> list[Facts]:
        """The rows at the places `chosen`, in that order."""
        found: dict[int, Facts] = {}
        start = 0
        for group in range(self._source.num_row_groups):
            count = self._source.metadata.row_group(group).num_rows
            here = sorted({place for place in chosen if start <= place < start + count})
            if here:
                table = self._source.read_row_group(group, use_threads=False)
                for place in here:
                    row = place - start
                    chunks = zip(table.column_names, table.slice(row, 1).combine_chunks().columns, strict=True)
                    found[place] = {name: python_value(column.chunk(0), 0) for name, column in chunks}
            start += count
        return [found[place] for place in chosen]

    def place(self, row: Facts, prefix: str) -> Place:
        """The number of the file and the row in it."""
        return self._numbers.get(row[f"{prefix}file"], UNKNOWN), int(row[f"{prefix}row"] or 0)

    def places(self, rows: Iterable[Facts], sides: Sequence[str] = ("", "duplicate_of_")) -> set[Place]:
        """Both documents of each row, or that of one of the `sides`."""
        found = {self.place(row, prefix) for row in rows for prefix in sides}
        return {place for place in found if place[0] != UNKNOWN}


def _numbered(column: pa.Array | pa.ChunkedArray, names: pa.Array) -> Numbers:
    """int64 [n]: the place of each name in `names`, UNKNOWN where it is not there."""
    places = pc.index_in(column.combine_chunks(), value_set=names)
    found = numbers(places).astype(np.int64)
    if (missing := null_mask(places)) is not None:
        found[missing] = UNKNOWN
    return found


def _local(path: Path) -> File:
    return File(str(path), path.name, str(path))


def _opened(file: File) -> pq.ParquetFile:
    """A Parquet file: of a path as a str Arrow takes what is UTF-8."""
    local = file.filesystem is None
    # Of a local file pieces read ahead gain nothing, and would be read by threads, which may not be had.
    return pq.ParquetFile(pa.OSFile(os.fsencode(file.path), "rb") if local else file.open(), pre_buffer=not local)
