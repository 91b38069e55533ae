"""`duplicates.parquet`: of each dropped document, where it stands, what it duplicates and how similar the two are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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
    return one_type(texts.values(texts.columns.id, positions), texts.kinds(texts.columns.id))


def one_type(parts: Sequence[Any], declared: Sequence[Any]) -> Any:
    """The arrays end to end: in the type common to them and to the files' schemas, otherwise each value as JSON text.

    So the type does not depend on which rows are dropped, where every file has a schema.
    """
    parts = [part.dictionary_decode() if pa.types.is_dictionary(part.type) else part for part in parts]
    kind = _common([*declared, *(part.type for part in parts)])
    if kind is not None and _in_parquet(kind):
        return pa.concat_arrays([pa.nulls(0, kind), *(part.cast(kind) for part in parts)])
    values = [value for part in parts for value in part.to_pylist()]
    return pa.array([None if value is None else _as_text(value) for value in values], pa.string())


def _common(kinds: Iterable[Any]) -> Any:
    """The type that holds every value of the types exactly; None where no one type does."""
    types = pa.types
    kinds = {kind.value_type if types.is_dictionary(kind) else kind for kind in kinds}
    kinds -= {pa.null()}
    if len(kinds) < 2:
        return kinds.pop() if kinds else pa.null()
    if all(map(types.is_unsigned_integer, kinds)):
        return max(kinds, key=lambda kind: kind.bit_width)
    if all(map(types.is_integer, kinds)) and pa.uint64() not in kinds:
        return pa.int64()
    if all(types.is_string(kind) or types.is_large_string(kind) for kind in kinds):
        return pa.large_string()
    return None


def _in_parquet(kind: Any) -> bool:
    try:
        pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([("id", kind)])).close()
    except pa.ArrowNotImplementedError:
        return False
    return True


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
