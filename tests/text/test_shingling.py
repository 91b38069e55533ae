"""The definitions of tokens and shingles: golden values of the literature, and each choice through the main job."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh import Folding, ParameterError, Shingling
from gpulsh.cli import main
from gpulsh.method import Method
from tests.support.files import write_rows

BACKENDS: list[Any] = ["reference", "cpu"]
UNITS: list[Any] = ["word", "char"]
SHORT = ["C++ developer", "C# developer", "C developer", "c++ Developer", "!!!", "🙂", "..."]


def jaccard(one: str, other: str, **shingling: Any) -> float:
    fingerprints = gpulsh.shingle([one, other], shingling=Shingling(**shingling), backend="cpu")
    return float(gpulsh.jaccard(fingerprints, np.array([[0, 1]]), backend="cpu")[0])


def fingerprints(text: str, backend: Any = "cpu", **shingling: Any) -> list[int]:
    found: list[int] = gpulsh.shingle([text], shingling=Shingling(**shingling), backend=backend).values.tolist()
    return found


def test_shingles_equal_examples_of_the_literature() -> None:
    """Broder 1997, *On the resemblance and containment of documents*, and the field's tutorials."""
    assert len(fingerprints("The quick brown fox jumps over the lazy dog")) == 5
    for words in (10_000, 20_000):
        assert len(fingerprints(" ".join(f"w{i}" for i in range(words)))) == words - 4
    one, other = "one two three four five six seven", "seven six five four three two one"
    assert jaccard(one, other, size=1) == 1.0 and jaccard(one, other) == 0.0
    for shingling, count, distinct in (
        ({"size": 4}, 5, 3),  # option B
        ({"size": 4, "labels": True}, 5, 5),  # option A
        ({"unit": "char", "size": 10}, 17, 10),
    ):
        found = fingerprints("a rose is a rose is a rose", **shingling)  # type: ignore[arg-type]
        assert (len(found), len(set(found))) == (count, distinct)


COUNTED = ["a a a b", "a b b b c", "a a a b", "b a a a", ""]
CASED = ["One two", "one two", "ÉTÉ", "été", "One, two"]
STOPPED = ["the a the", "the a the", "a word", "A word", "word the"]
EXACT_CASE = Folding(case=False)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("texts", "shingling", "options", "duplicate_of"),
    [
        *((SHORT, Shingling(unit=unit, size=2), {}, [0, 0, 0, 0, 4, 5, 6]) for unit in UNITS),
        *((SHORT, Shingling(unit=unit, size=2, symbols=True), {}, [0, 1, 2, 0, 4, 5, 6]) for unit in UNITS),
        (COUNTED, Shingling(size=1, labels=True), {"threshold": 0.25, "bands": 64, "rows": 2}, [0, 0, 0, 0, 4]),
        (CASED, Shingling(), {}, [0, 0, 2, 2, 0]),
        (CASED, Shingling(), {"folding": EXACT_CASE}, [0, 1, 2, 3, 0]),
        (CASED, Shingling(symbols=True, size=1), {"folding": EXACT_CASE, "threshold": 0.9}, [0, 1, 2, 3, 4]),
        (STOPPED, Shingling(stop=["the", "a"]), {}, [0, 1, 2, 2, 2]),
    ],
)
def test_the_main_job_takes_each_choice(
    backend: Any, texts: list[str], shingling: Shingling, options: dict[str, Any], duplicate_of: list[int]
) -> None:
    result = gpulsh.deduplicate(texts, shingling=shingling, backend=backend, **options)
    assert result.duplicate_of.tolist() == duplicate_of
    rows = gpulsh.shingle(texts, shingling=shingling, folding=options.get("folding"), backend=backend)
    assert result.funnel.empty == int((np.diff(rows.offset) == 0).sum())
    pairs = np.stack([np.arange(len(texts)), duplicate_of], axis=1)
    exact = np.where(pairs[:, 0] == duplicate_of, 1, gpulsh.jaccard(rows, pairs, backend=backend))
    np.testing.assert_array_equal(result.similarity, exact.astype(np.float32))


def test_labels_count_every_occurrence() -> None:
    """The Jaccard similarity of multisets: the sum of least counts over the sum of greatest."""
    for labels, wanted in ((True, 2 / 7), (False, 2 / 3)):
        assert jaccard(*COUNTED[:2], size=1, labels=labels) == wanted


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


CHOICES: list[dict[str, Any]] = [{"labels": True}, {"hash": "rabin"}, {"stop": ["a"]}]
CHOICES += [{"anchor": "stopwords", "stop": ["a"]}, {"symbols": True}]


def test_sketches_and_index_shingle_as_the_main_job() -> None:
    texts = ["a rose is a rose is a rose", "A rose, is a Rose is a rose!", "", "other a words b c d a", *SHORT]
    for choices in CHOICES:
        given: dict[str, Any] = {"shingling": Shingling(size=1, **choices), "folding": EXACT_CASE, "backend": "cpu"}
        fingerprints = gpulsh.shingle(texts, **given)
        for sketch in (gpulsh.MinHash(), gpulsh.SimHash(), gpulsh.SimHash(weights="idf"), gpulsh.BottomS(size=3)):
            assert sketch.from_texts(texts, **given) == sketch(fingerprints, backend="cpu")
        assert gpulsh.weigh(texts, **given).weight.sum() == len(fingerprints.values)
    index = gpulsh.Index(**given)
    index.insert(list(range(len(SHORT))), SHORT)
    found = index.query(SHORT)
    assert found.positions.tolist() == found.keys.tolist() == list(range(len(SHORT)))


def test_the_command_takes_symbols(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in.jsonl", SHORT)
    assert main(["dedup", source, "-o", f"{tmp_path}/out", "--shingle", "word:5+symbols"]) == 0
    assert len((tmp_path / "out/data/in.jsonl").read_text().splitlines()) == len(SHORT) - 1
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["parameters"]["shingling"] == {"unit": "word", "size": 5, "symbols": True}
    assert "; case is not compared." in (tmp_path / "out/report.html").read_text()


def restore(method: Method) -> Method:
    return Method.from_matching(json.loads(json.dumps(method.matching())))


def test_only_chosen_parameters_are_written() -> None:
    """Earlier files, which hold no other parameters, are still read."""
    assert Shingling().to_json() == '{"size":5,"unit":"word"}' and Folding().to_json() == '{"form":null}'
    assert repr(Shingling(unit="char", size=9)) == "Shingling(unit='char', size=9)"
    plain, method = Method.choose(), Method.choose(shingling=Shingling(symbols=True), folding=EXACT_CASE)
    assert plain.json_fields()["shingling"] == {"unit": "word", "size": 5}
    assert method.folding.to_json() == '{"case":false,"form":null}'
    assert restore(plain) == plain != restore(method) == method and method.digest() != plain.digest()
    assert json.loads(Shingling(stop=["b", "a"]).to_json()) == {"unit": "word", "size": 5, "stop": ["a", "b"]}


@pytest.mark.parametrize("text", ["word:5", "char:64", "word:5+symbols", "word:3+labels", "char:5+symbols+labels"])
def test_parse_and_str_are_inverse(text: str) -> None:
    assert str(Shingling.parse(text)) == text
    more = replace(Shingling.parse(text), hash="rabin")  # which the short form cannot say
    assert str(more) == repr(more)


# --- stop words and stems of languages


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
def test_stop_lists_remove_their_words(language: str) -> None:
    shingling = Shingling(size=1, stop=language)
    assert len(shingling.stop_words) > 50
    assert shingling.stop_words == Shingling(size=1, anchor="stopwords", language=language).stop_words
    assert fingerprints(" ".join(sorted(word for word in shingling.stop_words if word.isalpha())), stop=language) == []


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("backend", BACKENDS)
def test_stems_are_shingled(backend: Any) -> None:
    stemmed = fingerprints("connect run", backend, size=1)
    assert fingerprints("connections Running", backend, size=1) != stemmed
    assert fingerprints("connections Running", backend, size=1, stem="snowball") == stemmed
    assert fingerprints("connected", backend, size=1, stem="porter") == stemmed[:1]
    german = {"stem": "snowball", "language": "de", "size": 1}
    assert fingerprints("Häuser", backend, **german) == fingerprints("Haus", backend, **german)
    both = {"stem": "snowball", "stop": "stopwords", "size": 1}
    assert fingerprints("the connections", backend, **both) == stemmed[:1]


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(
    "choices", [{"stop": ["b", "a"]}, {"anchor": "stopwords", "language": "fr"}, {"stem": "porter"}]
)
def test_restored_parameters_are_equal(choices: dict[str, Any]) -> None:
    method = Method.choose(shingling=Shingling(**choices))
    assert restore(method) == method


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpulsh import words

    monkeypatch.setattr(words.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    words.stop_words.cache_clear()
    with pytest.raises(ParameterError, match=r"needs the package stopwordsiso: pip install .gpulsh\[text\]."):
        words.stop_words("en")
