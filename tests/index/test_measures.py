"""Indexes by each measure: pairs, buckets, streams of documents and runs equal the decisions of other code."""

import json
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh import Index
from gpulsh.backends.protocol import Sizes
from gpulsh.backends.select import BackendName
from gpulsh.cli import main
from gpulsh.decide import meeting
from gpulsh.decide.containment import ContainmentJoin
from gpulsh.errors import InputError, InputTypeError, ParameterError
from gpulsh.index import folder as manifest
from gpulsh.index import stretches
from tests.index.test_contents import Machine
from tests.sketch.test_main_job import documents
from tests.support import naive
from tests.support.files import read_rows, write_rows
from tests.support.runs import SOAK
from tests.support.texts import known, strings

PAGES = [" ".join(f"page{page}x{word}" for word in range(60)) for page in range(6)]
QUOTES = [" ".join(page.split()[start : start + 20]) for page in PAGES for start in (0, 15)]
ADVERTISED = [f"{page} and advertisements all around it" for page in PAGES[:2]]
TEXTS = [*PAGES[::2], *QUOTES, "", *PAGES[1::2], *ADVERTISED, QUOTES[0], "..."]


class ContainmentMachine(Machine):
    measure = "containment"


ContainmentMachine.TestCase.settings = settings(max_examples=20 if SOAK else 10, stateful_step_count=15, deadline=None)
TestContainmentMachine = ContainmentMachine.TestCase


def digests_of(texts: list[str]) -> gpulsh.BandDigests:
    signatures = gpulsh.MinHash(num_perm=64).from_texts(texts, backend="cpu")
    return gpulsh.Banding(bands=16, rows=4)(signatures, backend="cpu")


@pytest.mark.parametrize(("backend", "most"), [("reference", 1 << 22), ("cpu", 3)])
def test_pairs_and_buckets_equal_those_of_the_steps(
    backend: BackendName, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulsh.index.admission.PAIRS_AT_ONCE", most)
    texts = [*documents(60), "", "..."]
    keys = [f"key {i}" for i in range(len(texts))]
    index = Index(threshold=0.6, num_perm=64, bands=16, rows=4, backend=backend)
    assert list(index.buckets()) == []
    index.insert(keys[:50], texts[:50])
    index.insert(keys[50:], texts[50:])
    index.save(tmp_path / "index")
    pairs = gpulsh.candidate_pairs(digests_of(texts), backend="cpu")
    exact = gpulsh.jaccard(gpulsh.shingle(texts, backend="cpu"), pairs, backend="cpu")
    wanted = {(keys[i], keys[j], value) for (i, j), value in zip(pairs.tolist(), exact, strict=True) if value >= 0.6}
    assert len(wanted) > 40
    for one in (index, Index.open(tmp_path / "index", backend=backend)):
        assert set(one.pairs()) == wanted and len(one.pairs()) == len(wanted)
    walked = [(band, *(keys.index(key) for key in members.tolist())) for band, members in index.buckets()]
    assert len(walked) == len(set(walked)) and set(walked) == {
        (band, *np.flatnonzero(column == value).tolist())
        for band, column in enumerate(np.asarray(digests_of(texts[:-2])).T)
        for value in column
        if (column == value).sum() > 1
    }


def test_hamming_tables_decide_a_stream_as_deduplicate(tmp_path: Path) -> None:
    """It is queried, then added, then reopened and changed: the pairs equal those of `deduplicate`."""
    given: dict[str, Any] = {"threshold": 0.6, "sketch": gpulsh.SimHash(bits=64), "distance": 3, "backend": "cpu"}
    texts = [*documents()[::2], "", *documents()[1::2], "..."]
    half = len(texts) // 2
    wanted = gpulsh.deduplicate(texts, **given)
    first = Index(**given)
    assert first.parameters.banding.bands == 10 and len(first.query(texts)) == 0
    one = first.add(range(half), texts[:half])
    first.save(tmp_path / "index")
    first.close()
    index = Index.open(tmp_path / "index", backend="cpu", sketch=gpulsh.SimHash(), distance=3)
    asked = index.query(texts[half:])
    two = index.add(range(half, len(texts)), texts[half:])
    targets = [*one.duplicate_of.tolist(), *two.duplicate_of.tolist()]
    assert targets == wanted.duplicate_of.tolist() and not two.keep.all()
    best = dict(reversed([*zip((asked.positions + half).tolist(), asked.keys.tolist(), strict=True)]))
    earlier = {row: target for row, target in enumerate(targets) if row >= half > target}
    assert len(earlier) > 3 and all(best[row] == target for row, target in earlier.items())
    witness = next(iter(earlier.values()))
    index.remove([witness])
    assert witness in asked.keys and witness not in index.query(texts[half:]).keys

    every = Index(**given)
    every.insert(range(len(texts)), texts)
    found = every.pairs()
    pairs = [*zip(found.first.tolist(), found.second.tolist(), strict=True)]
    assert len(set(pairs)) == len(pairs) and set(pairs) >= set(map(tuple, wanted.pairs.tolist()))
    assert {band for band, _ in every.buckets()} <= set(range(10))


def test_containment_buckets_hold_quotes_and_their_pages() -> None:
    index = Index(measure="containment", backend="cpu")
    index.insert(list("abcdef"), [PAGES[0], *QUOTES[:2], PAGES[1], ADVERTISED[0], "of nobody"])
    assert {"".join(members) for _, members in index.buckets()} == {"ae", "abe", "ace", "abce"}


@pytest.mark.parametrize("batch", [1 << 20, 5000])
def test_near_copies_by_containment_are_decided_as_in_one_run(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch joins them by prefixes; here they come in one batch, or in many."""
    texts = [f"{page} own{n}" for n in range(80) for page in PAGES[:3]]  # near-copies
    texts += [f"{page} {' '.join(f'n{n}x{i}' for i in range(20))}" for n in range(80) for page in PAGES[3:5]]  # not
    texts = Random(1).sample([*texts, *QUOTES, *texts[:20]], len(texts) + len(QUOTES) + 20)
    wanted = gpulsh.deduplicate(texts, measure="containment", priority=np.zeros(len(texts)), backend="cpu")
    monkeypatch.setattr("gpulsh.backends.cpu.SIZES", Sizes(batch=batch, tile=1 << 16, largest_tile=1 << 17))
    index = Index(measure="containment", backend="cpu")
    with mock.patch.object(meeting, "ContainmentJoin", wraps=ContainmentJoin) as joins:
        added = index.add(range(len(texts)), texts)
    assert (joins.call_count > 0) == (batch > 5000) and 150 < added.keep.sum() < 200
    assert added.duplicate_of.tolist() == wanted.duplicate_of.tolist()
    np.testing.assert_array_equal(added.similarity, wanted.similarity)


def test_runs_through_an_index_keep_what_one_run_in_order_keeps(folder: Path) -> None:
    wanted = gpulsh.deduplicate(TEXTS, measure="containment", priority=np.zeros(len(TEXTS)), backend="cpu")
    kept = []
    for part in range(3):
        texts = TEXTS[part * 9 : part * 9 + 9]
        write_rows(f"{part}.jsonl", texts)
        measure = ["--measure", "containment"] if part == 0 else []  # then it is the index's own
        given = [f"{part}.jsonl", "-o", f"out{part}", "--index", "known", *measure, "--backend", "cpu"]
        assert main(["dedup", *given]) == 0
        kept += [row["text"] for row in read_rows(f"out{part}/data/{part}.jsonl")]
    assert kept == [text for text, stays in zip(TEXTS, wanted.keep.tolist(), strict=True) if stays]
    report = json.loads(Path("out2/report.json").read_text())
    assert report["parameters"]["measure"] == "containment" and report["funnel"]["earlier"] > 0
    assert main(["index", "build", "other", "0.jsonl", "--measure", "containment", "--backend", "cpu"]) == 0
    index = Index.open("other", backend="cpu")
    assert len(index) - index.dropped() == len(Path("out0/data/0.jsonl").read_text().splitlines())


@pytest.mark.parametrize(
    ("form", "options", "other", "message"),
    [
        (3, {}, {"sketch": gpulsh.SimHash()}, "sketch affine32:128 of seed 1 and simhash:64:12 of seed 1, by set"),
        (4, {"sketch": gpulsh.SimHash()}, {"sketch": gpulsh.SimHash(), "distance": 2}, "simhash:64:12 .* simhash:64:2"),
        (4, {"sketch": "simhash:64:3", "seed": 5}, {"seed": 6}, "made with seed 5 and 6 was given"),
        (5, {"measure": "containment"}, {"measure": "jaccard"}, "made with measure containment and jaccard was given"),
    ],
)
def test_an_index_opens_only_with_its_own_parameters(
    form: int, options: Any, other: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Index(backend="cpu", **options).save(tmp_path / "i")
    written = json.loads((tmp_path / "i" / manifest.INDEX).read_bytes().partition(b"\n")[2])
    assert written["format"] == form
    Index.open(tmp_path / "i", backend="cpu", **options)
    with pytest.raises(ParameterError, match=message):
        Index.open(tmp_path / "i", backend="cpu", **other)
    if form == 5:  # as a version without containment sees it
        monkeypatch.setattr(manifest, "FORMATS", (3, 4))
        with pytest.raises(InputError, match=r"is an index of format 5, .* and this version reads format 3 or 4"):
            Index.open(tmp_path / "i", backend="cpu")


# --- `Index.find`: the stretches of a text whose shingles a document has

lettered = st.lists(st.one_of(st.text("ab", max_size=12), st.text("abcd", max_size=30)).map(" ".join), max_size=6)


def expected(texts: list[str], text: str, size: int, least: int) -> list[tuple[int, int, int]]:
    """The document, first token and tokens of each stretch."""
    query = naive.tokens(text, "word")
    length = min(size, len(query))
    found = []
    for number, document in enumerate(texts):
        held = set(naive.shingles(naive.tokens(document, "word"), size))
        flags = [tuple(query[at : at + length]) in held for at in range(len(query) - length + 1)] if length else []
        for start in range(len(flags)):
            if flags[start] and (start == 0 or not flags[start - 1]):
                stop = next((at for at in range(start, len(flags)) if not flags[at]), len(flags))
                found.append((number, start, stop - start - 1 + length))
    return [one for one in found if one[2] >= least]


def check(index: gpulsh.Index, texts: list[str], text: str, size: int, least: int | None) -> None:
    encoded = text.encode()
    found = []
    for key, start, stop, tokens in index.find(text, tokens=least):
        before, inside = encoded[:start].decode(), encoded[start:stop].decode()
        assert len(naive.tokens(inside, "word")) == tokens
        assert naive.tokens(inside[0], "word") and naive.tokens(inside[-1], "word")
        found.append((key, len(naive.tokens(before, "word")), tokens))
    assert found == expected(texts, text, size, least or 1)


@given(lettered, st.text("abcd", max_size=30).map(" ".join), st.sampled_from([1, 2, 5]), st.sampled_from([None, 4]))
@pytest.mark.parametrize("measure", ["jaccard", "containment"])
def test_stretches_are_as_defined(measure: Any, texts: list[str], text: str, size: int, least: int | None) -> None:
    index = gpulsh.Index(shingling=gpulsh.Shingling(size=size), measure=measure, backend="cpu")
    index.insert(list(range(len(texts))), texts)
    check(index, texts, text, size, least)


@settings(max_examples=20)
@given(st.lists(strings.map(known), max_size=4), strings.map(known), st.data())
def test_stretches_of_all_scripts_follow_the_definition(texts: list[str], text: str, data: st.DataObject) -> None:
    index = gpulsh.Index(shingling=gpulsh.Shingling(size=2), backend="cpu")
    index.insert(list(range(len(texts))), texts)
    check(index, texts, data.draw(st.sampled_from([text, *texts])), 2, None)


@pytest.mark.parametrize("measure", ["jaccard", "containment"])
def test_stretches_of_removed_and_dropped_documents_are_not_found(
    measure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stretches, "READ_AT_ONCE", 5)
    pages = [" ".join(f"p{page}w{number}" for number in range(20)) for page in range(9)]
    with gpulsh.Index.create(tmp_path / "index", measure=measure, backend="cpu") as index:
        index.add(["a", "b", "copy of a"], [pages[0], pages[1], pages[0]])
        index.save()
        index.add(list("cdef"), pages[2:6])
        index.remove(["b"])
        index.save()
    text = f"Zuerst: {pages[0]}; \N{SNOWMAN} {pages[1]} {pages[4]} p3w0 p3w1 p3w2 p3w3 p3w4"
    Path(tmp_path / "text").write_text(text, encoding="utf-8")
    assert main(["index", "find", str(tmp_path / "index"), str(tmp_path / "text"), "--tokens", "6"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["key"], row["tokens"]) for row in rows] == [("a", 20), ("e", 20)]
    assert [text.encode()[row["start"] : row["stop"]].decode() for row in rows] == [pages[0], pages[4]]
    opened = gpulsh.Index.open(tmp_path / "index", backend="reference")
    assert opened.find(text).keys.tolist() == ["a", "d", "e"]
    assert not len(opened.find("")) and not len(opened.find(b"\xff")) and not len(opened.find("p0w0"))


def test_reordered_combining_marks_have_no_stretch() -> None:
    """NFKC puts the dot below before the dot above, so neither has its own bytes."""
    folding = gpulsh.Folding(form="NFKC")
    index = gpulsh.Index(shingling="char:1", folding=folding, backend="cpu")
    index.insert(["marks", "letters"], ["\u0323\u0307", "qx"])
    text = "q\u0307\u0323x"
    found = list(index.find(text))
    assert [row for row in found if row[1] >= row[2]] == []
    assert [row[0] for row in found] == ["letters"]


def test_find_refuses_wrong_texts_and_parameters() -> None:
    index = gpulsh.Index(backend="cpu")
    with pytest.raises(InputTypeError, match="text is of type list; give one str"):
        index.find(["a"])  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="tokens is 0"):
        index.find("a", tokens=0)
    with pytest.raises(ParameterError, match="the index removes or replaces words"):
        gpulsh.Index(shingling=gpulsh.Shingling(stop=["the"]), backend="cpu").find("a")
