"""The judge of `ci/fuzz` finds every planted fault, and nothing in some cases of each format."""

import gzip
from pathlib import Path

import pytest

from tests.fuzz import case as cases
from tests.fuzz.case import Case
from tests.fuzz.damage import repeated_member
from tests.fuzz.formats import FILES, NAMES
from tests.fuzz.planted import PLANTED
from tests.fuzz.runner import Runner
from tests.test_fuzz import ARGUMENTS, pytestmark, runner, saved

__all__ = ["pytestmark", "runner", "saved"]


@pytest.mark.parametrize("fault", PLANTED)
def test_every_fault_is_found(fault: str, saved: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    Case("jsonl", "planted", 0, ARGUMENTS, target=f"tests.fuzz.planted:{fault}").save(saved)
    monkeypatch.setattr(runner, "_limit", 0.3 if PLANTED[fault] == "hang" else 20.0)
    verdict = runner.again(saved)
    assert PLANTED[fault] in verdict.kinds, verdict


@pytest.mark.parametrize("format", NAMES)
def test_some_cases(format: str, runner: Runner) -> None:
    for number in range(12):
        verdict = runner.run(format, "soak", number)
        assert verdict.findings == [], verdict


@pytest.mark.parametrize("format", FILES)
def test_a_seed_gives_the_same_files(format: str, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        folder, case = tmp_path / name, Case(format, "seed", 5)
        cases.make_folders(folder)
        FILES[format](case, folder)
        files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
        made.append((case.arguments, case.damage, {name: path.read_bytes() for name, path in files.items()}))
    assert made[0] == made[1]


def test_a_finding_is_saved_and_found_again(
    tmp_path: Path, saved: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    Case("jsonl", "planted", 0, ARGUMENTS, target="tests.fuzz.planted:similarity").save(saved)
    monkeypatch.setattr(runner, "_findings", tmp_path / "findings")
    first = runner.again(saved)
    assert first.saved is not None and "evidence" in (first.saved / "finding.txt").read_text()
    assert {path.name for path in first.saved.iterdir()} >= {"in", "beside", "case.json", "finding.txt"}
    assert runner.again(first.saved).findings == first.findings


@pytest.mark.parametrize(("unit", "count"), [(b"a", 0), (b"abc" * 99, 1), (b"\0" * 1000, 37), (b"line\n", 1000)])
def test_repeated_members_are_gzip(unit: bytes, count: int) -> None:
    assert gzip.decompress(repeated_member(b"head", unit, count, b"tail")) == b"head" + unit * count + b"tail"
