"""`gpulsh.cut`: texts without spans."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.errors import ParameterError


def spans_of(rows: list[tuple[int, int, int]]) -> pa.Table:
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    return pa.table({name: pa.array(column) for name, column in zip(("row", "start", "stop"), columns, strict=True)})


@given(st.lists(st.text("abé ", max_size=12), max_size=6), st.data(), st.integers(1, 50))
def test_what_is_left(texts: list[str], data: st.DataObject, most: int) -> None:
    """Spans in any order that overlap, touch or are empty."""
    bits = [list(text) for text in texts]
    rows = []
    for row, text in enumerate(texts):
        for _ in range(data.draw(st.integers(0, 3))):
            start, stop = sorted(data.draw(st.integers(0, len(text))) for _ in range(2))
            rows.append((row, len(text[:start].encode()), len(text[:stop].encode())))
            bits[row][start:stop] = [""] * (stop - start)
    rows = data.draw(st.permutations(rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.repeats.cut.BATCH_BYTES", most)
        found = gpulsh.cut(texts, spans_of(rows), min_left=2, min_occurrences=1, backend="cpu")
    wanted = ["".join(left) for left in bits]
    assert found.texts.to_pylist() == wanted and len(found) == len(texts)
    touched = {row for row, _, _ in rows}
    tokens = [len(text.split()) if row in touched else -1 for row, text in enumerate(wanted)]
    assert found.tokens.tolist() == tokens
    assert found.keep.tolist() == [not 0 <= count < 2 for count in tokens]


TEXTS = ["one two three four", None, "one two three four", "", "four"]


def test_any_kind_of_texts_keeps_its_nulls() -> None:
    kinds = [TEXTS, np.array(TEXTS, object), pa.array(TEXTS), pa.chunked_array([TEXTS[:2], TEXTS[2:]])]
    kinds += [pd.Series(TEXTS), pl.Series(TEXTS)]
    batch, stream = pa.array(TEXTS), pa.chunked_array([TEXTS[:2], TEXTS[2:]])
    kinds += [SimpleNamespace(__arrow_c_array__=batch.__arrow_c_array__), batch.cast(pa.string_view())]
    kinds += [SimpleNamespace(__arrow_c_stream__=stream.__arrow_c_stream__), batch.dictionary_encode()]
    result = gpulsh.passages(TEXTS, tokens=3, backend="cpu")
    for texts in [*kinds, iter(TEXTS), iter([TEXTS[0], batch[1:4], "four"])]:
        found = gpulsh.cut(texts, result, backend="cpu")
        assert found.texts.to_pylist() == ["one two three four", None, "", "", "four"]
        assert found.keep.tolist() == [True, True, False, True, True] and found.texts.type == pa.large_string()


def test_bytes_that_are_no_text_become_replacements() -> None:
    texts = pa.array([b"one \xff two", b"two"])
    assert gpulsh.cut(texts, spans_of([(1, 0, 1)]), min_occurrences=1).texts.to_pylist() == ["one \ufffd two", "wo"]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        (spans_of([(5, 0, 1)]), "rows 5 to 5 of 5 texts"),
        (spans_of([(-1, 0, 1)]), "rows -1"),
        (spans_of([(0, 0, 19)]), "0 to 19 of a text of 18"),
        (spans_of([(0, -1, 3)]), "-1 to 3"),
        (spans_of([(0, 3, 2)]), "3 to 2"),
        (spans_of([(1, 0, 1)]), "0 to 1 of a text of 0"),
        (pa.table({"row": [0], "start": [0]}), "no column stop"),
        (pa.table({"row": [0.0], "start": [0], "stop": [1]}), "no column row"),
        ([], "give the pyarrow.Table of gpulsh.passages"),
    ],
)
def test_wrong_spans(spans: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        gpulsh.cut(TEXTS, spans, min_occurrences=1, backend="cpu")


def test_occurrences_are_needed_to_choose_by_them() -> None:
    with pytest.raises(ParameterError, match="no column occurrences"):
        gpulsh.cut(TEXTS, spans_of([]), backend="cpu")
    for wrong in ({"min_left": -1}, {"min_occurrences": 0}, {"unit": "line"}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            gpulsh.cut(TEXTS, spans_of([]), **wrong, backend="cpu")
