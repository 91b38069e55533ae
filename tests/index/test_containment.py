"""`Index(measure="containment")` keeps what a stream of naive sets keeps, whatever is done to it between."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import gpulsh
from gpulsh import Index
from gpulsh.cli import main
from gpulsh.errors import InputError, ParameterError
from gpulsh.index import manifest
from tests.index.test_contents import Machine
from tests.run.test_incremental import IN_MEMORY
from tests.support.naive_index import NaiveIndex

PAGES = [" ".join(f"page{page}x{word}" for word in range(60)) for page in range(6)]
QUOTES = [" ".join(page.split()[start : start + 20]) for page in PAGES for start in (0, 15)]
ADVERTISED = [f"{page} and advertisements all around it" for page in PAGES[:2]]
TEXTS = [*PAGES[::2], *QUOTES, "", *PAGES[1::2], *ADVERTISED, QUOTES[0], "..."]


class ContainmentMachine(Machine):
    """Any sequence of verbs."""

    measure = "containment"


ContainmentMachine.TestCase.settings = settings(max_examples=4, stateful_step_count=12, deadline=None)
TestContainmentMachine = ContainmentMachine.TestCase


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_stream_is_decided_as_sets_decide_it(backend: Any, tmp_path: Path) -> None:
    naive = NaiveIndex(0.8, 5, 1, 1, 1, measure="containment")
    wanted = naive.add(range(len(TEXTS)), TEXTS)
    index = Index(measure="containment", sketch=gpulsh.SimHash(), backend=backend)
    index.save(tmp_path / "i")
    found = []
    for start in range(0, len(TEXTS), 5):
        part = TEXTS[start : start + 5]
        best = index.query(part)
        added = index.add(range(start, start + len(part)), part)
        found += zip(added.duplicate_of.tolist(), added.similarity.tolist(), strict=True)
        told = dict(reversed([*zip(best.positions.tolist(), best.keys.tolist(), strict=True)]))
        earlier = {row: key for row, key in enumerate(added.duplicate_of.tolist()) if key < start}
        assert {row: told[row] for row in earlier} == earlier
        index.save()
        index.close()
        index = Index.open(tmp_path / "i", measure="containment", num_perm=64, backend=backend)
    assert found == [(key, np.float32(similarity)) for key, similarity in wanted]
    # The first three pages, quotations of the others before them, these, and two that are empty.
    assert len(index) - index.dropped() == 3 + 6 + 3 + 2


def test_pairs_and_buckets() -> None:
    order = [PAGES[0], QUOTES[0], QUOTES[1], PAGES[1], ADVERTISED[0], "of nobody"]
    index = Index(measure="containment", backend="cpu")
    index.insert(list("abcdef"), order)
    found = index.pairs()
    assert [*zip(found.first, found.second, strict=True)] == [("a", "b"), ("a", "c"), ("a", "e")]
    shingles = [{tuple(words[i : i + 5]) for i in range(len(words) - 4)} for words in map(str.split, order[:5])]
    assert found.similarity.tolist() == [len(shingles[0] & one) / len(one) for one in (shingles[i] for i in (1, 2, 4))]
    assert {"".join(members) for _, members in index.buckets()} == {"ae", "abe", "ace", "abce"}
    index.remove(["a"])
    assert len(index.pairs()) == 0  # what came later contains the quotations, and speaks for none before it
    assert len(index.query([QUOTES[0]])) == 2


def test_it_is_no_other_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Index(measure="containment", backend="cpu").save(tmp_path / "i")
    told = json.loads((tmp_path / "i" / manifest.NAME).read_bytes().partition(b"\n")[2])
    assert told["format"] == 5
    with pytest.raises(ParameterError, match="made with measure containment and jaccard was given"):
        Index.open(tmp_path / "i", measure="jaccard", backend="cpu")
    monkeypatch.setattr(manifest, "OF_CONTAINMENT", 4)  # as versions that know none
    with pytest.raises(InputError, match=r"is an index of format 5, .* and this version reads format 3 or 4"):
        Index.open(tmp_path / "i", backend="cpu")


def test_runs_through_an_index_keep_what_one_run_in_order_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(dir=IN_MEMORY) as folder, monkeypatch.context() as patch:
        patch.chdir(folder)
        assert_runs_keep_what_one_keeps()


def assert_runs_keep_what_one_keeps() -> None:
    wanted = gpulsh.deduplicate(TEXTS, measure="containment", priority=np.zeros(len(TEXTS)), backend="cpu")
    kept = []
    for part in range(3):
        texts = TEXTS[part * 9 : part * 9 + 9]
        Path(f"{part}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        measure = ["--measure", "containment"] if part == 0 else []  # then it is the index's own
        given = [f"{part}.jsonl", "-o", f"out{part}", "--index", "known", *measure, "--backend", "cpu"]
        assert main(["dedup", *given]) == 0
        kept += [json.loads(line)["text"] for line in Path(f"out{part}/data/{part}.jsonl").read_text().splitlines()]
    assert kept == [text for text, stays in zip(TEXTS, wanted.keep.tolist(), strict=True) if stays]
    report = json.loads(Path("out2/report.json").read_text())
    assert report["parameters"]["measure"] == "containment" and report["funnel"]["earlier"] > 0
    assert main(["index", "build", "other", "0.jsonl", "--measure", "containment", "--backend", "cpu"]) == 0
    index = Index.open("other", backend="cpu")
    assert len(index) - index.dropped() == len(Path("out0/data/0.jsonl").read_text().splitlines())


def test_of_two_in_one_call_the_first_is_first() -> None:
    for texts, keep in (([PAGES[0], QUOTES[0]], [True, False]), ([QUOTES[0], PAGES[0]], [True, True])):
        assert Index(measure="containment", backend="cpu").add(["a", "b"], texts).keep.tolist() == keep
