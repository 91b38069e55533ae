"""What makes a token and a shingle: golden values of the literature, and each choice through the main job."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh import Folding, ParameterError, Shingling
from gpulsh.cli import main
from gpulsh.method import Method
from tests.support import naive

BACKENDS: list[Any] = ["reference", "cpu"]
SHORT = ["C++ developer", "C# developer", "C developer", "c++ Developer", "!!!", "🙂", "..."]


def jaccard(one: str, other: str, **shingling: Any) -> float:
    fingerprints = gpulsh.shingle([one, other], shingling=Shingling(**shingling), backend="cpu")
    return float(gpulsh.jaccard(fingerprints, np.array([[0, 1]]), backend="cpu")[0])


def count(text: str, **shingling: Any) -> int:
    return int(gpulsh.shingle([text], shingling=Shingling(**shingling), backend="cpu").offset[-1])


def distinct(text: str, **shingling: Any) -> int:
    return len({*gpulsh.shingle([text], shingling=Shingling(**shingling), backend="cpu").values.tolist()})


def test_golden_values_of_the_literature() -> None:
    """Broder 1997, *On the resemblance and containment of documents*, and the field's tutorials."""
    assert count("The quick brown fox jumps over the lazy dog") == 5
    for words in (10_000, 20_000):
        assert count(" ".join(f"w{i}" for i in range(words))) == words - 4
    one, other = "one two three four five six seven", "seven six five four three two one"
    assert jaccard(one, other, size=1) == 1.0 and jaccard(one, other) == 0.0
    rose = "a rose is a rose is a rose"
    assert (count(rose, size=4), distinct(rose, size=4)) == (5, 3)  # option B
    assert (count(rose, size=4, labels=True), distinct(rose, size=4, labels=True)) == (5, 5)  # option A
    assert (count(rose, unit="char", size=10), distinct(rose, unit="char", size=10)) == (17, 10)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("unit", ["word", "char"])
def test_symbols_tell_short_names_apart(backend: Any, unit: Any) -> None:
    result = gpulsh.deduplicate(SHORT, shingling=Shingling(unit=unit, size=2), backend=backend)
    assert result.duplicate_of.tolist() == [0, 0, 0, 0, 4, 5, 6] and result.funnel.empty == 3
    shingling = Shingling(unit=unit, size=2, symbols=True)
    result = gpulsh.deduplicate(SHORT, shingling=shingling, backend=backend)
    assert result.duplicate_of.tolist() == [0, 1, 2, 0, 4, 5, 6] and result.funnel.empty == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_labels_count_every_occurrence(backend: Any) -> None:
    """The Jaccard similarity of multisets: the sum of least counts by that of greatest."""
    texts = ["a a a b", "a b b b c", "a a a b", "b a a a", ""]
    shingling = Shingling(size=1, labels=True)
    fingerprints = gpulsh.shingle(texts, shingling=shingling, backend=backend)
    pairs = np.array([[0, 1], [0, 2], [0, 3], [0, 4]])
    assert gpulsh.jaccard(fingerprints, pairs, backend=backend).tolist() == [2 / 7, 1.0, 1.0, 0.0]
    result = gpulsh.deduplicate(texts, shingling=shingling, threshold=0.25, bands=64, rows=2, backend=backend)
    assert result.duplicate_of.tolist() == [0, 0, 0, 0, 4]
    np.testing.assert_array_equal(result.similarity, np.float32([1, 2 / 7, 1, 1, 1]))
    plain = gpulsh.deduplicate(texts, shingling=Shingling(size=1), threshold=0.25, backend=backend)
    np.testing.assert_array_equal(plain.similarity, np.float32([1, 2 / 3, 1, 1, 1]))


@pytest.mark.parametrize("hashed", ["rabin", "karp_rabin"])
def test_another_hash_finds_the_same_duplicates(hashed: Any) -> None:
    texts = [text for i in range(40) for text in (f"a text of {i} words or more, all its own {i * i}",) * (1 + i % 3)]
    texts += [text.replace("more", "less") for text in texts[::4]]
    wanted = gpulsh.deduplicate(texts, threshold=0.4, shingling=Shingling(size=2), backend="cpu")
    found = gpulsh.deduplicate(texts, threshold=0.4, shingling=Shingling(size=2, hash=hashed), backend="cpu")
    assert found.duplicate_of.tolist() == wanted.duplicate_of.tolist()
    np.testing.assert_array_equal(found.similarity, wanted.similarity)
    other = gpulsh.shingle(texts, shingling=Shingling(hash=hashed), backend="cpu").values
    assert not np.isin(other, gpulsh.shingle(texts, backend="cpu").values).any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_case_is_left(backend: Any) -> None:
    texts = ["One two", "one two", "ÉTÉ", "été", "One, two"]
    assert gpulsh.deduplicate(texts, backend=backend).duplicate_of.tolist() == [0, 0, 2, 2, 0]
    left = gpulsh.deduplicate(texts, folding=Folding(case=False), backend=backend)
    assert left.duplicate_of.tolist() == [0, 1, 2, 3, 0]
    both = gpulsh.deduplicate(
        texts, folding=Folding(case=False), shingling=Shingling(symbols=True, size=1), threshold=0.9, backend=backend
    )
    assert both.keep.all()


def test_the_sketch_and_the_index_read_as_the_job_does() -> None:
    given: dict[str, Any] = {"shingling": Shingling(symbols=True), "folding": Folding(case=False)}
    signatures = gpulsh.MinHash().from_texts(SHORT, **given, backend="cpu")
    whole = gpulsh.MinHash()(gpulsh.shingle(SHORT, **given, backend="cpu"), backend="cpu")
    np.testing.assert_array_equal(signatures, whole)
    index = gpulsh.Index(**given, backend="cpu")
    index.insert(list(range(len(SHORT))), SHORT)
    found = index.query(SHORT)
    assert found.positions.tolist() == found.keys.tolist() == list(range(len(SHORT)))


@pytest.mark.parametrize(
    "choices",
    [{"symbols": True}, {"labels": True}, {"hash": "rabin"}, {"stop": ["a"]}, {"anchor": "stopwords", "stop": ["a"]}],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_sketch_of_texts_is_that_of_their_fingerprints(backend: Any, choices: Any) -> None:
    texts = ["a rose is a rose is a rose", "A rose, is a Rose is a rose!", "", "other a words b c d a", *SHORT]
    given: dict[str, Any] = {
        "shingling": Shingling(size=1, **choices),
        "folding": Folding(case=False),
        "backend": backend,
    }
    fingerprints = gpulsh.shingle(texts, **given)
    for sketch in (gpulsh.MinHash(), gpulsh.SimHash(), gpulsh.SimHash(weights="count"), gpulsh.SimHash(weights="idf")):
        found = sketch.from_texts(texts, **given)
        if sketch != gpulsh.SimHash(weights="idf"):
            np.testing.assert_array_equal(found, sketch(fingerprints, backend=backend))
        np.testing.assert_array_equal(found, sketch.from_texts(texts, **{**given, "backend": "reference"}))
    samples, wanted = (
        gpulsh.BottomS(size=3).from_texts(texts, **given),
        gpulsh.BottomS(size=3)(fingerprints, backend=backend),
    )
    np.testing.assert_array_equal(samples.values, wanted.values)
    weighed = gpulsh.weigh(texts, **given)
    assert weighed.weight.sum() == len(fingerprints.values)


def test_the_command(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in SHORT))
    assert main(["dedup", str(source), "-o", f"{tmp_path}/out", "--shingle", "word:5+symbols"]) == 0
    assert len((tmp_path / "out/data/in.jsonl").read_text().splitlines()) == len(SHORT) - 1
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["parameters"]["shingling"] == {"unit": "word", "size": 5, "symbols": True}
    assert "; case is not compared." in (tmp_path / "out/report.html").read_text()


def test_what_is_not_asked_for_is_told_nowhere() -> None:
    """Files of before are read, and those of now are theirs."""
    assert Shingling().to_json() == '{"size":5,"unit":"word"}' and Folding().to_json() == '{"form":null}'
    assert repr(Shingling(unit="char", size=9)) == "Shingling(unit='char', size=9)"
    method = Method.chosen()
    assert method.facts()["shingling"] == {"unit": "word", "size": 5}
    assert Method.restored(json.loads(json.dumps(method.matching()))) == method


def test_what_is_asked_for_is_told() -> None:
    method = Method.chosen(shingling=Shingling(symbols=True), folding=Folding(case=False))
    assert method.folding.to_json() == '{"case":false,"form":null}'
    assert Method.restored(json.loads(json.dumps(method.matching()))) == method
    assert method.digest() != Method.chosen().digest()


@pytest.mark.parametrize("text", ["word:5", "char:64", "word:5+symbols", "word:3+labels", "char:5+symbols+labels"])
def test_the_form_of_the_command_line(text: str) -> None:
    assert str(Shingling.parse(text)) == text


# --- stop words, stems and anchors, against plain Python on words

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
