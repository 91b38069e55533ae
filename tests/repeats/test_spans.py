"""Spans in bytes: bridged gaps, whole lines, and bytes of the originals of normal forms."""

import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gpulsh
from gpulsh.backends import repeats as module
from gpulsh.backends.repeats import FAR, SpanMarker, repeats
from gpulsh.errors import BackendError
from gpulsh.io import normal_form
from gpulsh.repeats import places
from gpulsh.repeats.places import _stretches
from tests.support import naive
from tests.support.naive_passages import marked, no_marks, set_marks, windows
from tests.support.texts import SEPARATORS, WORDS, known

KEEPS = ["first", "minimal", "none"]
documents_of_lines = st.lists(
    st.lists(st.text("abc", max_size=12), max_size=6).map(lambda lines: "\n".join(" ".join(line) for line in lines)),
    max_size=6,
)


def words_left(texts: list[str], **options: Any) -> list[list[str]]:
    """The words left of each text."""
    result = gpulsh.passages(texts, **options, backend="cpu")
    spans = result.to_pylist()
    for span in spans:
        body = texts[span["row"]].encode()[span["start"] : span["stop"]].decode()
        assert len(body.split()) == span["tokens"]
        assert (span["first_row"] is None) == (span["first_start"] is None) and span["occurrences"] > 1
    after = gpulsh.cut(texts, result, min_left=0, backend="cpu").texts.to_pylist()
    return [text.split() for text in after]


@given(documents_of_lines, st.sampled_from([2, 3, 5]), st.integers(0, 5), st.sampled_from(KEEPS))
def test_short_gaps_between_marks_are_bridged(texts: list[str], size: int, bridge: int, keep: str) -> None:
    bridge = min(bridge, size)
    documents = [text.split() for text in texts]
    marks = marked(documents, size, keep)
    for row in marks:
        places = [place for place, mark in enumerate(row) if mark]
        for one, other in pairwise(places):
            if other - one - 1 < bridge:
                row[one:other] = [True] * (other - one)
    wanted = [[word for word, mark in zip(*one, strict=True) if not mark] for one in zip(documents, marks, strict=True)]
    assert words_left(texts, tokens=size, bridge=bridge, keep=keep) == wanted


@given(documents_of_lines, st.sampled_from([1, 2, 3, 5]), st.sampled_from(KEEPS))
def test_whole_lines_with_a_mark_are_removed(texts: list[str], size: int, keep: str) -> None:
    """A line with a mark goes, unless it has a token of a kept first occurrence."""
    documents = [text.split() for text in texts]
    marks, stays = marked(documents, size, keep), no_marks(documents)
    if keep == "first":
        several = [found for found in windows(documents, size).values() if len(found) > 1]
        set_marks(stays, [found[0] for found in several], size)
    wanted: list[list[str]] = []
    for text, row, kept in zip(texts, marks, stays, strict=True):
        words: list[str] = []
        start = 0
        for line in text.split("\n"):
            here = slice(start, start + len(line.split()))
            whole = any(row[here]) and not any(kept[here])
            words += [word for word, mark in zip(line.split(), row[here], strict=True) if not (mark or whole)]
            start = here.stop
        wanted.append(words)
    assert words_left(texts, tokens=size, whole_lines=True, keep=keep) == wanted


@pytest.mark.parametrize(
    ("texts", "options", "left"),
    [
        # A whole line goes with its end, also where the gap between its marks holds a blank line.
        (
            ["the licence of this text\n", "# the licence of this text\r\n\nown\n", "own (the licence of this text)"],
            {"tokens": 5},
            ["the licence of this text\n", "\nown\n", ""],
        ),
        (["a b x\n  \nc d", "a b", "c d"], {"tokens": 2, "keep": "none", "bridge": 2}, ["", "", ""]),
        # A line with a first occurrence stays, with its end.
        (["a b c", "a b c x y z", "x y z"], {"tokens": 3}, ["a b c", " x y z", ""]),
        (["a b c\nd e f", "u v w a b c\nz d e f\nlast", "u v w"], {"tokens": 3}, ["a b c\nd e f", "u v w \nlast", ""]),
        # A line's end that a bridge covers goes.
        (["x y", "a b x y\nz\nx y", "a b"], {"tokens": 2, "bridge": 2}, ["x y", "a b ", ""]),
        # A blank of characters goes with all its bytes, also those of a later line.
        (["abc q", "abc\n \nr"], {"tokens": 4, "unit": "char"}, ["abc q", "r"]),
    ],
)
def test_whole_lines_end_at_any_line_end(texts: list[str], options: dict[str, Any], left: list[str]) -> None:
    result = gpulsh.passages(texts, whole_lines=True, backend="cpu", **options)
    assert gpulsh.cut(texts, result, min_left=0, backend="cpu").texts.to_pylist() == left


@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "\n \n"]), max_size=20).map("".join), min_size=1, max_size=4),
    st.integers(1, 3),
    st.sampled_from(KEEPS),
    st.sampled_from(["word", "char"]),
    st.booleans(),
)
def test_whole_lines_only_add_marks(texts: list[str], size: int, keep: Any, unit: Any, bridge: bool) -> None:
    def places(whole_lines: bool) -> list[tuple[int, int]]:
        spans = gpulsh.passages(
            texts, tokens=size, keep=keep, unit=unit, bridge=size * bridge, whole_lines=whole_lines, backend="cpu"
        )
        return [(span["row"], at) for span in spans.to_pylist() for at in range(span["start"], span["stop"])]

    with_lines = places(whole_lines=True)
    assert len(set(with_lines)) == len(with_lines)
    assert set(places(whole_lines=False)) <= set(with_lines)


composed = st.lists(
    st.sampled_from(
        [*WORDS, *SEPARATORS, "é", "e\u0301", "ｶﾞ", "각", "\u1100\u1161\u11a8", "①", "ﬁ", "½", "\u0301", "ä̂"]
    ),
    max_size=12,
).map("".join)


def normalize_by(patch: pytest.MonkeyPatch, size: int) -> None:
    """Normalize documents in pieces of so many bytes."""
    for module_ in (normal_form, places):
        patch.setattr(module_, "PIECE_BYTES", size)


@given(
    st.one_of(composed.map(str.encode), st.binary(max_size=30), st.text(max_size=20).map(str.encode)),
    st.sampled_from(["NFC", "NFKC"]),
    st.integers(1, 9),
)
def test_pieces_normalize_as_the_whole_document(document: bytes, form: Any, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        normalize_by(patch, size)
        pieces = list(normal_form.normal_pieces(memoryview(document), form))
    ends = [0, *(stop for stop, _ in pieces)]
    assert ends[-1] == len(document) and ends == sorted(set(ends))
    whole = unicodedata.normalize(form, document.decode("utf-8", "replace")).encode()
    assert b"".join(piece for _, piece in pieces) == whole


@given(st.binary(max_size=30), st.sampled_from(["NFC", "NFKC"]))
def test_stretches_cover_invalid_bytes(document: bytes, form: Any) -> None:
    before, after = _stretches(document, form)
    assert before[-1] == len(document)
    assert after[-1] == len(unicodedata.normalize(form, document.decode("utf-8", "replace")).encode())


def test_texts_in_normal_form_are_not_cut_into_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Almost all texts are. Cutting them took 45 times as long as all other work."""
    texts = ["कानून की यह प्रति 漢字かな", "x कानून की यह प्रति 漢字かな y"]
    wanted = gpulsh.passages(texts, tokens=4, backend="cpu")
    monkeypatch.setattr("gpulsh.repeats.places._stretches", None)
    found = gpulsh.passages(texts, tokens=4, normalize="NFC", backend="cpu")
    assert found == wanted and found.num_rows == 1


def several_tokens(text: str, form: Any) -> bool:
    """Whether a character that changes becomes several tokens."""
    pieces = [unicodedata.normalize(form, piece) for piece in cut_up(text, form) if piece]
    return any(len(naive.tokens(piece, "word")) > 1 for piece in pieces)


def cut_up(text: str, form: Any) -> list[str]:
    before = _stretches(text.encode(), form)[0].tolist()
    return [text.encode()[start:stop].decode() for start, stop in pairwise(before)]


# Texts, the size of a window, the form, and the bytes of a piece.
normalized = (
    st.lists(composed.map(known), max_size=4),
    *(st.sampled_from(some) for some in ([1, 2, 3], ["NFC", "NFKC"], [1, 5, 1 << 20])),
)


@given(*normalized)
@example(["\xa0\u0301"], 1, "NFKC", 1)  # a blank that NFKC changes, and a mark that it leaves as it is
def test_spans_are_bytes_of_the_original_text(texts: list[str], size: int, form: Any, piece: int) -> None:
    """The text left has the tokens without marks; a character that is several tokens may stay."""
    texts = [*texts, *(unicodedata.normalize("NFD", text) for text in texts)]
    tokens = [naive.tokens(unicodedata.normalize(form, text), "word") for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        normalize_by(patch, piece)
        result = gpulsh.passages(texts, tokens=size, normalize=form, backend="cpu")
    marks = marked(tokens, size, "first")
    left = [list(text) for text in texts]
    for span in result.to_pylist()[::-1]:
        encoded = texts[span["row"]].encode()
        place, end = (len(encoded[: span[name]].decode()) for name in ("start", "stop"))
        left[span["row"]][place:end] = "\n"
    for rest, words, row in zip(left, tokens, marks, strict=True):
        kept = [word for word, mark in zip(words, row, strict=True) if not mark]
        found = naive.tokens(unicodedata.normalize(form, "".join(rest)), "word")
        assert found == kept or several_tokens("".join(rest), form)


def test_tokens_of_a_span_are_counted_after_normalization(tmp_path: Path) -> None:
    texts = [unicodedata.normalize("NFKC", "\ufdfa"), "\ufdfa q"]  # a character of four words
    given: dict[str, Any] = {"tokens": 2, "normalize": "NFKC"}
    wanted = [(1, 0, 3, 4)]
    for backend in ("cpu", "reference"):
        spans = gpulsh.passages(texts, backend=backend, **given).to_pylist()  # type: ignore[arg-type]
        assert [(span["row"], span["start"], span["stop"], span["tokens"]) for span in spans] == wanted
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    gpulsh.passages_files(tmp_path / "a.parquet", tmp_path / "out", backend="cpu", **given)
    spans = pq.read_table(tmp_path / "out/passages.parquet").to_pylist()
    assert [(span["row"], span["start"], span["stop"], span["tokens"]) for span in spans] == wanted


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_character_of_several_tokens_is_marked_whole(backend: Any) -> None:
    texts = ["xf", "y", "ﬃ", "i", "ﬃz"]  # "ﬃ" is f, f, i, and no i comes before the first
    spans = gpulsh.passages(texts, tokens=1, unit="char", normalize="NFKC", backend=backend).to_pylist()
    found = [(span["row"], span["start"], span["stop"], span["tokens"]) for span in spans]
    assert found == [(3, 0, 1, 1), (4, 0, 3, 3)]


@given(*normalized)
@example(["ﬃ", "i"], 1, "NFKC", 1)
def test_all_tokens_of_repeated_documents_are_counted(texts: list[str], size: int, form: Any, piece: int) -> None:
    tokens = [len(naive.tokens(unicodedata.normalize(form, text), "char")) for text in texts]
    options: dict[str, Any] = {"unit": "char", "normalize": form, "keep": "none"}
    with pytest.MonkeyPatch.context() as patch:
        normalize_by(patch, piece)
        spans = gpulsh.passages([*texts, *texts], tokens=size, backend="cpu", **options)
    assert sum(spans["tokens"].to_pylist()) == 2 * sum(count for count in tokens if count >= size)


# --- equal windows beside a dict, and marks of windows that come piece by piece

# Few values, whose cells are the same: any two may share one hash, both, or only their cell.
hashes = st.tuples(st.sampled_from([0, 1, 1 << 40, 1 << 63, 2**64 - 1]), st.sampled_from([0, 3, 2**64 - 1]))


def dicts(pairs: list[tuple[int, int]], place: list[int], equal: list[int] | None = None) -> list[tuple[int, int, int]]:
    members: dict[tuple[int, int], list[int]] = {}
    for pair, at in zip(pairs, place, strict=True):
        members.setdefault(pair, []).append(at)
    stands = dict(zip(place, equal or [1] * len(place), strict=True))
    numbers = {of[0]: sum(stands[at] for at in of) for of in members.values()}
    return sorted((at, of[0], numbers[of[0]]) for of in members.values() if numbers[of[0]] > 1 for at in of)


def repeats_of(pairs: list[tuple[int, int]], place: list[int], equal: list[int] | None = None) -> list[tuple[int, ...]]:
    proposed, proven = (np.array([pair[side] for pair in pairs], np.uint64) for side in (0, 1))
    stands = None if equal is None else np.array(equal, np.int64)
    columns = repeats(proposed, proven, np.array(place, np.int64), stands)
    return list(zip(*(column.tolist() for column in columns), strict=True))


# Any windows, ones that represent several, and stretches that repeat many times.
single = st.lists(hashes, max_size=120).map(lambda pairs: (pairs, None))
several = st.lists(st.tuples(hashes, st.integers(1, 3) | st.just(1 << 40)), max_size=120).map(
    lambda given: ([pair for pair, _ in given], [number for _, number in given])
)
stretch = st.tuples(st.integers(0, 39), st.integers(0, 39)).map(lambda cut: [(7 * n, n) for n in range(*cut)])
again = st.lists(stretch, max_size=9).map(lambda parts: (sum(parts, [(7 * n, n) for n in range(40)]), None))


@given(st.one_of(single, several, again), st.integers(0, 1 << 40))
def test_windows_of_equal_hashes_repeat(windows: tuple[list[tuple[int, int]], list[int] | None], start: int) -> None:
    pairs, equal = windows
    place = [start + 2 * number for number in range(len(pairs))]
    assert repeats_of(pairs, place, equal) == dicts(pairs, place, equal)


def test_too_many_windows_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WINDOWS", 3)
    assert repeats_of([(1, 1)] * 2, [0, 1]) == [(0, 0, 2), (1, 0, 2)]
    with pytest.raises(BackendError, match="3 windows may repeat, and 2 can be compared at once"):
        repeats_of([(1, 1)] * 3, [0, 1, 2])


@given(
    st.lists(st.integers(0, 60), unique=True).map(sorted), st.integers(1, 8), st.booleans(), st.booleans(), st.data()
)
def test_marks_depend_on_no_pieces(place: list[int], size: int, stay: bool, mark: bool, data: st.DataObject) -> None:
    several = st.tuples(st.integers(0, 4), st.integers(2, 3))
    windows = [(at, max(at - back, 0), often) for at in place for back, often in [data.draw(several)]]
    columns = np.array(windows, np.int64).reshape(-1, 3).T
    wanted = SpanMarker(size, stay, mark).add(*columns, FAR).tolist()
    cuts = sorted(data.draw(st.lists(st.integers(0, 70), max_size=5)))
    marker, found, low = SpanMarker(size, stay, mark), list[list[int]](), 0
    for until in [*cuts, 100]:
        here = columns[:, slice(*np.searchsorted(columns[0], [low, until]))]
        found[-1:] = marker.add(*here, until).tolist()
        low = until
    assert found == wanted
