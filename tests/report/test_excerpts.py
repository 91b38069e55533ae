"""Excerpts of two texts: cut around their difference, and only tokens that the method compares are marked."""

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh.backends.reference.texts import code_points
from gpulsh.params import PLAIN, NormalForm, Reading, Shingling, Unit
from gpulsh.report.excerpts import SHOWN, differences, pieces
from gpulsh.report.excerpts import excerpts as cut
from gpulsh.report.page import missing
from gpulsh.run.files import deduplicate_files
from tests.support.files import write_rows
from tests.support.texts import READINGS, shingling_of

CHINESE = "今天天气很好我们一起去公园散步看见许多花开得非常美丽孩子们在草地上奔跑老人坐在长椅上聊天"
ALPHABET = [*"aB é", "İ", "ß", "Σ", "本", "\u30ab", "ไ", "ท", "्", "क", "1", ".", "\n", "\u200b", "…", "\U0001f600"]


def marks(
    texts: list[str], unit: Unit = "word", form: NormalForm | None = None, reading: Reading = PLAIN
) -> list[list[str]]:
    """The marked pieces of each text."""
    found = differences(texts, shingling_of(unit, 5, *reading), form)
    assert ["".join(piece for _, piece in side) for side in found] == texts
    return [[piece for differs, piece in side if differs] for side in found]


def test_of_two_chinese_texts_the_characters_that_differ_are_marked() -> None:
    other = CHINESE.replace("公园", "城里").replace("老人", "他")
    assert marks([CHINESE, other]) == [["公园", "老人"], ["城里", "他"]]
    assert marks([CHINESE, other], "char") == [["公园", "老人"], ["城里", "他"]]


@pytest.mark.skipif(missing() is not None, reason="jinja2 is not installed")
@pytest.mark.parametrize("unit", ["word", "char"])
def test_the_page_marks_them_so(unit: Unit, tmp_path: Path) -> None:
    texts = [CHINESE, CHINESE.replace("园", "路") + "。"]
    write_rows(tmp_path / "a.jsonl", texts)
    shingling = Shingling(unit=unit, size=2)
    deduplicate_files(tmp_path / "a.jsonl", tmp_path / "out", shingling=shingling, backend="reference")
    html = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert re.findall("<mark>(.*?)</mark>", html) == ["路", "园"] * 2  # in the sample of clusters and below it


def test_what_the_method_does_not_compare_is_not_marked() -> None:
    assert marks(["One, two; three!", "ONE two\nThree"]) == [[], []]
    assert marks(["One, two; three!", "ONE two\nThree"], "char") == [[], []]
    assert marks(["one two", "onetwo"], "char") == [[" "], []]
    assert marks(["ﬁne print", "fine print"]) == [["ﬁne"], ["fine"]]
    assert marks(["ﬁne print", "fine print"], form="NFKC") == [[], []]


def test_what_is_compared_besides_is_marked() -> None:
    texts = ["Use C++ now", "use C# now"]
    assert marks(texts) == [[], []]
    assert marks(texts, reading=Reading(symbols=True)) == [["++"], ["#"]]
    assert marks(texts, reading=Reading(case=False)) == [["Use"], ["use"]]


def test_words_are_marked_whole_with_separators_between_them() -> None:
    assert marks(["a red, old car here", "a blue, new car here"]) == [["red, old"], ["blue, new"]]
    assert marks(["a red car", "a rad car"], "char") == [["e"], ["a"]]


def test_what_was_cut_off_is_not_marked() -> None:
    assert marks(["one two three", "one two…"]) == [[], []]
    assert marks(["…one two three five", "…one four three…"]) == [["two"], ["four"]]
    assert marks(["", "anything"]) == [[], []]


@given(st.text(ALPHABET, max_size=12), st.sampled_from(["word", "char"]), st.booleans(), st.sampled_from(READINGS))
def test_pieces_are_the_tokens_of_the_reference(text: str, unit: Unit, composed: bool, reading: Reading) -> None:
    text = unicodedata.normalize("NFC", text) if composed else text
    found = pieces(text, shingling_of(unit, 5, *reading), "NFC" if composed else None)
    assert "".join(piece.text for piece in found) == text
    expected = ["".join(map(chr, token)) for token in code_points(text.encode(), unit, reading)]
    assert [piece.token for piece in found if piece.token is not None] == expected


@given(
    st.sampled_from(["w", "a word ", "x" * 700, "字", "\U0001f600 "]),
    st.sampled_from([0, 1, SHOWN - 1, SHOWN, SHOWN + 1, 40_000]),
)
def test_excerpts_are_short_and_show_the_difference(word: str, size: int) -> None:
    text = (word * (size // len(word) + 1))[:size].strip()
    one, other = cut(text + " this", text + " that")
    assert max(len(one), len(other)) <= SHOWN + 2
    assert one.endswith("this") and other.endswith("that")
    assert cut(text, text)[0] == cut(text, text)[1] == cut(text, "")[0]


def test_the_part_of_a_text_on_one_line_is_that_of_its_lines() -> None:
    words = [f"w{number}" for number in range(300)]
    flat, lines = " ".join(words), " \n  ".join(words)
    for change in (0, 100, 150, 299):
        others = [text.replace(f"w{change}", "other", 1) for text in (flat, lines)]
        (one, two), (three, four) = cut(flat, others[0]), cut(lines, others[1])
        assert [" ".join(three.split()), " ".join(four.split())] == [one, two]
