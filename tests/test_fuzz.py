"""The judge of `ci/fuzz` finds what is planted for it, and gpulsh does nothing that it objects to in a few cases."""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulsh.cli import main
from tests.fuzz import case as cases
from tests.fuzz.case import Case
from tests.fuzz.evidence import faults
from tests.fuzz.formats import FILES, NAMES
from tests.fuzz.packed import repeated_member
from tests.fuzz.runner import Runner

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/PID/statm is Linux's")

PLANTED = {  # what the command does -> the kind of finding
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


def test_a_file_without_a_name_changes_no_index(runner: Runner, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a query makes the filters that an index lacks."""
    monkeypatch.chdir(saved)
    (saved / "in/b.jsonl").write_text("".join(json.dumps({"text": f"{n} a b c d e f"}) + "\n" for n in range(4)))
    for verb, file in (("build", "in/a.jsonl"), ("add", "in/b.jsonl")):
        assert main(["index", verb, "index", file, "--backend", "cpu"]) == 0
    for name in Path("index").glob("*groups-*"):
        name.unlink()
    query = ["index", "query", "index", "in/a.jsonl", "--backend", "cpu"]
    Case("index", "planted", 0, query, writes=[], honest=False).save(saved)
    verdict = runner.again(saved)
    assert verdict.findings == [] and verdict.ended.status == 0, verdict


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found(what: str, saved: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    case_of(saved, what)
    monkeypatch.setattr(runner, "_limit", 0.3 if PLANTED[what] == "hang" else 20.0)
    verdict = runner.again(saved)
    assert PLANTED[what] in {finding.kind for finding in verdict.findings}, verdict


def test_a_broken_file_must_not_be_taken_for_a_whole_one(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved)
    packed = saved / "in/b.jsonl.gz"
    packed.write_bytes(gzip.compress((saved / "in/a.jsonl").read_bytes()))
    arguments = ["dedup", "in/b.jsonl.gz", "-o", "out", "--backend", "cpu"]
    assert main(arguments) == 0 and list(faults(saved, arguments)) == []
    packed.write_bytes(packed.read_bytes()[:-9])
    assert [kind for kind, _ in faults(saved, arguments)] == ["accepted"]


@pytest.mark.parametrize("format", NAMES)
def test_a_few_cases(format: str, runner: Runner) -> None:
    """The same on every machine; `ci/fuzz` runs as many as there is time for."""
    numbers = [number for number in range(FEW * 2) if not is_large(format, number)][:FEW]
    for number in numbers:
        verdict = runner.run(format, "suite", number)
        assert verdict.findings == [], verdict


def is_large(format: str, number: int) -> bool:
    """Whether a case takes seconds."""
    if format not in FILES:
        return False
    case = Case(format, "suite", number)
    with tempfile.TemporaryDirectory() as folder:
        cases.lay(Path(folder))
        FILES[format](case, Path(folder))
    return case.large


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
