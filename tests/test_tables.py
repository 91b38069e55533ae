"""Decisions beside tables and columns of every library: filtered, marked, with ids and texts, as clusters."""

import sys
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import gpulsh
from gpulsh import Decision, GpulshError
from gpulsh.decide.decision import NAMES
from gpulsh.stats.counts import DUPLICATES

WORDS = [f"w{number}" for number in range(30)]
TEXTS = [
    *(" ".join(WORDS), " ".join([*WORDS, "end"]), None, "other words \ud800 here", "OTHER words \ud800 here"),
    *(" ".join(["start", *WORDS]), "alone", "", "other words, \ud800 here"),
]
KEPT, DROPPED = [0, 2, 3, 6, 7], [1, 4, 5, 8]
IDS = [f"id{row}" for row in range(len(TEXTS))]


@pytest.fixture(scope="module")
def result() -> Decision:
    return gpulsh.deduplicate(TEXTS, backend="reference")


def test_decisions_convert_to_other_tables(result: Decision) -> None:
    wanted = result.to_arrow()
    types = {"keep": pa.bool_(), "duplicate_of": pa.int64(), "similarity": pa.float32(), "cluster": pa.int64()}
    assert wanted.schema == pa.schema(types)
    for name in types:
        np.testing.assert_array_equal(wanted[name].to_numpy(), getattr(result, name))
    pd.testing.assert_frame_equal(result.to_pandas(), wanted.to_pandas())
    assert result.to_polars().equals(pl.from_arrow(wanted))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named(library: str, result: Decision, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(gpulsh.BackendError, match=f"needs {library}: pip install {library}, or use to_arrow"):
        getattr(result, f"to_{library}")()


def test_duplicates_name_both_documents(result: Decision) -> None:
    bare = result.duplicates()
    assert bare.column_names == ["row", "duplicate_of_row", "similarity", "cluster"]
    rows = result.duplicates(ids=IDS, texts=TEXTS).to_pylist()
    assert [row["row"] for row in rows] == np.flatnonzero(~result.keep).tolist() == DROPPED
    for row in rows:
        own, other = row["row"], row["duplicate_of_row"]
        assert (row["id"], row["duplicate_of_id"]) == (IDS[own], IDS[other])
        texts = [(TEXTS[at] or "").replace("\ud800", "\ufffd") for at in (own, other)]
        assert [row["text"], row["duplicate_of_text"]] == texts
        assert (other, row["cluster"]) == (result.duplicate_of[own], result.cluster[own])
        assert row["similarity"] == result.similarity[own] >= np.float32(0.8)
    assert [row.name for row in DUPLICATES if "file" not in row.name] == [n for n in NAMES if "text" not in n]
    types = {row.name: pa.type_for_alias(row.type) for row in DUPLICATES if row.name in bare.column_names}
    assert {field.name: field.type for field in bare.schema} == types


def test_clusters_list_their_rows(result: Decision) -> None:
    clusters = [tuple(row.values()) for row in result.clusters().to_pylist()]
    assert clusters == [(0, 3, 1, [0, 1, 5]), (3, 3, 1, [3, 4, 8])]
    assert result.clusters().column_names == ["cluster", "size", "kept", "rows"]
    nothing = gpulsh.deduplicate([], backend="reference")
    assert nothing.clusters().num_rows == nothing.duplicates(ids=[], texts=[]).num_rows == 0
    assert nothing.clusters().schema == result.clusters().schema


VIEWS = pa.array(IDS).cast(pa.string_view())
COLUMNS = [
    *(IDS, tuple(IDS), np.array(IDS), pd.Series(IDS, index=list("edcbaedcb")), pl.Series(IDS), pa.array(IDS)),
    *(pa.chunked_array([ids[:2], ids[2:]]) for ids in (IDS, VIEWS)),
    *(VIEWS, VIEWS.cast(pa.binary_view())),
    pl.Series(IDS, dtype=pl.Object),  # whose Arrow array holds addresses
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: type(column).__name__)
def test_filter_and_duplicates_take_every_kind_of_column(column: Any, result: Decision) -> None:
    values = column.to_pylist() if isinstance(column, pa.Array | pa.ChunkedArray) else list(column)
    kept = result.filter(column)
    assert type(kept) is (list if isinstance(column, tuple) else type(column))
    assert (kept.to_pylist() if hasattr(kept, "to_pylist") else list(kept)) == [values[row] for row in KEPT]
    found = result.duplicates(ids=column, texts=column)
    assert found["id"].to_pylist() == [values[row] for row in DROPPED]
    assert found["text"].to_pylist() == [IDS[row] for row in DROPPED]


def test_arrays_of_several_dimensions_are_filtered_by_row(result: Decision) -> None:
    assert result.filter(np.eye(9)).shape == (5, 9)


MARKED = ["one two", "One, two!", None, "three", "one two", "three"]
TABLE = pa.table({"text": MARKED, "id": list("abcdef")})


@pytest.mark.parametrize("kind", ["table", "views", "batch", "pandas", "polars"])
def test_mark_then_filter_equals_filter(kind: str) -> None:
    table: Any = {
        "table": TABLE,
        "views": TABLE.cast(pa.schema({"text": pa.string_view(), "id": pa.string_view()})),
        "batch": TABLE.to_batches()[0],
        "pandas": TABLE.to_pandas().set_index(pd.Index([7, 7, 1, 0, 7, 2])),
        "polars": pl.from_arrow(TABLE),
    }[kind]
    result = gpulsh.deduplicate(table, text_column="text", source_column="id", backend="reference")
    marked, plain = result.mark(table, ids=table["id"]), result.filter(table)
    assert type(plain) is type(table) and list(map(str, plain["id"])) == ["a", "c", "d"]
    if kind == "pandas":
        pd.testing.assert_frame_equal(marked[marked["kept"]][["text", "id"]], plain)
        marked = pa.Table.from_pandas(marked, preserve_index=False)
    elif kind == "polars":
        assert marked.filter(pl.col("kept"))[["text", "id"]].equals(plain)
        marked = marked.to_arrow()
    else:
        bare = marked.select(["text", "id"]).cast(TABLE.schema)  # Arrow filters no views
        assert bare.filter(marked["kept"]).equals(pa.table(plain).cast(TABLE.schema))
    added = ["kept", "duplicate_of_row", "duplicate_of_id", "similarity", "cluster", *result.counts().column_names[1:]]
    assert marked.schema.names == ["text", "id", *added]
    assert marked["duplicate_of_id"].to_pylist() == [None, "a", None, None, "a", "d"]
    assert marked["duplicate_of_row"].to_pylist() == [None, 0, None, None, 0, 3]
    assert marked["similarity"].to_pylist() == [None, 1, None, None, 1, 1]
    assert marked["copies"].to_pylist() == [2, None, 0, 1, None, None]
    assert marked["component"].to_pylist() == [3, 3, 1, 2, 3, 2]
    assert marked["source_names"].to_pylist() == [["a", "b", "e"], None, ["c"], ["d", "f"], None, None]


filtering, marking, naming = (partial(methodcaller, name) for name in ("filter", "mark", "duplicates"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *((filtering(odd), "table") for odd in (sparse.eye_array(9), [1], pa.table({"a": [1]}), pd.DataFrame())),
        *((filtering(odd), "table") for odd in (np.zeros(6), 5, None, "abcdefghi", set(range(9)))),
        (filtering(3), "table is of type int, which has no rows"),
        *((filtering(kind), f"table is the class {kind.__name__}, which has no rows") for kind in (list, pl.Series)),
        (marking(pa.table({"kept": IDS})), "table has a column 'kept', which would be added; rename it"),
        (marking(pd.DataFrame({"near": IDS})), "table has a column 'near', which would be added; rename it"),
        (marking(TABLE), "table has 6 rows and the decision 9"),
        (marking(IDS), "table is of type list; give a Table of pyarrow"),
        (marking(pl.LazyFrame({"a": IDS})), "table is of type LazyFrame; give a Table of pyarrow"),
        (marking(5), "table is of type int"),
        (marking(pa.Table), "table is the class Table"),
        (naming(ids=[1]), "ids has 1 value for 9 documents; give one for each document"),
        (naming(texts=TEXTS[:8]), "texts has 8 rows"),
        (naming(ids=5), "ids is of type int; give a column or a list"),
        (naming(texts=5), "texts is of type int"),
        (naming(ids=pl.Series([*IDS[:8], 1], dtype=pl.Object)), r"ids is .*, not a column of one kind of value"),
    ],
)
def test_wrong_tables_and_columns_are_refused(call: Callable[[Decision], Any], message: str, result: Decision) -> None:
    with pytest.raises(GpulshError, match=message):
        call(result)
