"""Stop words, stems and anchors, against plain Python on words."""

import json
import re
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh import ParameterError, Shingling
from gpulsh.method import Method
from tests.support import naive
from tests.support.texts import licences

BACKENDS: list[Any] = ["reference", "cpu"]
QUOTE = (
    "Buy Sudzo. A spokesperson for the Sudzo Corporation revealed today that studies have shown it is good for people"
)


def fingerprints(text: str, backend: Any = "cpu", **shingling: Any) -> list[int]:
    found: list[int] = gpulsh.shingle([text], shingling=Shingling(**shingling), backend=backend).values.tolist()
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_listed_words_are_left_out(backend: Any) -> None:
    left = fingerprints("quick Fox over dog", backend, size=2)
    for stop in (["the", "A"], ("A", "the", "the"), {"THE", "a", "the dog"}):
        assert fingerprints("The quick, a Fox over THE dog", backend, size=2, stop=stop) == left
    assert fingerprints("the a", backend, stop=["the", "a"]) == []
    assert fingerprints("the dog", backend, size=1, stop=[]) == fingerprints("the dog", backend, size=1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_documents_of_stop_words_alone_are_empty(backend: Any) -> None:
    texts = ["the a the", "the a the", "a word", "A word", "word the"]
    result = gpulsh.deduplicate(texts, shingling=Shingling(stop=["the", "a"]), backend=backend)
    assert result.duplicate_of.tolist() == [0, 1, 2, 2, 2] and result.funnel.empty == 2


def test_words_of_another_case_are_stop_words_where_case_is_left() -> None:
    folding, stop = gpulsh.Folding(case=False), Shingling(size=1, stop=["the"])
    one, other = (
        gpulsh.shingle([text], shingling=stop, folding=folding, backend="cpu").values.tolist()
        for text in ("The Dog", "Dog")
    )
    assert one == other != fingerprints("Dog", size=1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_anchor_is_a_stop_word_and_the_next_two_words(backend: Any) -> None:
    """The example of Rajaraman and Ullman, section 3.2.4: "A spokesperson for", "for the Sudzo", ..."""
    stop = ["a", "for", "the", "that", "have", "it", "is"]
    words = re.findall(r"\w+", QUOTE.lower())
    items = [tuple(words[i : i + 3]) for i in range(len(words) - 2) if words[i] in stop]
    assert items[:3] == [("a", "spokesperson", "for"), ("for", "the", "sudzo"), ("the", "sudzo", "corporation")]
    hashed = [naive.fingerprint(item) for item in items]
    for size in (1, 2, 20):
        wanted = [naive.hashed(naive.SHINGLE, hashed[i : i + size]) for i in range(max(len(items) - size, 0) + 1)]
        assert fingerprints(QUOTE, backend, size=size, anchor="stopwords", stop=stop) == wanted
    for text in ("no such word", "word for it", "", "for it"):
        found = fingerprints(text, backend, size=1, anchor="stopwords", stop=["for"])
        assert len(found) == 0


def test_real_texts_on_both_backends() -> None:
    texts = licences()[::200]
    for shingling in (
        Shingling(size=2, stop=["the", "of", "and"], labels=True),
        Shingling(size=1, anchor="stopwords", stop=["the", "of", "and"], hash="rabin"),
    ):
        one, other = (gpulsh.shingle(texts, shingling=shingling, backend=backend) for backend in BACKENDS)
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.offset, other.offset)
        assert len(one.values) > 600


@pytest.fixture
def packages() -> None:
    pytest.importorskip("stopwordsiso", reason="the extra text is not installed")
    pytest.importorskip("snowballstemmer", reason="the extra text is not installed")


LISTED = [
    *("ar", "bg", "cs", "da", "de", "el", "en", "es", "fi", "fr", "hu", "id"),
    *("it", "nl", "no", "pl", "pt", "ro", "ru", "sv", "tr", "uk", "vi"),
]


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("language", LISTED)
def test_stop_lists(language: str) -> None:
    shingling = Shingling(size=1, stop=language)
    assert len(shingling.stop_words) > 50
    assert shingling.stop_words == Shingling(size=1, anchor="stopwords", language=language).stop_words
    assert fingerprints(" ".join(sorted(word for word in shingling.stop_words if word.isalpha())), stop=language) == []


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("backend", BACKENDS)
def test_stems(backend: Any) -> None:
    stemmed = fingerprints("connect run", backend, size=1)
    assert fingerprints("connections Running", backend, size=1) != stemmed
    assert fingerprints("connections Running", backend, size=1, stem="snowball") == stemmed
    assert fingerprints("connected", backend, size=1, stem="porter") == stemmed[:1]
    german = {"stem": "snowball", "language": "de", "size": 1}
    assert fingerprints("Häuser", backend, **german) == fingerprints("Haus", backend, **german)
    both = {"stem": "snowball", "stop": "stopwords", "size": 1}
    assert fingerprints("the connections", backend, **both) == stemmed[:1]


@pytest.mark.usefixtures("packages")
def test_what_decides_is_told_and_read_again() -> None:
    for shingling in (
        Shingling(stop=["b", "a"]),
        Shingling(anchor="stopwords", language="fr"),
        Shingling(stem="porter"),
    ):
        method = Method.chosen(shingling=shingling)
        assert Method.restored(json.loads(json.dumps(method.matching()))) == method
    assert json.loads(Shingling(stop=["b", "a"]).to_json()) == {"unit": "word", "size": 5, "stop": ["a", "b"]}


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpulsh import words

    monkeypatch.setattr(words.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    words.stop_words.cache_clear()
    with pytest.raises(
        ParameterError, match=r"stop list of 'en' needs the package stopwordsiso: pip install .gpulsh\[text\]."
    ):
        words.stop_words("en")
