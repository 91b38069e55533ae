"""What was decided as tables: of other libraries, of dropped documents beside others, of clusters."""

import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpulsh
from gpulsh.decide.decision import NAMES
from gpulsh.stats.counts import DUPLICATES

WORDS = [f"w{number}" for number in range(30)]
TEXTS = [
    *(" ".join(WORDS), " ".join([*WORDS, "end"]), None, "other words \ud800 here", "OTHER words \ud800 here"),
    *(" ".join(["start", *WORDS]), "alone", "", "other words, \ud800 here"),
]
IDS = [f"id{row}" for row in range(len(TEXTS))]


@pytest.fixture(scope="module")
def result() -> gpulsh.Decision:
    return gpulsh.deduplicate(TEXTS, backend="reference")


def test_tables_of_other_libraries(result: gpulsh.Decision) -> None:
    wanted = result.to_arrow()
    pd.testing.assert_frame_equal(result.to_pandas(), wanted.to_pandas())
    assert result.to_polars().equals(pl.from_arrow(wanted))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_missing_is_named(
    library: str, result: gpulsh.Decision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(gpulsh.BackendError, match=f"needs {library}: pip install {library}, or use to_arrow"):
        getattr(result, f"to_{library}")()


def test_duplicates_name_both_documents(result: gpulsh.Decision) -> None:
    bare = result.duplicates()
    assert bare.column_names == ["row", "duplicate_of_row", "similarity", "cluster"]
    rows = result.duplicates(ids=IDS, texts=TEXTS).to_pylist()
    assert [row["row"] for row in rows] == np.flatnonzero(~result.keep).tolist() == [1, 4, 5, 8]
    for row in rows:
        own, other = row["row"], row["duplicate_of_row"]
        assert (row["id"], row["duplicate_of_id"]) == (IDS[own], IDS[other])
        texts = [(TEXTS[at] or "").encode("utf-8", "surrogatepass").decode("utf-8", "replace") for at in (own, other)]
        assert [row["text"], row["duplicate_of_text"]] == texts
        assert (other, row["cluster"]) == (result.duplicate_of[own], result.cluster[own])
        assert row["similarity"] == result.similarity[own] >= np.float32(0.8)
    assert [row.name for row in DUPLICATES if "file" not in row.name] == [n for n in NAMES if "text" not in n]
    types = {row.name: pa.type_for_alias(row.type) for row in DUPLICATES if row.name in bare.column_names}
    assert {field.name: field.type for field in bare.schema} == types


@pytest.mark.parametrize(
    "column", [np.array(IDS), pd.Series(IDS), pl.Series(IDS), pa.array(IDS), pa.chunked_array([IDS[:2], IDS[2:]])]
)
def test_ids_and_texts_of_every_kind(column: Any, result: gpulsh.Decision) -> None:
    found = result.duplicates(ids=column, texts=column).select(["id", "text"]).to_pylist()
    assert found == [{"id": IDS[row], "text": IDS[row]} for row in (1, 4, 5, 8)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ids": [1]}, "ids has 1 values for 9 documents; give one for each document"),
        ({"texts": TEXTS[:8]}, "texts has 8 rows"),
        ({"ids": 5}, "ids is of type int; give a column or a list"),
        ({"texts": 5}, "texts is of type int"),
    ],
)
def test_what_is_no_column_is_refused(given: dict[str, Any], told: str, result: gpulsh.Decision) -> None:
    with pytest.raises(gpulsh.GpulshError, match=told):
        result.duplicates(**given)


def test_clusters(result: gpulsh.Decision) -> None:
    assert result.clusters().to_pylist() == [
        {"cluster": 0, "size": 3, "kept": 1, "rows": [0, 1, 5]},
        {"cluster": 3, "size": 3, "kept": 1, "rows": [3, 4, 8]},
    ]
    nothing = gpulsh.deduplicate([], backend="reference")
    assert nothing.clusters().num_rows == nothing.duplicates(ids=[], texts=[]).num_rows == 0
    assert nothing.clusters().schema == result.clusters().schema
