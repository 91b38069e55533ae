"""Changes in the copy of a file: more columns after its own, made for some rows at a time, and cut texts.

The members of a row's JSON object are joined by Arrow's kernels, because a Python value for each would take longer than
to read the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.io.columns import Columns
from gpulsh.io.rows import Bytes

Make = Callable[[Numbers], pa.RecordBatch]


class AddedColumns:
    """Columns for the written `rows` of a file, ascending; `make` gives the columns of some."""

    def __init__(self, schema: pa.Schema, rows: Numbers, make: Make) -> None:
        self.schema = schema
        self._rows, self._make, self._done = rows, make, 0

    def take(self, rows: int) -> pa.RecordBatch:
        """The columns of the next so many rows."""
        some = self._rows[self._done : self._done + rows]
        self._done += rows
        return self._make(some)

    def members(self, rows: int) -> list[bytes]:
        """The columns of the next so many rows, as members of JSON objects without braces."""
        batch = self.take(rows)
        parts: list[pa.Array | pa.Scalar] = []
        for place, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
            parts += [pa.scalar(f'{"," if place else ""}"{name}":'), json_texts(column)]
        joined = pc.binary_join_element_wise(*parts, "")
        return joined.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def with_added(batches: Iterator[pa.RecordBatch], added: AddedColumns | None) -> Iterator[pa.RecordBatch]:
    """The batches with the columns of `added`."""
    for batch in batches:
        if added is not None:
            more = added.take(len(batch))
            schema = pa.schema([*batch.schema, *more.schema], batch.schema.metadata)
            batch = pa.record_batch([*batch.columns, *more.columns], schema=schema)
        yield batch
        del batch  # before the next one is read


def json_texts(column: pa.Array) -> pa.StringArray:
    """Each value as JSON: as `gpulsh.io.conversion.json_lines` writes it, of the types that are added."""
    kind, types = column.type, pa.types
    if column.null_count == len(column):
        return pa.repeat("null", len(column))
    if types.is_boolean(kind):
        found = pc.if_else(column, "true", "false")
    elif types.is_integer(kind):
        found = column.cast(pa.string())
    elif types.is_floating(kind):
        values = column.cast(pa.float64())
        found = pc.if_else(pc.is_finite(values), values, None).cast(pa.string())
        is_whole = pc.invert(pc.match_substring_regex(found, "[.e]"))
        found = pc.if_else(is_whole, pc.binary_join_element_wise(found, ".0", ""), found)
    elif types.is_timestamp(kind):
        found = pc.binary_join_element_wise('"', column.cast(pa.string()), '"', "")
    elif types.is_list(kind):
        texts = pa.ListArray.from_arrays(column.offsets, json_texts(column.values))
        joined = pc.binary_join_element_wise("[", pc.binary_join(texts, ","), "]", "")
        found = pc.if_else(column.is_null(), None, joined)
    else:
        return _distinct(column)
    return found.fill_null("null")


def _distinct(column: pa.Array) -> pa.StringArray:
    """Strings and ids of any type: few of them differ, so each is written once."""
    import orjson

    known: dict[str, str] = {}
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        coded = column.dictionary_encode()
        written = [orjson.dumps(value).decode() for value in coded.dictionary.to_pylist()]
        return pa.array(written, pa.string()).take(coded.indices).fill_null("null")
    found = []
    for value in column.to_pylist():
        key = repr(value)
        if key not in known:
            known[key] = orjson.dumps(value, default=str).decode()
        found.append(known[key])
    return pa.array(found, pa.string())


@dataclass(frozen=True)
class Cuts:
    """Spans of a file: int64 [k] each, by row, then start, apart; `columns` names the text."""

    row: Numbers
    start: Numbers  # bytes of the text as UTF-8
    stop: Numbers
    columns: Columns

    def changed(self, rows: Numbers) -> NDArray[np.bool_]:
        """bool: which of `rows` lose something; the work does not depend on the other spans of the file."""
        first, last = (np.searchsorted(self.row, rows, side=side) for side in ("left", "right"))
        found: NDArray[np.bool_] = first < last
        return found

    def text(self, row: int, text: Bytes) -> bytes:
        """A row's text without its spans."""
        low, high = np.searchsorted(self.row, [row, row + 1]).tolist()
        begins = [0, *self.stop[low:high].tolist()]
        ends = [*self.start[low:high].tolist(), len(text)]
        return b"".join(bytes(text[begin:end]) for begin, end in zip(begins, ends, strict=True))
