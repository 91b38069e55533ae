"""`measure="containment"` over files: whatever the cut, what `deduplicate` gives for the same texts."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh.__main__ import main
from gpulsh.backends.parts import in_fitting_parts
from gpulsh.budget import Cut
from gpulsh.errors import ParameterError
from gpulsh.report.page import missing
from gpulsh.report.reproduce import command, in_words
from gpulsh.stats.stages import OF_CONTAINMENT, OF_FILES
from tests.crash.test_resume import results
from tests.run.test_partitioned import (
    MEMORY,
    SHINGLING,
    Given,
    assert_rows,
    cut_as,
    cuts,
    givens,
    in_memory,
    keeps,
    resolves,
    run,
    thresholds,
)
from tests.support.files import read_rows, write_rows
from tests.support.runs import evidence, interrupting

LONG = [" ".join(f"page{page}x{word}" for word in range(60)) for page in range(4)]
QUOTES = [" ".join(page.split()[start : start + 20]) for page in LONG for start in (0, 15)]
TEXTS = [*QUOTES, *LONG, f"{LONG[0]} and advertisements all around", "other words here"]
SMALL = Cut(memory=MEMORY, partition=300, digests=100, group=1000)
OPTIONS: dict[str, Any] = {"measure": "containment", "backend": "cpu", "threads": 1}


@contextmanager
def small_joins() -> Iterator[None]:
    """Documents come in several runs each, and pairs in several, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.lsh.signing.in_fitting_parts", lambda work, parts: in_fitting_parts(work, 3, 3))
        patch.setattr("gpulsh.run.records.ranges.RUN_POSTINGS", 20)
        patch.setattr("gpulsh.run.records.ranges.ROWS_AT_ONCE", 15)
        patch.setattr("gpulsh.run.stages.containment.PAIRS_AT_ONCE", 4)
        yield


@settings(max_examples=6)
@given(
    st.one_of(givens(), givens(("int",), protecting=True)), cuts, thresholds, resolves, st.integers(0, 4), st.booleans()
)
def test_any_cut_gives_what_memory_gives(
    documents: Given, cut: Cut, threshold: float, resolve: Any, policy: int, either: bool
) -> None:
    keep = keeps(documents)[policy]
    options: dict[str, Any] = {"threshold": threshold, "resolve": resolve, "measure": "containment"}
    options["drop_contained_only"] = not either
    with tempfile.TemporaryDirectory() as folder, small_joins():
        _, rows = run(documents, Path(folder), cut, keep=keep, id_column="id", **options)
    if documents.protected:  # which memory knows nothing of
        assert all(row["id"] >= documents.guarded for row in rows)
        return
    assert_rows(rows, in_memory(documents, keep, shingling=SHINGLING, **options)[0])


def test_the_longest_is_kept_unless_a_policy_says_otherwise(tmp_path: Path) -> None:
    texts = [*TEXTS, "other words here and there"]
    scores = [*range(len(texts) - 1), 0]
    write_rows(tmp_path / "a.jsonl", [{"text": text, "score": scores[row]} for row, text in enumerate(texts)])
    for keep, priority in ((None, None), ("score", scores), ("first", [0] * len(texts))):
        out = tmp_path / f"{keep}"
        report = gpulsh.deduplicate_files(tmp_path / "a.jsonl", out, keep=keep, shingling=SHINGLING, **OPTIONS).report
        assert report["parameters"]["keep"] == keep or (keep is None and report["parameters"]["keep"] == "longest")
        found = pq.read_table(out / "duplicates.parquet").to_pydict()
        wanted = gpulsh.deduplicate(texts, priority=priority, shingling=SHINGLING, **OPTIONS)
        assert found["row"] == np.flatnonzero(~wanted.keep).tolist() != []
        assert found["duplicate_of_row"] == wanted.duplicate_of[~wanted.keep].tolist()
        assert report["funnel"]["candidates"] == report["funnel"]["similar"] + report["funnel"]["dissimilar"]


def test_the_better_page_stays_for_a_longer_one_that_holds_it(tmp_path: Path) -> None:
    """And the longer one, of whose words many are in no better page, stays too."""
    page = LONG[0]
    rows = [(f"{page} {LONG[1]}", 0.2), (page, 0.9), (QUOTES[0], 0.5), (f"{page} more", 0.1)]
    write_rows(tmp_path / "a.jsonl", [{"text": text, "score": score} for text, score in rows])
    for number, (keep, only, kept) in enumerate(((None, True, [0]), ("score", True, [0, 1]), ("score", False, [1]))):
        how: dict[str, Any] = {"keep": keep, "drop_contained_only": only, **OPTIONS}
        report = gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / f"{number}", **how).report
        dropped = {row["duplicate_of_row"] for row in evidence(tmp_path / f"{number}")}
        assert report["funnel"]["kept"] == len(kept) and dropped == {kept[-1]}
        assert ("--drop-containing" in str(command(report))) == (not only)
        assert ("one contains 0.8 or more" in " ".join(in_words(report["parameters"]))) == (not only)


def test_protected_pages_drop_what_contains_them(tmp_path: Path) -> None:
    """Or is contained in them; they are never dropped themselves."""
    guarded = write_rows(tmp_path / "a.jsonl", [QUOTES[0], LONG[1]])
    given = write_rows(tmp_path / "b.jsonl", [LONG[0], QUOTES[2], LONG[2], QUOTES[4]])
    for only, kept in ((True, [LONG[0], LONG[2]]), (False, [LONG[2]])):
        out = tmp_path / f"{only}"
        gpulsh.deduplicate_files(given, out, protect=guarded, drop_contained_only=only, **OPTIONS)
        assert [row["text"] for row in read_rows(out / "data/b.jsonl")] == kept


def test_an_index_drops_contained_documents_only(tmp_path: Path) -> None:
    given, index = write_rows(tmp_path / "a.jsonl", LONG), tmp_path / "index"
    with pytest.raises(ParameterError, match="drop_contained_only=False cannot be combined with an index"):
        gpulsh.deduplicate_files(given, tmp_path / "out", index=index, drop_contained_only=False, **OPTIONS)


def test_sources_apart(tmp_path: Path) -> None:
    a, b = (
        write_rows(tmp_path / "a.jsonl", [QUOTES[0], LONG[0], QUOTES[2]]),
        write_rows(tmp_path / "b.jsonl", [QUOTES[1], LONG[1]]),
    )
    for relation, wanted in (("within", [(a, 0, a)]), ("across", [(a, 2, b), (b, 0, a)])):
        gpulsh.deduplicate_files([a, b], tmp_path / relation, **{relation: True}, **OPTIONS)
        found = [(row["file"], row["row"], row["duplicate_of_file"]) for row in evidence(tmp_path / relation)]
        assert found == wanted


@pytest.mark.parametrize("stage", ["weigh", "prefix", "join"])
def test_a_run_goes_on_behind_each_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    given = write_rows(tmp_path / "a.jsonl", TEXTS)
    gpulsh.deduplicate_files(given, tmp_path / "whole", **OPTIONS)
    monkeypatch.setattr("gpulsh.run.file_run.cut", lambda memory, sizes: SMALL)
    with interrupting(stage):
        gpulsh.deduplicate_files(given, tmp_path / "out", **OPTIONS)
    result = gpulsh.deduplicate_files(given, tmp_path / "out", resume=True, **OPTIONS)
    assert results(tmp_path / "out") == results(tmp_path / "whole")
    assert "sign" in result.funnel["resumed"] and (stage == "weigh" or "weigh" in result.funnel["resumed"])


def test_no_count_depends_on_the_secret_or_the_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefixes are of public fingerprints, and of slots that the documents decide."""
    for module in ("decide.prefixes", "run.stages.containment"):
        for name in ("FEWEST_BITS", "MOST_BITS"):
            monkeypatch.setattr(f"gpulsh.{module}.{name}", 3)
    texts = [" ".join(f"w{number % 97}" for number in range(start, start + 40)) for start in range(0, 1500, 29)]
    given, told = write_rows(tmp_path / "a.jsonl", texts), []
    for number in range(2):
        options = {"threshold": 0.9, "secret": bytes([number] * 32), **OPTIONS}
        told.append(gpulsh.deduplicate(texts, **options).funnel.to_dict())
        with cut_as(SMALL if number % 2 else Cut(memory=MEMORY, partition=1 << 40, digests=1 << 40, group=1 << 40)):
            told.append(gpulsh.deduplicate_files(given, tmp_path / f"{number}", **options).funnel)
    for kind in (told[::2], told[1::2]):
        assert len({(one["candidates"], one["similar"], one["dropped"]) for one in kind}) == 1
    assert told[0]["dissimilar"] > 0


def test_the_words_say_containment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = write_rows(tmp_path / "a.jsonl", TEXTS)
    asked = ["--measure", "containment", "--backend", "cpu", "--verbose"]
    assert main(["dedup", given, "-o", str(tmp_path / "out"), *asked]) == 0
    assert "exact containment 0.8 or more" in capsys.readouterr().out
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["parameters"]["measure"] == "containment"
    assert "bucket" not in report["definitions"]["candidates"]["meaning"]
    stages = list(report["funnel"]["seconds"])
    assert stages[2:5] == list(OF_CONTAINMENT) and {*stages} <= {*OF_FILES, *OF_CONTAINMENT} - {"collide"}
    if missing() is None:
        html = (tmp_path / "out/report.html").read_text(encoding="utf-8")
        assert "Containment in the kept document" in html and "Jaccard" not in html and "banding finds" not in html
