"""A decision as tables: dropped documents beside those they are dropped for, and clusters."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers, Rows
from gpulsh.errors import ParameterError
from gpulsh.io.memory.texts import MemoryTexts, open_texts
from gpulsh.ragged import chosen_rows, offsets

if TYPE_CHECKING:
    from gpulsh.decide.decision import Decision

# Of the columns of `duplicates.parquet` those that are known here, and the texts.
NAMES = (
    *("row", "id", "text", "duplicate_of_row", "duplicate_of_id", "duplicate_of_text"),
    *("similarity", "cluster"),
)


def duplicates(decision: Decision, ids: object, texts: object) -> pa.Table:
    """What `Decision.duplicates` says."""
    here = decision.to_numpy()
    row = np.flatnonzero(~here.keep)
    other = here.duplicate_of[row]
    told = {"row": row, "duplicate_of_row": other, "similarity": here.similarity[row], "cluster": here.cluster[row]}
    if ids is not None:
        column = _column(ids)
        _check_rows("ids", len(column), len(here))
        told |= {"id": column.take(row), "duplicate_of_id": column.take(other)}
    if texts is not None:
        source = open_texts(texts)
        _check_rows("texts", len(source), len(here))
        told |= {"text": _texts(source, row), "duplicate_of_text": _texts(source, other)}
    return pa.table({name: told[name] for name in NAMES if name in told})


def clusters(decision: Decision) -> pa.Table:
    """What `Decision.clusters` says."""
    here = decision.to_numpy()
    order = np.argsort(here.cluster, kind="stable")
    labels, sizes = np.unique(here.cluster, return_counts=True)
    ranked = np.argsort(-sizes, kind="stable")
    ranked = ranked[sizes[ranked] > 1]
    kept = np.bincount(here.cluster[here.keep], minlength=len(here))
    rows = chosen_rows(Rows(order, offsets(sizes)), ranked)
    return pa.table(
        {
            "cluster": labels[ranked],
            "size": sizes[ranked],
            "kept": kept[labels[ranked]],
            "rows": pa.LargeListArray.from_arrays(rows.offset, rows.values),
        }
    )


def _column(values: object) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    try:
        # Of polars and cuDF, whose columns know their types better than what their values tell.
        return values.to_arrow() if hasattr(values, "to_arrow") else pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ParameterError(f"ids is of type {type(values).__name__}, no column: {error}") from error


def _check_rows(name: str, given: int, count: int) -> None:
    if given != count:
        raise ParameterError(f"{name} has {given} rows and the decision {count}; give one for each document")


def _texts(source: MemoryTexts, rows: Numbers) -> pa.Array:
    batch = source.choose(rows).take(np.arange(len(rows)))
    text, ends = batch.values.tobytes(), pairwise(batch.offset.tolist())
    pieces = (text[start:stop].decode("utf-8", "replace") for start, stop in ends)
    return pa.array(pieces, pa.large_string())
