"""Shares by a column: of each of its values how many documents INPUT has, and how many of them were dropped.

The column is read again where it lies, so that a run need not know before what will be asked of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.errors import InputError, ParameterError
from gpulsh.facts import Facts
from gpulsh.io.arrow.buffers import numbers, strings
from gpulsh.io.arrow.ids import as_texts
from gpulsh.io.columns import Columns
from gpulsh.io.file import File, reading
from gpulsh.io.format import Divisible
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.jsonl.format import JsonLines
from gpulsh.io.limits import Limit
from gpulsh.report.evidence import Evidence
from gpulsh.report.originals import Originals

MOST = 1 << 20  # values that are counted
LISTED = 200  # in a report


def shares(report: Facts, duplicates: File, rejected: File | None, column: str) -> pa.Table:
    """A pyarrow.Table: `value` string, `documents` and `dropped` int64; values of most documents first.

    Values that are no texts are told as JSON, null is that of documents without one. Protected documents do not count.
    Raises InputError where a file has no such column, or was changed since the run, or there are JSON lines alone and
    none has such a field; ParameterError where there are more than 2^20 values.
    """
    originals, parameters = Originals(report), report["parameters"]
    with reading(duplicates):
        dropped = Evidence(duplicates, originals.named).rows_by_file()
    bad, names = _rejected(rejected), strings([file.name for file in originals.named]).to_pylist()
    columns, limit = Columns(parameters["text_column"], id=column), Limit(parameters["memory"])
    counts: dict[str | None, Numbers] = {}
    without_columns = True  # JSON lines lack a field one by one, and are not refused as what lacks a column is
    for number in originals.asked():
        file = originals.find(number)
        without_columns &= isinstance(format_of(file), JsonLines)
        # Of each row, whether it is a document, and one that was dropped.
        what = np.zeros((report["files"][number]["rows"], 2), np.bool_)
        what[:, 0] = True
        what[dropped[number], 1] = True
        for rows in bad[names[number]]:
            what[rows, 0] = False
        for value, found in _counted(file, columns, what, limit):
            counts[value] = counts.get(value, 0) + found
        if len(counts) > MOST:
            raise ParameterError(f"column {column!r} has more than {MOST:,} values; name one of few, as a language")
    if without_columns and counts.keys() == {None}:
        raise InputError(f"column {column!r}: no document has a value of it; name a field that some have")
    ranked = sorted(counts.items(), key=lambda item: (-item[1][0], item[0] is not None, item[0]))
    both = np.array([found for _, found in ranked], np.int64).reshape(-1, 2)
    values = pa.array([value for value, _ in ranked], pa.string())
    return pa.table({"value": values, "documents": both[:, 0], "dropped": both[:, 1]})


def listed(column: str, table: pa.Table) -> Facts:
    """As a report tells them: the first ones, and the sums of all others."""
    rest = table.slice(LISTED)
    more = {"values": len(rest), **{name: sum(rest[name].to_pylist()) for name in ("documents", "dropped")}}
    return {"column": column, "values": table.slice(0, LISTED).to_pylist(), "more": more}


def _rejected(file: File | None) -> dict[str, list[slice]]:
    """The rows that were passed over as bad, by the name of their file."""
    found: dict[str, list[slice]] = defaultdict(list)
    if file is not None:
        with reading(file), file.open() as source:
            for name, row, rows in zip(*pq.read_table(source, columns=["file", "row", "rows"]), strict=True):
                found[name.as_py()].append(slice(row.as_py(), row.as_py() + rows.as_py()))
    return found


def _counted(
    file: File, columns: Columns, what: NDArray[np.bool_], limit: Limit
) -> Iterator[tuple[str | None, Numbers]]:
    """Values of a file, each with its documents and its dropped ones, int64 [2]; a value may come several times."""
    kind, column = format_of(file), columns.id
    assert column is not None
    kind.check(file, columns)
    parts = kind.parts(file, columns) if isinstance(kind, Divisible) else None
    ends = [(0, len(what))] if parts is None else [(part.start, part.start + part.rows) for part in parts]
    for start, stop in ends:
        rows = start + np.flatnonzero(what[start:stop, 0])
        values = kind.values(file, column, rows, limit)
        try:
            coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise InputError(
                f"{file.name}: column {column!r} is {values.type}; name one of texts, numbers or dates"
            ) from None
        none = len(coded.dictionary)
        codes = numbers(coded.indices.fill_null(none))
        every, gone = (np.bincount(some, minlength=none + 1) for some in (codes, codes[what[rows, 1]]))
        for value, *found in zip([*as_texts(coded.dictionary).to_pylist(), None], every, gone, strict=True):
            if found[0]:
                yield value, np.array(found, np.int64)
