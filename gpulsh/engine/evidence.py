"""`duplicates.parquet`: of each dropped document, where it stands, what it duplicates and how similar the two are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.dedup.decision import Decision
from gpulsh.io.buffers import strings, to_arrow
from gpulsh.io.file_texts import FileTexts
from gpulsh.io.selection import chosen

GROUP_ROWS = 1 << 20


def write_evidence(path: Path, texts: FileTexts, decision: Decision) -> None:
    """A row a dropped document, in input order; ids are read again from the files."""
    dropped = np.flatnonzero(~decision.keep)
    named = np.unique(np.concatenate([dropped, decision.duplicate_of[dropped]]))
    ids = _ids(texts, named)
    names = strings([file.name for file in texts.files])
    schema = pa.schema(
        [
            ("file", pa.string()),
            ("row", pa.int64()),
            ("id", ids.type),
            ("duplicate_of_file", pa.string()),
            ("duplicate_of_row", pa.int64()),
            ("duplicate_of_id", ids.type),
            ("similarity", pa.float32()),
            ("cluster", pa.int64()),
        ]
    )

    def place(positions: NDArray[np.int64]) -> list[Any]:
        numbers, rows = texts.locate(positions)
        return [names.take(to_arrow(numbers)), to_arrow(rows), chosen(ids, np.searchsorted(named, positions))]

    with open(path, "wb") as sink, pq.ParquetWriter(sink, schema, compression="zstd", version="2.6") as out:
        for start in range(0, len(dropped), GROUP_ROWS):
            part = dropped[start : start + GROUP_ROWS]
            evidence = [to_arrow(decision.similarity[part]), to_arrow(decision.cluster[part])]
            columns = [*place(part), *place(decision.duplicate_of[part]), *evidence]
            out.write_table(pa.table(columns, schema), row_group_size=GROUP_ROWS)


def _ids(texts: FileTexts, positions: NDArray[np.int64]) -> Any:
    if texts.columns.id is None:
        return pa.nulls(len(positions))
    return one_type(texts.values(texts.columns.id, positions))


def one_type(parts: Sequence[Any]) -> Any:
    """The arrays end to end: in their common type where they have one, otherwise each value as JSON text."""
    parts = [part.dictionary_decode() if pa.types.is_dictionary(part.type) else part for part in parts]
    kinds = {part.type for part in parts if not pa.types.is_null(part.type)}
    if not kinds:
        return pa.nulls(sum(map(len, parts)))
    if len(kinds) > 1 and all(map(pa.types.is_integer, kinds)):
        kinds = {pa.int64()} if all(map(pa.types.is_signed_integer, kinds)) else kinds
    if len(kinds) > 1 and all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds):
        kinds = {pa.large_string()}
    if len(kinds) == 1:
        (kind,) = kinds
        return pa.concat_arrays([part.cast(kind) for part in parts])
    values = [value for part in parts for value in part.to_pylist()]
    return pa.array([None if value is None else _as_text(value) for value in values], pa.string())


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
