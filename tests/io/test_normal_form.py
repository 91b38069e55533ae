"""Normal forms: those of `unicodedata`, whatever marks a text has, and in linear time."""

from __future__ import annotations

import time
import unicodedata
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.io.normal_form import Form, normal_form

FORMS: list[Form] = ["NFC", "NFKC", "NFD", "NFKD"]


@cache
def marks() -> list[str]:
    """All characters that normalization may move."""
    return [c for c in map(chr, range(0x110000)) if unicodedata.combining(unicodedata.normalize("NFKD", c)[0])]


@given(st.data(), st.sampled_from(FORMS), st.sampled_from([1, 2, 3, 8]))
def test_any_text(data: st.DataObject, form: Form, long: int) -> None:
    letters = st.sampled_from("aeqé가ㅏ한カガ\u1161\u0958xﬁ") | st.characters(exclude_categories=["Cs"])
    text = data.draw(st.text(st.sampled_from(marks()) | letters, max_size=40))
    assert normal_form(text, form, long) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [255, 256, 257, 511, 512, 600])
def test_runs_around_the_length_that_is_long(form: Form, length: int) -> None:
    run = ("\u0344\u0323\u0f73\u0301" * length)[:length]
    for text in (run, f"e{run}", f"é{run}é{run}", f"x{run} {run[:9]}a{run}"):
        assert normal_form(text, form) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("run", ["\u0301\u0323" * 20_000, "\u0301" * 20_000 + "\u0323" * 20_000, "\u0f73" * 40_000])
def test_a_page_of_marks_takes_no_time(run: str) -> None:
    """It took minutes, and 16 times as long for four times the marks."""
    began = time.process_time()
    gpulsh.shingle([f"e{run * 4}"], folding=gpulsh.Folding(form="NFKC"), backend="cpu")
    gpulsh.passages([f"e{run * 4} x"] * 2, tokens=1, normalize="NFC", backend="cpu")
    assert time.process_time() - began < 8
