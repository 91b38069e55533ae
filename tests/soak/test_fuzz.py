"""The judge of `ci/fuzz` finds every planted fault, and nothing in some cases of each format."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import case as cases
from tests.fuzz.case import Case
from tests.fuzz.formats import FILES, NAMES
from tests.fuzz.packed import repeated_member
from tests.fuzz.runner import Runner

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/PID/statm is Linux's")

PLANTED = {  # the fault of the command -> the kind of finding
    **dict.fromkeys(("segfault",), "signal"),
    **dict.fromkeys(("sleep", "spin"), "hang"),
    **dict.fromkeys(("unexpected", "traceback"), "unexpected"),
    **dict.fromkeys(("memory", "much_memory"), "memory"),
    **dict.fromkeys(("writes_beside", "writes_and_hides", "writes_elsewhere", "writes_through_a_link"), "outside"),
    **dict.fromkeys(("changes_input", "deletes", "reads", "executes"), "outside"),
    **dict.fromkeys(("similarity", "low_similarity", "false_witness", "dropped_witness", "no_witness"), "evidence"),
    **dict.fromkeys(("twice",), "evidence"),
    **dict.fromkeys(("unlisted",), "counts"),
    **dict.fromkeys(("line_lost", "line_changed", "line_twice"), "data"),
    "odd_status": "status",
    "silent": "message",
    "escape": "control",
    "left_behind": "left",
    "copy_kept": "missed",
    "no_report": "results",
}

FEW = 6  # cases of each format


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as running:
        yield running


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A case with nothing wrong: pages, a copy and near-duplicates of them."""
    cases.lay(tmp_path / "case")
    words = [f"word{number}" for number in range(30)]
    texts = [" ".join(words), " ".join(words[:29]), " ".join(words).upper(), " ".join(words[15:] + words[:9])]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "case/in/a.jsonl").write_text(lines)
    return tmp_path / "case"


def case_of(saved: Path, target: str) -> Case:
    arguments = ["dedup", "in/a.jsonl", "-o", "out", "--memory", "512MiB", "--backend", "cpu"]
    made = Case("jsonl", "planted", 0, arguments, target=f"tests.fuzz.planted:{target}")
    made.save(saved)
    return made


def test_what_is_right_is_not_found(runner: Runner, saved: Path) -> None:
    case_of(saved, "honest")
    verdict = runner.again(saved)
    assert verdict.findings == [] and verdict.ended.status == 0, verdict
    assert 0 < verdict.ended.memory < 512 << 20


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found(what: str, saved: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    case_of(saved, what)
    monkeypatch.setattr(runner, "_limit", 0.3 if PLANTED[what] == "hang" else 20.0)
    verdict = runner.again(saved)
    assert PLANTED[what] in {finding.kind for finding in verdict.findings}, verdict


@pytest.mark.parametrize("format", NAMES)
def test_some_cases(format: str, runner: Runner) -> None:
    """`ci/fuzz` runs as many as there is time for."""
    for number in range(2 * FEW):
        verdict = runner.run(format, "soak", number)
        assert verdict.findings == [], verdict


@pytest.mark.parametrize("format", FILES)
def test_a_seed_gives_the_same_files(format: str, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        folder = tmp_path / name
        cases.lay(folder)
        case = Case(format, "seed", 5)
        FILES[format](case, folder)
        files = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
        made.append((case.arguments, case.damage, {path: file.read_bytes() for path, file in files.items()}))
    assert made[0] == made[1]


def test_a_finding_is_saved_and_found_again(
    tmp_path: Path, saved: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    case_of(saved, "similarity")
    monkeypatch.setattr(runner, "_findings", tmp_path / "findings")
    first = runner.again(saved)
    assert first.saved is not None and "evidence" in (first.saved / "finding.txt").read_text()
    assert {path.name for path in first.saved.iterdir()} >= {"in", "beside", "case.json", "finding.txt"}
    assert runner.again(first.saved).findings == first.findings


@pytest.mark.parametrize(("unit", "count"), [(b"a", 0), (b"abc" * 99, 1), (b"\0" * 1000, 37), (b"line\n", 1000)])
def test_repeated_members_are_gzip(unit: bytes, count: int) -> None:
    packed = repeated_member(b"head", unit, count, b"tail")
    assert zlib.decompress(packed, 31) == b"head" + unit * count + b"tail"
