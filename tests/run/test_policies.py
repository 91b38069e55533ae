"""Who is dropped for whom, other than by order alone: order of inputs, protected documents, sources apart."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import gpulsh
from gpulsh.errors import ParameterError
from gpulsh.report.summary import funnel_table
from tests.support.files import read_rows, write_rows
from tests.support.runs import evidence

WORDS = [f"word{i}" for i in range(300)]


def page(seed: int) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=40))


def near(text: str) -> str:
    return text.replace(" ", "  ", 1) + " more"


def kept(out: Path) -> dict[str, list[str]]:
    """The texts of each file of data/."""
    return {path.name: [row["text"] for row in read_rows(path)] for path in sorted((out / "data").iterdir())}


def run(tmp_path: Path, inputs: list[str], **options: Any) -> tuple[dict[str, list[str]], list[dict[str, Any]]]:
    gpulsh.deduplicate_files(inputs, tmp_path / "out", backend="cpu", **options)
    return kept(tmp_path / "out"), evidence(tmp_path / "out")


@pytest.mark.parametrize(
    ("keep", "told"),
    [
        ("source:z", "'z' means none of the INPUTs"),
        ("source:a.jsonl,a.jsonl", "'a.jsonl' means one that was listed before"),
    ],
)
def test_a_source_that_is_no_input(tmp_path: Path, keep: str, told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        run(tmp_path, [write_rows(tmp_path / "a.jsonl", [page(1)])], keep=keep)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("keep", "first"),
    [
        ("source:b/x,a/x", "b/x/"),
        ("source:b/x/", "b/x/"),
        ("source:a/x", "a/x"),
        ("source:x,b/x", "x"),  # as it was given, though others end so
        ("source:../policies/b/x", "../policies/b/x"),
    ],
)
def test_inputs_are_listed_by_any_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str, first: str) -> None:
    (tmp_path / "policies").mkdir()
    monkeypatch.chdir(tmp_path / "policies")
    for name in ("a/x", "b/x", "x"):
        write_rows(f"{name}/part.jsonl", [page(1)])
    inputs = ["a/x", first if first.startswith("..") else "b/x/", "x"]
    gpulsh.deduplicate_files(inputs, "out", backend="reference", keep=keep)
    assert {row["duplicate_of_file"] for row in evidence("out")} == {f"{first.rstrip('/')}/part.jsonl"}


def test_copies_left_within_sources(tmp_path: Path) -> None:
    a = write_rows(tmp_path / "a.jsonl", [page(1), page(2), near(page(1))])
    b = write_rows(tmp_path / "b.jsonl", [page(1), page(2), page(2), near(page(2))])
    found, evidence = run(tmp_path, [a, b], within=True)
    assert found == {"a.jsonl": [page(1), page(2)], "b.jsonl": [page(1), page(2)]}
    assert all(row["file"] == row["duplicate_of_file"] for row in evidence)
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert "3  = 1 copies of kept + 2 copies left; same words" in funnel_table(report)


@pytest.mark.parametrize("options", [{}, {"resolve": "components"}, {"measure": "containment"}], ids=str)
def test_protected_documents_are_compared_with_every_input(tmp_path: Path, options: dict[str, str]) -> None:
    """Also where inputs are kept apart: a copy of a test document must not stay in a training set."""
    guarded = write_rows(tmp_path / "test.jsonl", [page(1), page(2)])
    a = write_rows(tmp_path / "a.jsonl", [page(1), page(3), near(page(2))])
    b = write_rows(tmp_path / "b.jsonl", [page(3), page(1), page(1)])
    found, evidence = run(tmp_path, [a, b], within=True, protect=[guarded], **options)
    assert found == {"a.jsonl": [page(3)], "b.jsonl": [page(3)]}
    assert {row["duplicate_of_file"] for row in evidence} == {guarded}


@pytest.mark.parametrize("within", [False, True])
def test_large_buckets_keep_to_the_relation(tmp_path: Path, within: bool) -> None:
    """400 near-copies of one page, in two files, the first of them protected."""
    source = random.Random(5)
    copies = [page(1) + " " + " ".join(source.choices(WORDS, k=2)) for _ in range(400)]
    guarded = write_rows(tmp_path / "a.jsonl", copies[:40])
    names = [write_rows(tmp_path / "b.jsonl", copies[40:200]), write_rows(tmp_path / "c.jsonl", copies[200:])]
    found, evidence = run(tmp_path, names, within=within, threshold=0.7, protect=[guarded])
    assert found == {"b.jsonl": [], "c.jsonl": []}
    assert not within or all(row["duplicate_of_file"] in (row["file"], guarded) for row in evidence)
    assert min(row["similarity"] for row in evidence) >= 0.7


def test_across_a_chain_connects_documents_of_one_input_in_components_alone(tmp_path: Path) -> None:
    words = page(1).split()
    one, two, three = (" ".join(words[start : start + 30]) for start in (0, 2, 4))
    inputs = [write_rows(tmp_path / "a.jsonl", [one, three]), write_rows(tmp_path / "b.jsonl", [two])]
    left, _ = run(tmp_path, inputs, across=True, threshold=0.8)
    assert left == {"a.jsonl": [one, three], "b.jsonl": []}
    left, dropped = run(tmp_path / "all", inputs, across=True, threshold=0.8, resolve="components")
    assert left == {"a.jsonl": [one], "b.jsonl": []}
    assert [Path(row["duplicate_of_file"]).name for row in dropped] == ["a.jsonl", "a.jsonl"]


def test_protected_files_need_the_columns_that_options_name(tmp_path: Path) -> None:
    given = tmp_path / "a.jsonl"
    given.write_text(json.dumps({"text": page(1), "id": 1, "n": 2}) + "\n")
    test = write_rows(tmp_path / "test.jsonl", [page(1)])
    for options in ({"id_column": "id"}, {"keep": "n"}, {"source_column": "id"}, {"key": "id"}):
        with pytest.raises(gpulsh.InputError, match=r"test\.jsonl: has no column '(id|n)'"):
            run(tmp_path, [str(given)], protect=test, **options)
        assert not (tmp_path / "out").exists()
    with pytest.raises(
        gpulsh.InputError, match="which id_column names for every INPUT and protect; add it, or leave id_column"
    ):
        run(tmp_path, [str(given)], protect=test, id_column="id")


def test_across_with_a_single_input_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing can be dropped: a run of hours that finds no duplicate would not say why."""
    for name in ("in/a.jsonl", "in/b.jsonl", "c.jsonl"):
        write_rows(tmp_path / name, [page(1)])
    both, told = [str(tmp_path / "in"), str(tmp_path / "c.jsonl")], "all documents are of one INPUT"
    kept, _ = run(tmp_path / "one", both[:1], across=True)
    assert all(kept.values()) and told in caplog.text
    caplog.clear()
    kept, _ = run(tmp_path / "guarded", both[:1], protect=both[1:], across=True)
    assert not any(kept.values()) and told not in caplog.text
