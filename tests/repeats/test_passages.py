"""`gpulsh.passages`: marks, first occurrences and spans of bytes, against tuples of tokens in dictionaries."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.arrays import TextBatch
from gpulsh.backends.protocol import Sizes
from gpulsh.backends.select import select_backend
from gpulsh.errors import ParameterError
from gpulsh.params import Folding, Shingling
from gpulsh.repeats.windows import sample_windows
from tests.support import naive
from tests.support.naive_passages import Marks, bsade, lee, lost, marked, no_marks, set_marks, unmarked_windows, windows
from tests.support.texts import SECRETS, WORDS, every_backend, known, licences, strings

KEEPS = ["first", "minimal", "none"]
every_keep = pytest.mark.parametrize("keep", KEEPS)
some_documents = st.lists(
    st.one_of(st.text("ab", max_size=30), st.text("abcd", max_size=60), st.text("a", max_size=20)), max_size=8
)


def spelled(documents: list[str]) -> list[str]:
    """Documents of one-letter words."""
    return [" ".join(document) for document in documents]


def check(texts: list[str], size: int, keep: Any, **options: Any) -> list[dict[str, int]]:
    """Check the spans of words against the definition; returns them."""
    spans: list[dict[str, int]] = gpulsh.passages(texts, tokens=size, keep=keep, **options).to_pylist()
    documents = [naive.tokens(text, "word") for text in texts]
    repeated = windows(documents, size)
    marks, found = marked(documents, size, keep), [[False] * len(document) for document in documents]
    encoded = [text.encode() for text in texts]
    for span in spans:
        row, start, stop, other = span["row"], span["start"], span["stop"], span["first_row"]
        body = encoded[row][start:stop].decode()
        words = naive.tokens(body, "word")
        first = len(naive.tokens(encoded[row][:start].decode(), "word"))
        source = len(naive.tokens(encoded[other][: span["first_start"]].decode(), "word"))
        assert len(words) == span["tokens"] > 0 and (other, source) <= (row, first)
        assert documents[row][first : first + len(words)] == documents[other][source : source + len(words)] == words
        # Every token is in a window that occurs as often, and whose first copy is where the span says. None that marks
        # it occurs more often.
        for token in range(first, first + len(words)):
            around = range(max(token - size + 1, 0), min(token, len(documents[row]) - size) + 1)
            places = [(at, repeated[tuple(documents[row][at : at + size])]) for at in around]
            assert any(len(of) == span["occurrences"] and of[0] == (other, at + source - first) for at, of in places)
            most = max(len(of) for at, of in places if len(of) > 1 and (keep == "none" or of[0] != (row, at)))
            assert most == span["occurrences"]
        found[row][first : first + len(words)] = [True] * len(words)
    assert found == marks
    ordered = [(span["row"], span["start"], span["stop"]) for span in spans]
    assert ordered == sorted(ordered) and all(a[0] < b[0] or a[2] <= b[1] for a, b in pairwise(ordered))
    return spans


@every_backend
@given(some_documents, st.sampled_from([1, 2, 3, 5]), st.sampled_from(KEEPS))
def test_passages_follow_the_definition(backend: Any, documents: list[str], size: int, keep: str) -> None:
    check(spelled(documents), size, keep, backend=backend)


@every_keep
@pytest.mark.parametrize("size", [1, 2, 5, 50, 64, 65, 127, 128, 200])
def test_documents_near_the_window_size_follow_the_definition(keep: str, size: int) -> None:
    words = [f"w{number}" for number in range(size + 2)]
    texts = [" ".join(words[:count]) for count in (size - 1, size, size - 1, size + 1, size, size + 2)]
    spans = check(texts, size, keep, backend="cpu")
    assert {span["row"] for span in spans} == {"first": {3, 4, 5}, "minimal": {3, 4, 5}, "none": {1, 3, 4, 5}}[keep]


def words_left(texts: list[str], **options: Any) -> list[str]:
    result = gpulsh.passages(texts, backend="cpu", **options)
    return gpulsh.cut(texts, result, min_left=0, backend="cpu").texts.to_pylist()


def test_a_first_occurrence_that_overlaps_a_repeat_is_kept() -> None:
    """Other rules leave no whole copy of "bbb" and "bbc"."""
    tokens = [list("bbbbbcbb"), list("bbbc")]
    rules = marked(tokens, 3, "first"), bsade(tokens, 3), lee(tokens, 3)
    assert [lost(tokens, 3, marks) for marks in rules] == [0, 2, 2]
    assert words_left(spelled(["bbbbbcbb", "bbbc"]), tokens=3) == ["b b b b b c b b", ""]


def test_a_cut_may_make_a_new_repeat() -> None:
    texts = spelled(["WXYZ", "abWXYZcd", "abcd"])
    once = words_left(texts, tokens=4)
    assert once == ["W X Y Z", "a b  c d", "a b c d"]
    assert words_left(once, tokens=4) == ["W X Y Z", "a b  c d", ""]


@given(some_documents, st.sampled_from([1, 2, 3, 5]))
def test_keep_none_and_minimal_equal_the_rules_of_other_tools(documents: list[str], size: int) -> None:
    tokens = [list(document) for document in documents]
    assert marked(tokens, size, "none") == lee(tokens, size)
    assert marked(tokens, size, "minimal") == bsade(tokens, size)


def marks_of(texts: list[str], size: int, keep: Any) -> Marks:
    """The marks that spans give to one-letter words between single spaces."""
    marks = [[False] * len(text.split()) for text in texts]
    for span in gpulsh.passages(texts, tokens=size, keep=keep, backend="cpu").to_pylist():
        marks[span["row"]][span["start"] // 2 : (span["stop"] + 1) // 2] = [True] * span["tokens"]
    return marks


@given(some_documents, st.sampled_from([1, 2, 3, 5]))
def test_first_keeps_a_copy_and_minimal_leaves_no_repeat(documents: list[str], size: int) -> None:
    """ "first" leaves the first copy of each marked window whole; "minimal" leaves no window twice."""
    marks = marks_of(spelled(documents), size, "first")
    tokens = [list(document) for document in documents]
    for places in windows(tokens, size).values():
        number, start = places[0]
        assert len(places) == 1 or not any(marks[number][start : start + size])
    found = [window for window, _ in unmarked_windows(tokens, size, marks_of(spelled(documents), size, "minimal"))]
    assert len(found) == len(set(found))


awkward = st.lists(st.lists(st.sampled_from([*WORDS, "a", "b", "+"]), max_size=30).map(" ".join), max_size=6)


@every_backend
@given(st.lists(st.one_of(strings, awkward.map(" ".join)).map(known), max_size=5), st.sampled_from([1, 2, 5]))
def test_passages_of_many_scripts_follow_the_definition(backend: Any, texts: list[str], size: int) -> None:
    check([*texts, *texts[::2]], size, "first", backend=backend)


@given(st.lists(strings.map(known), max_size=5), st.sampled_from([1, 3, 8]), st.sampled_from(KEEPS), st.booleans())
def test_passages_of_characters_follow_the_definition(texts: list[str], size: int, keep: Any, symbols: bool) -> None:
    """Spans take the bytes of marked characters and of marked gaps."""
    texts = [*texts, *texts[:2]]
    tokens = [naive.tokens(text, "char", symbols) for text in texts]
    marks = marked(tokens, size, keep)
    for backend in ("reference", "cpu"):
        options: dict[str, Any] = {"tokens": size, "keep": keep, "unit": "char", "symbols": symbols, "backend": backend}
        spans = gpulsh.passages(texts, **options).to_pylist()
        assert sum(span["tokens"] for span in spans) == sum(map(sum, marks))
        kept = [bytearray(text.encode()) for text in texts]
        for span in spans[::-1]:
            del kept[span["row"]][span["start"] : span["stop"]]
        for rest, document, row in zip(kept, tokens, marks, strict=True):
            characters = [token for token, mark in zip(document, row, strict=True) if not mark and token != " "]
            assert [one for one in naive.tokens(rest.decode(), "char", symbols) if one != " "] == characters


@given(some_documents, st.sampled_from([1, 2, 5]), st.sampled_from(KEEPS), st.integers(1, 40), st.sampled_from(SECRETS))
def test_no_batch_or_secret_changes_marks(documents: list[str], size: int, keep: Any, most: int, secret: bytes) -> None:
    texts = spelled(documents)
    wanted = gpulsh.passages(texts, tokens=size, keep=keep, backend="reference", secret=SECRETS[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.backends.cpu.SIZES", Sizes(most, most, most))
        found = gpulsh.passages(iter(texts), tokens=size, keep=keep, backend="cpu", secret=secret)
        assert found.equals(wanted)


def test_windows_with_equal_public_hashes_do_not_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test makes all public hashes equal: the secret ones distinguish the windows."""
    monkeypatch.setattr("gpulsh.repeats.windows.as_digests", lambda values: values & np.uint64(1))
    texts = spelled(["abcdefgh", "efghabcd", "hgfedcba", "abcdxfgh"])
    for keep in KEEPS:
        check(texts, 3, keep, backend="cpu")


def test_frequent_repeats_take_linear_time() -> None:
    """One header is in many documents, one line comes many times, and one letter comes many times."""
    header = " ".join(f"h{number}" for number in range(60))
    texts = [f"{header} own{number}" for number in range(20_000)]
    texts += ["the same line again\n" * 200_000, "x " * 1_000_000]
    spans = gpulsh.passages(texts, tokens=50, backend="cpu")
    assert spans["tokens"].to_pylist()[:3] == [60, 60, 60] and spans["occurrences"].to_pylist()[0] == 20_000
    # A span of repeated letters is as long as a window.
    assert len(spans) < 20_000 + (4 * 200_000 + 1_000_000) / 50


@given(some_documents, st.sampled_from([1, 2, 3, 5]), st.sampled_from(["minimal", "none"]), st.integers(2, 6))
def test_min_occurrences_cuts_frequent_windows_alone(documents: list[str], size: int, keep: Any, least: int) -> None:
    """The spans mark exactly the windows that occur so often."""
    texts, tokens = spelled(documents), [list(document) for document in documents]
    marks = no_marks(tokens)
    for places in windows(tokens, size).values():
        if len(places) >= least:
            set_marks(marks, places if keep == "none" else places[1:], size)
    result = gpulsh.passages(texts, tokens=size, keep=keep, backend="cpu")
    after = gpulsh.cut(texts, result, min_left=0, min_occurrences=least, backend="cpu").texts.to_pylist()
    assert [text.split() for text in after] == [
        [word for word, mark in zip(document, row, strict=True) if not mark]
        for document, row in zip(tokens, marks, strict=True)
    ]


@pytest.mark.parametrize("texts", [[], [""], [None, "..."], ["one"], ["one two"]])
def test_texts_without_repeats_give_an_empty_table(texts: list[Any]) -> None:
    for backend in ("reference", "cpu"):
        result = gpulsh.passages(texts, tokens=2, backend=backend)  # type: ignore[arg-type]
        names = ["row", "start", "stop", "first_row", "first_start", "tokens", "occurrences"]
        assert result.schema == pa.schema({name: pa.int64() for name in names})
        assert result.num_rows == 0


def test_samples_are_spread_evenly_over_the_hashes() -> None:
    """Otherwise one range of hashes, held in memory at once, could be nearly all."""
    texts = [text[:3000].encode() for text in licences()[:60]]
    offset = np.cumsum([0, *map(len, texts)])
    batch = TextBatch(np.frombuffer(b"".join(texts), np.uint8), offset)
    values = sample_windows(select_backend("reference"), batch, Shingling().with_folding(Folding()), 50).values
    counts = np.bincount((values >> np.uint64(61)).astype(np.int64), minlength=8)
    assert len(values) > 800 and counts.min() > 0.6 * counts.mean()


OF_WORDS = {"tokens": 9, "unit": "char", "symbols": True, "normalize": "NFC", "whole_lines": True}
WRONG: list[tuple[dict[str, Any], str]] = [
    *(({name: value}, name) for name, value in (("tokens", 0), ("tokens", 4097), ("keep", "last"), ("size", 3))),
    *(({name: value}, name) for name, value in (("bridge", 51), ("bridge", -1), ("unit", "page"), ("bytes", 5000))),
    ({"unit": "line", "max_copies": 0}, "max_copies is 0"),
    ({"unit": "line", "tokens": 5}, "tokens and unit='line' cannot be combined; leave tokens out"),
    ({"unit": "paragraph", "keep": "none"}, "keep and unit='paragraph' cannot be combined; leave keep out"),
    ({"max_copies": 5}, "max_copies is given for words; give unit='line' or 'paragraph'"),
    *(
        ({"bytes": 20, name: value}, f"bytes and {name}{'=True' if value is True else ''} cannot be combined")
        for name, value in OF_WORDS.items()
    ),
    ({"bytes": 20, "folding": Folding(form="NFC")}, "bytes and normalize cannot be combined"),  # the command's way
    ({"bytes": 20, "folding": Folding(case=False)}, "bytes and folding cannot be combined"),
    ({"bytes": 0}, "bytes is 0"),
]
WRONG_TEXTS = [
    ({"within": ["x"]}, "within is given"),
    ({"unit": "line", "within": ["x", "y"]}, "2 values for 1 document"),
    ({"unit": "line", "within": 5}, "within"),
]
WRONG_FILES = [
    ({"within": "host"}, "within is given for words"),
    ({"unit": "line", "within": 3}, "within is 3; give the name of a column"),
]


def test_wrong_parameters_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    for wrong, message in [*WRONG, *WRONG_TEXTS]:
        with pytest.raises(ParameterError, match=message):
            gpulsh.passages(["a"], **wrong, backend="cpu")
    for wrong, message in [*WRONG, *WRONG_FILES]:
        if "size" not in wrong:
            with pytest.raises(ParameterError, match=message):
                gpulsh.passages_files(tmp_path / "a.jsonl", tmp_path / "out", **wrong, backend="cpu")
    assert not (tmp_path / "out").exists()
