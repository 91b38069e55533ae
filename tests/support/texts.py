"""Texts for tests: real ones, ones of many scripts, and ones that are awkward in every way."""

import re
import sysconfig
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise, product, starmap
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from gpulsh.arrays import TextBatch
from gpulsh.params import Folding, Reading, Shingling, Unit
from gpulsh.secret import evidence_keys

SECRET = bytes(range(32))
SECRETS = [bytes([number]) * 32 for number in range(5)]
KEYS = evidence_keys(SECRET)

WORDS = [
    *("a", "B", "The", "zebra", "x1", "42", "the"),
    *("é", "Éclair", "straße", "STRASSE", "ẞ", "İstanbul", "ıstanbul", "ſ", "K", "ﬁ", "Ω", "ς", "Σ"),
    *("слово", "Слово", "λόγος", "ΛΌΓΟΣ", "שלום", "كلمة", "한국어", "Ꮳ", "Ა", "ა"),
    *("हिन्दी", "संस्कृत", "தமிழ்", "e\u0301", "\u0301", "a\u200db", "क्‍ष"),
    *("漢字", "仮名", "カタカナ", "カー", "ひらがな", "〇", "々", "ｶﾅ", "ไทย", "ลາว", "ខ្មែរ", "မြန်မာ", "\U00020000"),
    *("²", "Ⅷ", "①", "½", "٣", "𝟘", "𝒜"),
]
SEPARATORS = [
    *(" ", "  ", "\n", "\t", "\0", "-", ", ", "...", "🙂", "👍🏽"),
    *("👨‍👩‍👧", "\u00a0", "\u3000", "\u200b", "\ufeff", "'", "_"),
]
SYMBOLS = ["C++", "#$", "Ⓐ", "\ufffd", "_Ab"]
NOT_UTF8 = [
    *(b"\xff", b"\x80", b"\xc0\xaf", b"\xc1", b"\xe2\x82", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xed\xb0\x80"),
    *(b"\xf0\x9f\x99", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5"),
    *(b"\xe6\xbc", b"\xc3", b"a\xcc", b"\xf0\x9d\x92"),
]

pieces = st.sampled_from([*WORDS, *SEPARATORS, *SYMBOLS])
strings = st.one_of(
    st.text(max_size=40),
    st.lists(pieces, max_size=40).map("".join),
    st.lists(st.sampled_from(["a", "b", "Aa", "word", "ab12"]), max_size=90).map(" ".join),
)


@st.composite
def long_tokens(draw: st.DrawFn) -> str:
    """A text whose tokens have every length near a change of the code path, at any place of a block of bytes."""
    lengths = st.sampled_from([1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 71, 72, 73, 127, 128, 129, 1000])
    letters = st.sampled_from(["a", "Z", "é", "स", "1"])
    parts = draw(
        st.lists(st.tuples(st.integers(0, 70), letters, lengths, st.sampled_from(["", "é", "漢"])), max_size=6)
    )
    return "".join(" " * gap + letter * length + tail for gap, letter, length, tail in parts)


@st.composite
def counted_tokens(draw: st.DrawFn) -> str:
    """A text whose number of shingles is near a power of two."""
    count = draw(st.sampled_from([1, 2, 4, 5, 31, 32, 33, 35, 36, 37, 255, 256, 257, 259, 260, 261, 700]))
    words = draw(st.sampled_from([["a"], ["a", "b"], ["one", "two", "three"], WORDS]))
    return " ".join(words[i % len(words)] + ("" if len(words) < 3 else str(i // 7)) for i in range(count))


raw_documents = st.one_of(
    strings.map(lambda text: text.encode("utf-8", "surrogatepass")),
    long_tokens().map(str.encode),
    counted_tokens().map(str.encode),
    st.binary(max_size=150),
    st.lists(
        st.one_of(st.sampled_from(NOT_UTF8), pieces.map(str.encode), st.sampled_from([b"a", b"b" * 20, b" " * 30])),
        max_size=30,
    ).map(b"".join),
    st.sampled_from([b"", b" ", b"x", b"..."]),
)


def shingling_of(unit: Unit, size: int, symbols: bool, case: bool, **choices: Any) -> Shingling:
    """The shingling in the form that backends take."""
    return Shingling(unit=unit, size=size, symbols=symbols, **choices).with_folding(Folding(case=case))


def shinglings_of(
    sizes: st.SearchStrategy[int], choices: st.SearchStrategy[dict[str, Any]] | None = None
) -> st.SearchStrategy[Shingling]:
    """Shinglings of each unit, reading and choice; half of them are the default."""
    plain = st.just((False, True))
    readings = st.one_of(plain, st.tuples(st.booleans(), st.booleans()))
    return st.builds(
        lambda unit, size, reading, choices: shingling_of(unit, size, *reading, **choices),
        *(st.sampled_from(UNITS), sizes, readings, st.just({}) if choices is None else choices),
    )


CHOICES: dict[Any, Any] = {"labels": st.booleans(), "hash": st.sampled_from(["mix64", "rabin", "karp_rabin"])}
UNITS: tuple[Unit, Unit] = ("word", "char")
every_backend = pytest.mark.parametrize("backend", ["reference", "cpu"])
READINGS = list(starmap(Reading, product((False, True), repeat=2)))
ALL_READINGS = [shingling_of(unit, 2, *reading) for unit in UNITS for reading in READINGS]
any_size = st.one_of(st.sampled_from([1, 2, 3, 5, 9, 63, 64]), st.integers(1, 64))
shinglings = shinglings_of(any_size)
WORD_CHOICES: dict[Any, st.SearchStrategy[Any]] = {**CHOICES, "anchor": st.sampled_from([None, "stopwords"])}
STOP = {"stop": st.sampled_from([["the", "A", "слово", "don't", "\ud800"], ["+", "42", "漢", "b"], []])}
word_shinglings = st.builds(
    lambda size, reading, choices: shingling_of("word", size, *reading, **choices),
    *(st.integers(1, 4), st.tuples(st.booleans(), st.booleans()), st.fixed_dictionaries(STOP, optional=WORD_CHOICES)),
)
any_choices = st.one_of(st.just({}), st.fixed_dictionaries({}, optional=CHOICES))
all_shinglings = shinglings_of(any_size, any_choices)
any_shingling = st.one_of(all_shinglings, word_shinglings)


def batch_of(documents: Sequence[bytes], before: bytes = b"", after: bytes = b"") -> TextBatch:
    """Documents end to end, between bytes that belong to none."""
    values = np.frombuffer(before + b"".join(documents) + after, np.uint8)
    return TextBatch(values, len(before) + np.cumsum([0, *map(len, documents)], dtype=np.int64))


def documents_of(batch: TextBatch) -> list[bytes]:
    return [batch.values[start:stop].tobytes() for start, stop in pairwise(batch.offset.tolist())]


@st.composite
def batches(draw: st.DrawFn) -> TextBatch:
    """Views of batches: their neighbours are letters, halves of characters or nothing, which must not leak in."""
    edges = st.sampled_from([b"", b"zz", "é".encode()[:1], b"\x80\x80\x80", b"q" * 200])
    documents = draw(st.lists(raw_documents, max_size=8))
    return batch_of(documents, draw(edges), draw(edges))


def known(text: str) -> str:
    """`text` without characters that this Python's Unicode, perhaps older than the library's, does not assign."""
    return "".join(c for c in text if unicodedata.category(c) not in ("Cn", "Cs"))


# Letters with and without case, marks, numbers, scripts written without spaces, separators of every length in bytes.
LETTERS = "abZ7éßЖİǅµªاनि्म한一ぁカกລကក̈１𐀀𐐀𝟘𠀀힣ﬁﾊ"
SEPARATING = " \n-_.\0\x7f\xa0\u200b\u2028\u3000\ufffd\ufeff\ue000😀\U0001f1e6\U000e0001\U0010fffd"
# Truncated after each byte, overlong, surrogates, beyond U+10FFFF, continuations and bytes that are never UTF-8.
INVALID = [
    *(b"\x80", b"\xbf", b"\xc0\x80", b"\xc0\xaf", b"\xc1\xa1", b"\xc1\xbf", b"\xc2", b"\xdf", b"\xc3\x28", b"\xc3\xc3"),
    *(b"\xe0\x80\x80", b"\xe0\x81\xa1", b"\xe0\x9f\xbf", b"\xe0\xa4", b"\xe4\xb8", b"\xe4", b"\xe4\xb8\x61"),
    *(b"\xe4\x61", b"\xed\xa0\x80", b"\xed\xad\xbf", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80", b"\xf0\x80\x81\xa1"),
    *(b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x90", b"\xf0\x90", b"\xf0", b"\xf0\xa0\x80\x61", b"\xf4\x90\x80\x80"),
    *(b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xf8\x90\x80\x80", b"\xfc", b"\xfe", b"\xff", b"\x80" * 5),
]
AWKWARD = [*(c.encode() for c in LETTERS + SEPARATING), *INVALID]

awkward_pieces = st.tuples(st.sampled_from(AWKWARD), st.sampled_from([1, 1, 1, 1, 2, 3, 33])).map(lambda p: p[0] * p[1])
awkward_documents = st.lists(st.lists(awkward_pieces, max_size=40).map(b"".join), max_size=12)

# Views of batches of either kind of documents.
any_text = st.one_of(
    batches(),
    st.builds(batch_of, awkward_documents, st.sampled_from([b"", b"a", b"\xe4\xb8", b"one two "]), st.just(b"\x80a")),
)


@cache
def licences() -> list[str]:
    """Some thousand real licence texts and notices from `licensedcode-data`; many are near-duplicates."""
    data = Path(sysconfig.get_path("purelib")) / "licensedcode" / "data"
    files = sorted((data / "licenses").glob("[a-c]*.LICENSE"))
    # Whole families, because near-duplicates have similar names.
    for family in ("apache", "artistic", "bsd", "gfdl", "mit", "mpl"):
        files += sorted((data / "rules").glob(f"{family}*.RULE"))[:450]
    texts = []
    for file in files:
        _, _, text = re.split(r"^---\s*$", file.read_text("utf-8") + "\n", maxsplit=2, flags=re.MULTILINE)
        texts.append(text.strip())
    return [text for text in texts if known("".join(set(text))) == "".join(set(text))]


@cache
def pages(count: int, length: int, ordered: bool = True) -> list[str]:
    """Pages of 45 of the same 60 sentences, in their order or any; every fifth is like an earlier one."""
    source, words = Random(count), [f"word{number}" for number in range(400)]
    sentences = [" ".join(source.choices(words, k=length)) for _ in range(60)]
    found: list[list[int]] = []
    for number in range(count):
        page = source.sample(range(60), 45)
        if number % 5 == 4:
            page = found[source.randrange(number)].copy()
            for _ in range(source.randrange(1, 8)):
                page[source.randrange(45)] = source.randrange(60)
        found.append(sorted(page) if ordered else page)
    return [" ".join(sentences[sentence] for sentence in page) for page in found]
