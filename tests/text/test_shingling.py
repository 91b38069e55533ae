"""What makes a token and a shingle: golden values of the literature, and each choice through the main job."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh import Folding, Shingling
from gpulsh.cli import main
from gpulsh.method import Method

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
