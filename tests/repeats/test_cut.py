"""`gpulsh.cut`: texts without spans; and lines beyond a number of copies, against Python's lists and counters."""

import re
from collections import Counter
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
from gpulsh import ParameterError


def spans_of(rows: list[tuple[int, int, int]]) -> pa.Table:
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    return pa.table({name: pa.array(column) for name, column in zip(("row", "start", "stop"), columns, strict=True)})


@given(st.lists(st.text("abé ", max_size=12), max_size=6), st.data(), st.integers(1, 50))
def test_cut_removes_spans_in_any_order(texts: list[str], data: st.DataObject, most: int) -> None:
    """Some spans overlap, touch or are empty."""
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
    touched = {row for row, start, stop in rows if start < stop}
    tokens = [len(text.split()) if row in touched else -1 for row, text in enumerate(wanted)]
    assert found.tokens.tolist() == tokens
    assert found.keep.tolist() == [not 0 <= count < 2 for count in tokens]


TEXTS = ["one two three four", None, "one two three four", "", "four"]


def test_cut_takes_all_kinds_of_texts_and_keeps_nulls() -> None:
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
    for spans in (result.to_pandas(), pl.from_arrow(result)):
        assert gpulsh.cut(TEXTS, spans, backend="cpu").texts == found.texts


def test_invalid_bytes_become_replacement_characters() -> None:
    texts = pa.array([b"one \xff two", b"two"])
    assert gpulsh.cut(texts, spans_of([(1, 0, 1)]), min_occurrences=1).texts.to_pylist() == ["one \ufffd two", "wo"]


NONE, ANY_NUMBER = spans_of([]), {"min_occurrences": 1}


@pytest.mark.parametrize(
    ("spans", "options", "message"),
    [
        (spans_of([(5, 0, 1)]), ANY_NUMBER, "rows 5 to 5 of 5 texts"),
        (spans_of([(-1, 0, 1)]), ANY_NUMBER, "rows -1"),
        (spans_of([(0, 0, 19)]), ANY_NUMBER, "0 to 19 of a text of 18"),
        (spans_of([(0, -1, 3)]), ANY_NUMBER, "-1 to 3"),
        (spans_of([(0, 3, 2)]), ANY_NUMBER, "3 to 2"),
        (spans_of([(1, 0, 1)]), ANY_NUMBER, "0 to 1 of a text of 0"),
        (pa.table({"row": [0], "start": [0]}), ANY_NUMBER, "no column stop"),
        (pa.table({"row": [0.0], "start": [0], "stop": [1]}), ANY_NUMBER, "no column row"),
        ([1], ANY_NUMBER, "spans is of type list; give the table of gpulsh.passages"),
        (NONE, {}, "no column occurrences"),
        *((NONE, wrong, next(iter(wrong))) for wrong in ({"min_left": -1}, {"min_occurrences": 0}, {"unit": "line"})),
    ],
)
def test_wrong_spans_and_parameters_are_refused(spans: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        gpulsh.cut(TEXTS, spans, **options, backend="cpu")


# --- lines and paragraphs beyond a number of copies

LINES = ["", " ", "\t\r", "a", "A!", "a b", "b  a", "é", "--", "a\r", "漢字"]
texts_of_lines = st.lists(
    st.lists(st.sampled_from(LINES), max_size=8).map("\n".join) | st.just("a\n\n\na\n") | st.none(), max_size=6
)


def parts(text: str, unit: str) -> list[str]:
    """Lines with their ends, or paragraphs with the blank lines after them."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    if unit == "line":
        return lines
    found: list[str] = []
    blank = False
    for line in lines:
        is_blank = not line.strip(" \t\n\v\f\r")
        if not found or (blank and not is_blank):
            found.append("")
        found[-1] += line
        blank = is_blank
    return found


@given(texts_of_lines, st.sampled_from(["line", "paragraph"]), st.integers(1, 3), st.booleans(), st.data())
def test_extra_copies_are_cut(texts: list[Any], unit: Any, most: int, grouped: bool, data: st.DataObject) -> None:
    hosts = data.draw(st.lists(st.sampled_from(["x", "y", "", None]), min_size=len(texts), max_size=len(texts)))
    within = hosts if grouped else None
    seen: Counter[Any] = Counter()
    wanted, marked = [], 0
    for text, host in zip(texts, hosts, strict=True):
        left = ""
        for part in parts(text or "", unit):
            words = tuple(re.findall(r"\w", part.lower()) if "漢" in part else re.findall(r"\w+", part.lower()))
            key = words, (host or None) if grouped else None
            seen[key] += 1
            if not words or seen[key] <= most:
                left += part
            else:
                marked += 1
        wanted.append(None if text is None else left)
    for backend in ("reference", "cpu"):
        options: dict[str, Any] = {"unit": unit, "max_copies": most, "within": within, "backend": backend}
        result = gpulsh.passages(texts, **options)
        assert result.num_rows == marked
        assert gpulsh.cut(texts, result, min_left=0, backend="cpu").texts.to_pylist() == wanted


def test_repeated_lines_have_spans() -> None:
    texts = ["Share this!\nown text\n", "x\nshare this", "SHARE, THIS\n"]
    spans = gpulsh.passages(texts, unit="line", max_copies=1, backend="cpu").to_pylist()
    assert [tuple(span.values()) for span in spans] == [(1, 2, 12, 0, 0, 2, 3), (2, 0, 12, 0, 0, 2, 3)]


def test_six_copies_of_a_line_are_kept_by_default() -> None:
    texts = [f"the same line\nown {number}" for number in range(9)]
    result = gpulsh.passages(texts, unit="line", backend="cpu")
    assert result["row"].to_pylist() == [6, 7, 8]


HOSTS = ["x", "y", "x"]
CODES = pa.array([0, 1, 2, 0, 3, None])


@pytest.mark.parametrize(
    ("within", "firsts"),
    [
        *((column(HOSTS), [(2, 0)]) for column in (list, pa.array, pd.Series)),
        *(([1, 2, 1], [(2, 0)]), (pa.chunked_array([HOSTS[:1], HOSTS[1:]]), [(2, 0)])),
        (pa.array(HOSTS).dictionary_encode(), [(2, 0)]),
        # A dictionary may repeat its values; null and empty groups are one.
        (pa.DictionaryArray.from_arrays(CODES, pa.array(["x", "x", None, ""])), [(1, 0), (3, 0), (4, 2), (5, 2)]),
        *((pa.array(["", "x", None], kind), [(2, 0)]) for kind in (pa.string(), pa.binary(), pa.string_view())),
        (pa.array([b"", b"x", None]).dictionary_encode(), [(2, 0)]),
    ],
)
def test_within_takes_any_column(within: Any, firsts: list[tuple[int, int]]) -> None:
    texts = ["a line"] * len(within)
    found = gpulsh.passages(texts, unit="line", max_copies=1, within=within, backend="cpu")
    assert list(zip(found["row"].to_pylist(), found["first_row"].to_pylist(), strict=True)) == firsts


@pytest.mark.parametrize(
    ("within", "message"),
    [
        ("host", "within is of type str; give a column or a list"),
        ([["x"], ["x"], ["y"], ["x"]], "within is a column of list"),
        ([{"x": 1}] * 4, "within is a column of struct"),
        ([10**30] * 4, "within is of type list, not a column of one kind of value"),
        (["x", 1, "x", "x"], "within is of type list, not a column of one kind of value"),
        (pd.DataFrame({"x": [1, 2, 3, 4]}), "within is of type DataFrame; give a column"),
        (pa.table({"x": [1, 2, 3, 4]}), "within is of type Table; give a column"),
        ({"x": 1}, "within is of type dict; give a column"),
        (list, "within is the class list; give a column"),
        ({"w", "x", "y", "z"}, "within is of type set; give a column"),
        (["x"], "within has 1 value for 4 documents; give one for each document"),
    ],
)
def test_wrong_values_of_within_are_refused(within: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        gpulsh.passages(["a line"] * 4, unit="line", within=within, backend="cpu")


def test_lines_of_equal_normal_form_are_repeats() -> None:
    texts = ["cafe\u0301\nx", "caf\u00e9\ny"]
    for form, count in ((None, 0), ("NFC", 1)):
        found = gpulsh.passages(texts, unit="line", max_copies=1, normalize=form, backend="cpu")  # type: ignore[arg-type]
        assert found["stop"].to_pylist() == [6] * count
