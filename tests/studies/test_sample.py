"""The kind of texts, pairs of them by similarity, and hints for a run that misses pairs or compares too many."""

import json
import logging
from dataclasses import replace
from itertools import pairwise
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.backends.select import select_backend
from gpulsh.errors import ParameterError
from gpulsh.method import Method
from gpulsh.stats.hints import hints
from gpulsh.stats.stages import Funnel
from gpulsh.studies import study
from gpulsh.studies.sample import Kind, Resemblance, similarity_after_change
from gpulsh.studies.study import draw_sample, draw_similar
from gpulsh.text.documents import shingle
from tests.studies.test_studies import NAIVE, SHINGLING, TEXTS, naive_similarity
from tests.support.command import Command
from tests.support.files import write_rows
from tests.support.traced import at_most

OPTIONS: dict[str, Any] = {"shingling": SHINGLING, "backend": "cpu"}
CODE = "def add(a, b):\n    return {'sum': a + b, **kwargs}[key] if not (a < b) else f(a)[0]\n" * 9


def test_the_kind_of_text_decides_the_shingles() -> None:
    for text, name in (
        ("the words of a page, one after the other; " * 12, "word:5"),
        ("thirty words of a message " * 6, "word:3"),
        ("some twenty words of a short message that says what it has to say and then says so once more", "word:2"),
        ("A short title", "char:4+symbols"),
        (CODE, "word:5+symbols"),
        ("北京大学的学生们今天在图书馆里面看书" * 4, "word:5"),
        ("北京大学", "char:4+symbols"),
        ("", "word:5"),
    ):
        kind = Kind.of(draw_sample([text] * 3, 9, 1).texts, select_backend("cpu"))
        assert str(kind.shingling) == name
        assert text or (kind, kind.why) == (Kind(0, 0, 0.0, 0.0, 0.0), "no document has a word")
    kind = Kind.of(draw_sample(["two words!", "一二三四", "..."], 9, 1).texts, select_backend("cpu"))
    assert kind == Kind(documents=3, tokens=3, brief=1.0, single=4 / 12, signs=4 / 16)


@given(st.integers(5, 60), st.integers(1, 5))
def test_one_changed_equals_the_jaccard_of_sets(tokens: int, size: int) -> None:
    one, other = list(range(tokens)), list(range(tokens))
    other[tokens // 2] = -1
    sets = [{tuple(row[at : at + size]) for at in range(tokens - size + 1)} for row in (one, other)]
    left = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
    assert similarity_after_change(tokens, size) == pytest.approx(left) or tokens < 2 * size


def test_pairs_of_a_whole_corpus_equal_those_of_sets() -> None:
    found = gpulsh.sample(TEXTS, thresholds=[0.7, 0.5], examples=3, **OPTIONS)
    shingled = [place for place, text in enumerate(TEXTS) if text and text != "..."]
    assert (found.documents, found.sample) == (len(TEXTS), len(shingled))
    most = {i: max(s for pair, s in NAIVE.items() if i in pair) for i in shingled}
    assert [row.threshold for row in found.thresholds] == [0.5, 0.7]
    for row in found.thresholds:
        assert row.pairs == sum(s >= row.threshold for s in NAIVE.values())
        assert row.resembling == pytest.approx(sum(s >= row.threshold for s in most.values()))
        assert row.near == pytest.approx(sum(round(abs(s - row.threshold), 9) <= 0.05 for s in most.values()))
        seen = [position for pair in row.examples for position in pair.positions]
        assert len(set(seen)) == len(seen)
        for pair in row.examples:
            assert pair.similarity == pytest.approx(NAIVE[pair.positions])
            assert pair.texts == tuple(TEXTS[position] for position in pair.positions)
        above = [pair.similarity >= row.threshold for pair in row.examples]
        assert above == sorted(above, reverse=True) and 1 <= sum(above) <= 3 and 1 <= above.count(False) <= 3


@pytest.mark.parametrize("cells", [150, 1 << 22])
def test_examples_are_the_nearest_pairs_without_a_document_twice(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one document has all pairs that are nearest."""
    monkeypatch.setattr(study, "CELLS", cells)
    star = [" ".join(["the", "same", *"abcdefgh"]), *(" ".join(["the", "same", *"abcdefg", str(n)]) for n in range(30))]
    for texts, seed in ((TEXTS, 1), (star, 1), (star * 2, 2)):
        naive = naive_similarity(texts)
        found = gpulsh.sample(texts, thresholds=[0.7, 0.5, 0.9], examples=2, seed=seed, **OPTIONS)
        for row in found.thresholds:
            wanted: list[tuple[int, int]] = []
            for is_above in (True, False):
                side = [pair for pair, s in naive.items() if (s >= row.threshold) == is_above and s >= 0.45 - 1e-9]
                chosen: list[tuple[int, int]] = []
                for pair in sorted(side, key=lambda pair: (abs(naive[pair] - row.threshold), pair)):
                    if len(chosen) < 2 and not {*pair} & {number for other in wanted + chosen for number in other}:
                        chosen.append(pair)
                wanted += chosen
            assert [pair.positions for pair in row.examples] == sorted(wanted, key=lambda pair: -naive[pair])


def test_a_sample_of_similar_documents_does_not_hold_their_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "CELLS", 1 << 16)
    texts = [f"{' '.join('abcdefghij')} {number}" for number in range(1500)]
    with at_most(16 << 20):  # the pairs alone have 24 bytes each, 26 MB
        assert gpulsh.sample(texts, **OPTIONS).thresholds[2].pairs == comb(len(texts), 2)


def test_no_estimate_is_above_the_number_of_documents() -> None:
    """A sample full of a few similar documents gave an estimate of 12,000 out of 2,000 documents."""
    texts = [
        f"page {n // 2} has words that are about number {n // 2} and number {n // 2 + 7}, {n}" for n in range(2000)
    ]
    found = gpulsh.sample(texts, sample=200, seed=4, thresholds=[0.5], shingling="word:1", backend="cpu")
    assert found.thresholds[0].resembling == len(texts)


def test_similar_documents_are_drawn_together() -> None:
    families = 400
    texts = [f"{' '.join(f'f{n // 2}w{k}' for k in range(30))} own{n}" for n in range(2 * families)]

    def fingerprints(batch: gpulsh.TextBatch) -> gpulsh.Fingerprints:
        return gpulsh.Fingerprints(*_distinct(shingle(batch, backend="cpu")))

    together = drawn = 0
    for seed in range(20):
        found = draw_similar(texts, 80, seed, fingerprints)
        again = draw_similar(texts, 80, seed, fingerprints)
        assert found.positions.tolist() == again.positions.tolist()
        assert found.share == pytest.approx(0.1, rel=0.5)
        together += len(found.positions) - len(np.unique(found.positions // 2))
        drawn += len(found.positions)
    similarity = 26 / 28  # 27 shingles each, one of which is of the own word
    # A document's twin is drawn with it as often as they are similar, or else by chance.
    assert 2 * together / drawn == pytest.approx(similarity + (1 - similarity) * 0.1, abs=0.06)


def _distinct(read: gpulsh.Fingerprints) -> tuple[Any, Any]:
    rows = [np.unique(read.values[start:stop]) for start, stop in pairwise(read.offset.tolist())]
    return np.concatenate(rows), np.cumsum([0, *map(len, rows)])


def test_a_threshold_with_few_near_documents_is_recommended() -> None:
    def pages(similar: int) -> list[str]:
        shared = [[f"p{n // 2}w{k}" if k < similar or n % 2 else f"own{n}w{k}" for k in range(40)] for n in range(40)]
        return [" ".join(words) for words in shared]

    def sampled(texts: list[str]) -> Resemblance:
        return gpulsh.sample(texts, shingling=gpulsh.Shingling(size=1), backend="cpu")

    high, low = sampled(pages(38)), sampled(pages(35))
    assert high.recommended == 0.8  # only about 0.9
    assert low.recommended == 0.7  # all about 0.78, and the next one without any is as far
    assert high.why == "0 documents have their nearest match within 0.05 of it"
    assert low.why == "0 documents have their nearest match within 0.05 of it, and 40 within 0.05 of 0.8"
    some = [replace(row, near=1.2) for row in low.thresholds]
    reason = "1 document has its nearest match within 0.05 of it; no other threshold has fewer than half as many"
    assert replace(low, thresholds=tuple(some), best=3).why == reason


def test_the_command_shows_pairs_with_their_differences(tmp_path: Path, command: Command) -> None:
    path = write_rows(tmp_path / "a.jsonl", TEXTS)
    line = f"sample {path} --threshold 0.5 --shingle word:2 --backend cpu --examples 1"
    lines = command(line).out.splitlines()
    assert lines[-1] == "recommended: --shingle word:2 --threshold 0.5"
    assert lines[-2].startswith("Threshold 0.5: ")
    found = gpulsh.sample(TEXTS, thresholds=[0.5], examples=1, **OPTIONS)
    share = f"{found.sample} of {len(TEXTS)} documents by {SHINGLING}"
    assert repr(found) == f"Resemblance({share}, recommended threshold 0.5)"
    assert found._repr_html_().endswith("<td>recommended</td></tr></table>")
    (row,) = found.thresholds
    for pair in row.examples:
        assert pair.texts[0] not in repr(row)
        head = next(place for place, line in enumerate(lines) if line.startswith(f"  {pair.similarity:.4f}"))
        assert [lines[head + at].endswith(f"{path}:{pair.positions[at // 2]}") for at in (0, 2)] == [True, True]
        assert "{+" in lines[head + 1] and "[-" in lines[head + 3]
    assert json.loads(command(f"{line} --json").out) == json.loads(json.dumps(found.facts()))
    last = command(f"{line} --normalize NFKC").out.splitlines()[-1]
    assert last == "recommended: --shingle word:2 --normalize NFKC --threshold 0.5"
    with pytest.raises(ParameterError, match=r"threshold is 0\.0; give a number above 0"):
        gpulsh.sample(TEXTS, thresholds=[0.0])
    with pytest.raises(ParameterError, match="thresholds is ''; give a list"):
        gpulsh.sample(TEXTS, thresholds="")  # type: ignore[arg-type]


BITS, SOME = gpulsh.SimHash(), Funnel(documents=9, shingles=900)


@pytest.mark.parametrize(
    ("method", "begin", "end"),
    [
        (Method.choose(bands=10, rows=12), "10 bands of 12 rows find only 50.9 % of the", "uses 21 bands of 6 rows"),
        (Method.choose(0.2, num_perm=4, bands=1), "1 band of 4 rows", "give a larger --num-perm"),
        (Method.choose(sketch=BITS, distance=3), "a distance of 3 of 64 bits (--sketch) finds only 11.6 %", "uses 12"),
        (Method.choose(also=BITS, distance=3), "a distance of 3 of 64 bits (--and) finds only 0.9 %", "uses 18"),
    ],
)
def test_parameters_that_miss_pairs_give_a_hint(method: Method, begin: str, end: str) -> None:
    (hint,) = hints(method, SOME)
    assert hint.startswith(begin) and hint.endswith(end)


def test_usual_parameters_give_no_hint() -> None:
    usual = [Method.choose(), Method.choose(0.95, also=BITS, distance=16)]
    usual += [Method.choose(also=BITS, distance=3, measure="containment")]
    for threshold in (0.3, 0.8, 0.95, 1.0):
        usual += [Method.choose(threshold, sketch=one, also=one) for one in (BITS, gpulsh.SimHash(bits=384))]
    assert not any(list(hints(method, SOME)) for method in usual)
    assert len(list(hints(Method.choose(sketch=BITS, also=BITS, distance=3), SOME))) == 2


def test_documents_shorter_than_a_shingle_give_a_hint(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "gpulsh"):
        gpulsh.deduplicate(["two words", "three words here", "a long text of nine words, that is all"], backend="cpu")
        assert not caplog.records
        gpulsh.deduplicate(["two words", "three words here", "a text of six words here"], backend="cpu")
    (record,) = caplog.records
    assert record.getMessage().startswith("at least half of the documents have at most 5 words, so they")
    assert not list(hints(Method.choose(shingling=gpulsh.Shingling(size=1)), Funnel(documents=3, shingles=3)))
    assert not list(hints(Method.choose(), Funnel(documents=3, empty=3)))


@pytest.mark.parametrize(("size", "shorter"), [(2, "char:1"), (3, "char:2"), (4, "char:3"), (9, "char:3")])
def test_the_hint_about_short_documents_names_a_shorter_shingle(size: int, shorter: str) -> None:
    method = Method.choose(shingling=gpulsh.Shingling(unit="char", size=size))
    (hint,) = hints(method, Funnel(documents=3, shingles=3))
    assert hint.endswith(f"use shorter shingles, such as --shingle {shorter}")
