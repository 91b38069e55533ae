"""`Index.find`: the stretches of a text whose shingles a document has, against sets of tuples of tokens."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh.__main__ import main
from gpulsh.errors import InputTypeError, ParameterError
from gpulsh.index import stretches
from tests.support import naive
from tests.support.texts import known, strings

documents = st.lists(st.one_of(st.text("ab", max_size=12), st.text("abcd", max_size=30)).map(" ".join), max_size=6)


def expected(texts: list[str], text: str, size: int, least: int) -> list[tuple[int, int, int]]:
    """Document, first token and tokens of each stretch."""
    query = naive.tokens(text, "word")
    length = min(size, len(query))
    found = []
    for number, document in enumerate(texts):
        held = set(naive.shingles(naive.tokens(document, "word"), size))
        flags = [tuple(query[at : at + length]) in held for at in range(len(query) - length + 1)] if length else []
        for start in range(len(flags)):
            if flags[start] and (start == 0 or not flags[start - 1]):
                stop = next((at for at in range(start, len(flags)) if not flags[at]), len(flags))
                found.append((number, start, stop - start - 1 + length))
    return [one for one in found if one[2] >= least]


def check(index: gpulsh.Index, texts: list[str], text: str, size: int, least: int | None) -> None:
    encoded = text.encode()
    found = []
    for key, start, stop, tokens in index.find(text, tokens=least):
        before, inside = encoded[:start].decode(), encoded[start:stop].decode()
        assert len(naive.tokens(inside, "word")) == tokens
        assert naive.tokens(inside[0], "word") and naive.tokens(inside[-1], "word")
        found.append((key, len(naive.tokens(before, "word")), tokens))
    assert found == expected(texts, text, size, least or 1)


@given(documents, st.text("abcd", max_size=30).map(" ".join), st.sampled_from([1, 2, 5]), st.sampled_from([None, 4]))
@pytest.mark.parametrize("measure", ["jaccard", "containment"])
def test_stretches_are_those_of_the_definition(
    measure: Any, texts: list[str], text: str, size: int, least: int | None
) -> None:
    index = gpulsh.Index(shingling=gpulsh.Shingling(size=size), measure=measure, backend="cpu")
    index.insert(list(range(len(texts))), texts)
    check(index, texts, text, size, least)


@settings(max_examples=20)
@given(st.lists(strings.map(known), max_size=4), strings.map(known), st.data())
def test_texts_of_all_scripts(texts: list[str], text: str, data: st.DataObject) -> None:
    index = gpulsh.Index(shingling=gpulsh.Shingling(size=2), backend="cpu")
    index.insert(list(range(len(texts))), texts)
    check(index, texts, data.draw(st.sampled_from([text, *texts])), 2, None)


@pytest.mark.parametrize("measure", ["jaccard", "containment"])
def test_of_a_folder_without_removed_and_dropped_documents(
    measure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stretches, "READ_AT_ONCE", 5)
    pages = [" ".join(f"p{page}w{number}" for number in range(20)) for page in range(9)]
    with gpulsh.Index.create(tmp_path / "index", measure=measure, backend="cpu") as index:
        index.add(["a", "b", "copy of a"], [pages[0], pages[1], pages[0]])
        index.save()
        index.add(list("cdef"), pages[2:6])
        index.remove(["b"])
        index.save()
    text = f"Zuerst: {pages[0]}; \N{SNOWMAN} {pages[1]} {pages[4]} p3w0 p3w1 p3w2 p3w3 p3w4"
    Path(tmp_path / "text").write_text(text, encoding="utf-8")
    assert main(["index", "find", str(tmp_path / "index"), str(tmp_path / "text"), "--tokens", "6"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["key"], row["tokens"]) for row in rows] == [("a", 20), ("e", 20)]
    assert [text.encode()[row["start"] : row["stop"]].decode() for row in rows] == [pages[0], pages[4]]
    opened = gpulsh.Index.open(tmp_path / "index", backend="reference")
    assert opened.find(text).keys.tolist() == ["a", "d", "e"]
    assert not len(opened.find("")) and not len(opened.find(b"\xff")) and not len(opened.find("p0w0"))


def test_marks_that_change_places_have_no_stretch_of_their_own() -> None:
    """NFKC puts the dot below before the dot above, so neither has bytes of its own."""
    folding = gpulsh.Folding(form="NFKC")
    index = gpulsh.Index(shingling="char:1", folding=folding, backend="cpu")
    index.insert(["marks", "letters"], ["\u0323\u0307", "qx"])
    text = "q\u0307\u0323x"
    found = list(index.find(text))
    assert [row for row in found if row[1] >= row[2]] == []
    assert [row[0] for row in found] == ["letters"]


def test_what_cannot_be_found() -> None:
    index = gpulsh.Index(backend="cpu")
    with pytest.raises(InputTypeError, match="text is of type list; give one str"):
        index.find(["a"])  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="tokens is 0"):
        index.find("a", tokens=0)
    with pytest.raises(ParameterError, match="the index removes or replaces words"):
        gpulsh.Index(shingling=gpulsh.Shingling(stop=["the"]), backend="cpu").find("a")
