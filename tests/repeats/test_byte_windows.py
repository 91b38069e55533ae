"""Windows of bytes, beside a naive search, in memory and in files."""

import codecs
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.arrays import TextBatch
from gpulsh.repeats import places, windows
from gpulsh.repeats.places import whole_characters
from gpulsh.run.passages import documents, find
from tests.run.test_passages_files import SPANS, cut_small, find_passages
from tests.support import naive_passages
from tests.support.files import write_rows
from tests.support.texts import licences

PIECES = st.sampled_from(["a", "ab", "é", "ã", "語", "日本", "木", "旧", "😀", "x日本語", " ", "e\u0301", "\0"])
TEXTS = st.lists(st.one_of(st.none(), st.lists(PIECES, max_size=12).map("".join)), max_size=5)


def characters(document: bytes) -> list[int]:
    """The offsets where characters begin, and the end."""
    bad: dict[int, int] = {}

    def replace(error: Any) -> tuple[str, int]:
        bad[error.start] = error.end - error.start
        return "\ufffd", error.end

    codecs.register_error("gpulsh-test", replace)
    places = [0]
    for character in document.decode("utf-8", "gpulsh-test"):
        places.append(places[-1] + bad.get(places[-1], len(character.encode())))
    return places


def marked(texts: Sequence[bytes], size: int, keep: str) -> list[tuple[int, int, int]]:
    """The row, start and stop of each marked stretch of whole characters."""
    stretches = []
    for row, (text, marks) in enumerate(zip(texts, naive_passages.marked(texts, size, keep), strict=True)):
        flags = np.diff([False, *marks, False], prepend=0)
        begins, ends = np.flatnonzero(flags > 0) - 1, np.flatnonzero(flags < 0) - 1
        cuts = characters(text)
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            start, stop = min(c for c in cuts if c >= begin), max(c for c in cuts if c <= end)
            stretches += [(row, start, stop)] if start < stop else []
    return stretches


def stretches(table: Any) -> list[tuple[int, int, int]]:
    """The same from a table of spans; adjoining spans are joined."""
    merged: list[tuple[int, int, int]] = []
    for one in table.to_pylist():
        row, start, stop = one["row"], one["start"], one["stop"]
        if merged and merged[-1][0] == row and merged[-1][2] == start:
            merged[-1] = row, merged[-1][1], stop
        else:
            merged.append((row, start, stop))
    return merged


@given(TEXTS, st.sampled_from([1, 2, 3, 5, 9]), st.sampled_from(["first", "minimal", "none"]))
def test_marked_bytes_equal_a_naive_search(texts: list[str | None], size: int, keep: Any) -> None:
    wanted = marked([(text or "").encode() for text in texts], size, keep)
    for backend in ("cpu", "reference"):
        table = gpulsh.passages(texts, bytes=size, keep=keep, backend=backend)  # type: ignore[arg-type]
        assert stretches(table) == wanted
        assert_evidence([(text or "").encode() for text in texts], table)


def assert_evidence(texts: Sequence[bytes], table: Any) -> None:
    """`tokens` counts the bytes of a span, which equal those of its first occurrence."""
    for one in table.to_pylist():
        span = texts[one["row"]][one["start"] : one["stop"]]
        assert len(span) == one["tokens"]
        if one["first_row"] is None:
            assert len(span.decode()) == 1 and one["first_start"] is None
        else:
            assert texts[one["first_row"]][one["first_start"] :].startswith(span)


def test_a_character_in_two_windows_is_in_one_span() -> None:
    texts = ["日日本", "木語"]  # e6 97 a5 e6 97 a5 e6 9c ac, e6 9c a8 ...: "a5 e6" of the second "日" is of two windows
    spans = [tuple(one.values()) for one in gpulsh.passages(texts, bytes=2, keep="none", backend="cpu").to_pylist()]
    assert spans == [(0, 0, 3, 0, 0, 3, 2), (0, 3, 6, None, None, 3, 2)]


@given(st.lists(st.sampled_from("日木本旧a"), min_size=20, max_size=60).map("".join), st.sampled_from([1, 2, 4]))
def test_spans_of_pieces_do_not_overlap(tmp_path_factory: pytest.TempPathFactory, text: str, size: int) -> None:
    """Spans of a document of more than two million bytes overlapped."""
    folder = tmp_path_factory.mktemp("parts")
    path = write_rows(folder / "a.jsonl", [text])
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in [(windows, "PIECE", 8), (find, "GIANT_BYTES", 20), (documents, "PLACES_AT_ONCE", 7)]:
            patch.setattr(module, name, value)
        table = find_passages(path, folder / "out", bytes=size, tokens=50, keep="none")
    assert table.select(SPANS).equals(gpulsh.passages([text], bytes=size, keep="none", backend="cpu").select(SPANS))


@given(st.lists(st.one_of(st.binary(max_size=9), PIECES.map(str.encode)), max_size=6).map(b"".join))
def test_span_bounds_move_to_whole_characters(document: bytes) -> None:
    bounds = np.stack([np.arange(len(document) + 1)] * 2, axis=1)
    batch = TextBatch(np.frombuffer(b"\xe2" + document, np.uint8), np.array([0, 1, 1 + len(document)]))
    moved = whole_characters(batch, np.ones(len(bounds), np.int64), bounds)
    cuts = characters(document)
    assert moved[:, 0].tolist() == [min(cut for cut in cuts if cut >= place) for place in bounds[:, 0].tolist()]
    assert moved[:, 1].tolist() == [max(cut for cut in cuts if cut <= place) for place in bounds[:, 1].tolist()]


@pytest.mark.parametrize(("long", "options"), [(True, {}), (False, {}), (False, {"keep": "minimal", "bridge": 9})])
def test_files_in_pieces_equal_a_run_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: bool, options: dict[str, Any]
) -> None:
    """A long document is spelled in parts, because a spelled text takes three times its bytes."""
    texts, size, of_a_file = [*licences()[:18], None, "語" * 300, "x" + "語" * 200], 120, 10
    if long:
        texts, size, of_a_file = ["語" * 100, "a" * 2000 + "語" * 100 + "ab" * 500, "b" * 90], 30, 1
    wanted = gpulsh.passages(texts, bytes=size, backend="cpu", threads=1, **options)
    sizes, spell = [], places.spell_bytes
    for module in (find, places):
        monkeypatch.setattr(module, "spell_bytes", lambda text: sizes.append(int(text.lengths.sum())) or spell(text))
    bounds = [(find, "RUN_SAMPLES", 100), (find, "RUN_WINDOWS", 300), (documents, "PLACES_AT_ONCE", 3000)]
    for module, name, value in [*bounds, (find, "GIANT_BYTES", 1000), (windows, "PIECE", 200)]:
        monkeypatch.setattr(module, name, value)
    cut_small(monkeypatch, 1000, 3000)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(0, len(texts), of_a_file):
        write_rows(folder / f"{number:02}.jsonl", texts[number : number + of_a_file])
    table = find_passages(folder, tmp_path / "out", bytes=size, tokens=50, **options)
    names = ["start", "stop", "first_start", "tokens", "occurrences"]
    assert table.select(names).equals(wanted.select(names)) and table.num_rows > (5 if long else 20)
    assert max(sizes) <= 300 or not long


def test_a_cut_of_byte_windows_leaves_whole_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    shared = "ein gemeinsamer, längerer Satz über Straßen"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in (f"Eins: {shared}", f"Zwei! {shared} Ende.")))
    result = gpulsh.passages_files(path, tmp_path / "out", bytes=20, cut=True, min_left=1, backend="cpu", threads=1)
    left = [json.loads(line)["text"] for line in (result.data / "a.jsonl").open()]
    assert left == [f"Eins: {shared}", "Zwei! Ende."]  # one of the two blanks is of the repeat
    assert result.report["parameters"]["bytes"] == 20 and "tokens" not in result.report["parameters"]
