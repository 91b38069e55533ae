"""`gpulsh.contamination`: items, coverage and spans of bytes, against sets of tuples of tokens."""

import random
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.errors import InputError, ParameterError
from gpulsh.repeats import benchmark
from tests.support import naive
from tests.support.naive_contamination import contamination
from tests.support.texts import SECRETS, every_backend, known, licences, strings
from tests.support.traced import at_most

SHARES = [Fraction(1, 5), Fraction(1, 2), Fraction(4, 5), Fraction(1)]

letters = st.one_of(st.text("ab", max_size=20), st.text("abcd", max_size=40), st.text("a", max_size=12))
some = st.lists(letters.map(" ".join), max_size=6)


def check(texts: list[str], items: list[str], size: int, share: Fraction, most: int | None, **options: Any) -> int:
    """Check the rows of words against the definition; returns their number."""
    table = gpulsh.contamination(texts, items, tokens=size, coverage=float(share), ignore_common=most, **options)
    read = [[naive.tokens(text, options.get("unit", "word")) for text in some] for some in (items, texts)]
    expected = contamination(read[0], read[1], size, share, most)
    rows = table.to_pylist()
    assert [(row["row"], row["item"]) for row in rows] == [(one.row, one.item) for one in expected]
    assert [row["coverage"] for row in rows] == [one.coverage.numerator / one.coverage.denominator for one in expected]
    if options.get("unit", "word") == "word":
        for row, one in zip(rows, expected, strict=True):
            text = texts[one.row].encode()
            before, inside = text[: row["start"]].decode(), text[row["start"] : row["stop"]].decode()
            assert len(naive.tokens(before, "word")) == one.first
            assert naive.tokens(inside, "word") == read[1][one.row][one.first : one.stop]
            assert naive.tokens(inside[0], "word") and naive.tokens(inside[-1], "word")
    return len(rows)


@every_backend
@given(some, some, st.sampled_from([1, 2, 3, 5, 13]), st.sampled_from(SHARES), st.sampled_from([None, 1, 2]))
def test_contamination_follows_the_definition(
    backend: Any, texts: list[str], items: list[str], size: int, share: Fraction, most: int | None
) -> None:
    check(texts, items, size, share, most, backend=backend)


@given(st.lists(strings.map(known), max_size=6), st.data())
def test_contamination_of_all_scripts_follows_the_definition(texts: list[str], data: st.DataObject) -> None:
    whole = st.sampled_from(texts) if texts else st.just("")
    items = data.draw(st.lists(st.one_of(strings.map(known), whole), max_size=5))
    for unit in ("word", "char"):
        check(texts, items, data.draw(st.sampled_from([1, 3, 13])), Fraction(4, 5), None, unit=unit, backend="cpu")


@pytest.mark.parametrize("size", [1, 2, 13, 64])
def test_items_near_the_window_size_are_found(size: int) -> None:
    words = [f"w{number}" for number in range(size + 2)]
    items = [" ".join(words[:count]) for count in range(max(size - 1, 1), size + 3)]
    assert check([*items, " ".join(words[1:])], items, size, Fraction(1), None, backend="cpu") >= len(items)


def test_empty_items_and_texts_cover_nothing() -> None:
    items = ["", None, "...", "one two three four"]
    assert not gpulsh.contamination(["", None, "!", "one two", "three four one two"], items, backend="cpu").num_rows
    for given_ in (([], items), (items, []), ([None], [None])):
        assert gpulsh.contamination(*given_, backend="cpu").schema.names == ["row", "item", "coverage", "start", "stop"]


def test_invalid_bytes_and_nul_separate_tokens() -> None:
    texts = [b"\xff one\xfftwo\0three \xe2\x82 four", b"x one two three four", b"one\xc3two three four"]
    found = gpulsh.contamination(pa.array(texts, pa.binary()), ["one two three four"], tokens=3, backend="cpu")
    assert found["row"].to_pylist() == [0, 1, 2]
    assert [texts[row["row"]][row["start"] : row["stop"]] for row in found.to_pylist()] == [
        b"one\xfftwo\0three \xe2\x82 four",
        b"one two three four",
        b"one\xc3two three four",
    ]


def test_spans_are_in_the_original_text() -> None:
    text, inside = "ﬁrst ﬁne full ② two\u0301 three", "full ② two\u0301"
    for form, item in ((None, inside), ("NFC", "full ② twó"), ("NFKC", "full 2 twó")):
        (row,) = gpulsh.contamination([text], [item], normalize=form, backend="cpu").to_pylist()
        assert text.encode()[row["start"] : row["stop"]].decode() == inside


FORMS = [
    lambda item, text: text[: len(text) // 2] + " " + item + " " + text[len(text) // 2 :],
    lambda item, text: f"{text}\n\n{item}\n\n{text}",
    lambda item, text: f"{text}\n" + re.sub(r"((?:\S+ ){8})", r"\1\n", item) + "\n",  # in lines of 8 words
    lambda item, text: " ".join(f"{text} {item} {text}".split()),
]


def test_300_items_are_found_in_every_form() -> None:
    """Each item has 30 words of real texts, in an order that no text has."""
    source = random.Random(1)
    clean = [text for text in licences() if len(text.split()) >= 40]
    items = [" ".join(source.sample(text.split(), 30)) for text in source.sample(clean, 300)]
    texts = [FORMS[number % len(FORMS)](item, clean[number]) for number, item in enumerate(items)]
    found = gpulsh.contamination([*clean, *texts], items, backend="cpu")
    assert found["row"].to_pylist() == list(range(len(clean), len(clean) + 300))
    assert found["item"].to_pylist() == list(range(300)) and set(found["coverage"].to_pylist()) == {1.0}
    for row in found.to_pylist():
        span = texts[row["row"] - len(clean)].encode()[row["start"] : row["stop"]].decode()
        assert naive.tokens(span, "word") == naive.tokens(items[row["item"]], "word")


def test_contamination_depends_on_no_batch_secret_or_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, items = licences()[:400], [text[:300] for text in licences()[::9]]
    options: dict[str, Any] = {"coverage": 0.1, "tokens": 5, "backend": "cpu"}
    expected = gpulsh.contamination(texts, items, **options)
    assert expected.num_rows > 100
    for secret in SECRETS:
        assert gpulsh.contamination(texts, items, secret=secret, **options).equals(expected)
    small = {"BATCH_BYTES": 5000, "PLACES_AT_ONCE": 7, "HASHES_AT_ONCE": 11, "MIN_BITS": 1, "FLAGS": 0}
    for name, value in small.items():
        monkeypatch.setattr(benchmark, name, value)
    monkeypatch.setattr("gpulsh.repeats.places.SPANS_AT_ONCE", 3)
    monkeypatch.setattr("gpulsh.text.documents.BATCH_BYTES", 3000)
    assert gpulsh.contamination(texts, items, **options).equals(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 0}, "tokens is 0; give an integer from 1 to 64"),
        ({"tokens": 65}, "tokens is 65; give an integer from 1 to 64"),
        ({"coverage": 0}, "coverage is 0.0; give a number above 0 and at most 1"),
        ({"coverage": "all"}, "coverage is 'all'; give a number"),
        ({"ignore_common": 0}, "ignore_common is 0; give an integer from 1 to"),
    ],
)
def test_wrong_parameters_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        gpulsh.contamination(["a"], ["a"], **options)
    assert str(caught.value).startswith(message)


OFFSETS = pa.array([0, 5, 2], pa.int32()).buffers()[1]
DAMAGED = pa.Array.from_buffers(pa.string(), 2, [None, OFFSETS, pa.py_buffer(b"ab cd")])


@pytest.mark.parametrize(
    ("items", "message"),
    [("a", "^benchmark is one str"), (["a", 5], r"^benchmark\[1\] is 5"), (DAMAGED, "^benchmark, .*is damaged")],
)
def test_items_must_be_texts(items: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        gpulsh.contamination(["a"], items)


def test_common_windows_of_many_items_take_little_memory() -> None:
    common = [f"instruction{number}" for number in range(40)]
    items = [" ".join([*common, *(f"item{number}x{word}" for word in range(20))]) for number in range(500)]
    with at_most(100 << 20):  # no text holds an item
        assert gpulsh.contamination([" ".join(common)] * 400, items, backend="cpu", threads=1).num_rows == 0
    texts, items = ["question"] * 700, [f"question {number}" for number in range(700)]
    with at_most(75 << 20):  # here each text holds each item
        found = gpulsh.contamination(texts, items, tokens=1, coverage=0.5, backend="cpu", threads=1)
    assert found.num_rows == 700 * 700


def test_too_many_windows_for_the_memory_are_refused() -> None:
    from gpulsh.backends.select import select_backend
    from gpulsh.params import Shingling
    from tests.support.texts import KEYS, batch_of

    ops, overlap = select_backend("cpu"), benchmark.Overlap(tokens=2)
    batches = [batch_of([b"a b c"]), batch_of([b"d e f"])]
    index = benchmark.index_items(ops, batches, Shingling(), KEYS, overlap, 4 * benchmark.WINDOW_BYTES)
    assert len(index.windows.tokens) == 4 and np.array_equal(index.items.counted, [3, 3])
    with pytest.raises(ParameterError, match="have 4 windows of 2 tokens, which need 512 bytes of memory"):
        benchmark.index_items(ops, batches, Shingling(), KEYS, overlap, 4 * benchmark.WINDOW_BYTES - 1)
