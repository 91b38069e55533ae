"""gpulsh passes the judge of `ci/fuzz` in a few cases, and the judge finds faults; ./ci/soak has more of both."""

import gzip
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from gpulsh.cli import main
from tests.fuzz import case as cases
from tests.fuzz.case import Case
from tests.fuzz.damage import repeated_member
from tests.fuzz.formats import FILES, NAMES
from tests.fuzz.judge import faults
from tests.fuzz.planted import PLANTED
from tests.fuzz.runner import Runner
from tests.support.files import write_rows
from tests.support.runs import SOAK, tree

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/PID/statm is Linux's")


def arguments_of(path: str) -> list[str]:
    return ["dedup", path, "-o", "out", "--memory", "512MiB", "--backend", "cpu"]


ARGUMENTS = arguments_of("in/a.jsonl")


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as running:
        yield running


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A correct case: pages, a copy and near-duplicates of them."""
    cases.make_folders(tmp_path / "case")
    words = [f"word{number}" for number in range(30)]
    texts = [" ".join(words), " ".join(words[:29]), " ".join(words).upper(), " ".join(words[15:] + words[:9])]
    write_rows(tmp_path / "case/in/a.jsonl", texts)
    return tmp_path / "case"


@pytest.mark.parametrize("format", NAMES)
def test_gpulsh_passes_a_few_cases(format: str, runner: Runner) -> None:
    """The cases are the same on every machine; `ci/fuzz` runs as many as it has time for."""
    for number in range(12) if SOAK else [number for number in range(4) if not is_large(format, number)][:1]:
        verdict = runner.run(format, "suite", number)
        assert verdict.findings == [], verdict


def is_large(format: str, number: int) -> bool:
    """Whether a case takes seconds."""
    case = Case(format, "suite", number)
    with tempfile.TemporaryDirectory() as folder:
        cases.make_folders(Path(folder))
        FILES[format](case, Path(folder))
    return case.large


@pytest.mark.parametrize(
    "fault", ["honest", "inherited", *(PLANTED if SOAK else ("deletes", "similarity", "line_lost"))]
)
def test_the_judge_finds_faults(fault: str, saved: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_limit", 0.3 if PLANTED.get(fault) == "hang" else 20.0)
    Case("jsonl", "planted", 0, ARGUMENTS, target=f"tests.fuzz.planted:{fault}").save(saved)
    verdict = runner.again(saved)
    if fault in PLANTED:
        assert PLANTED[fault] in verdict.kinds
    else:
        assert (verdict.kinds, verdict.ended.status) == (set(), 0)


def test_the_judge_reads_lines_and_ids_as_gpulsh_does(saved: Path, runner: Runner) -> None:
    """A byte order mark after the first line is text, and ids may be dates that Python cannot hold."""
    with (saved / "in/a.jsonl").open("ab") as lines:
        lines.write(b"\xef\xbb\xbf\n")
    Case("jsonl", "planted", 0, [*ARGUMENTS, "--on-error", "skip"]).save(saved)
    assert runner.again(saved).findings == []
    dates = pa.array([2**62, None, -(2**62)], pa.timestamp("us", "UTC"))
    write_rows(saved / "in/b.parquet", pa.table({"text": ["a b c d e", "f", "a b c d e"], "date": dates}))
    Case("parquet", "planted", 0, [*arguments_of("in/b.parquet"), "--id-column", "date"]).save(saved)
    verdict = runner.again(saved)
    assert (verdict.findings, verdict.ended.status) == ([], 0)


def test_the_judge_allows_damage_in_other_columns(saved: Path, runner: Runner) -> None:
    table = pa.table({"text": ["a b c d e", "f", "a b c d e"], "other": ["x" * 99, "y", "z"]})
    path = Path(write_rows(saved / "in/a.arrow", table))
    end = (101).to_bytes(4, "little")  # of the last value
    path.write_bytes(path.read_bytes().replace(end, b"\xff\xff\xff\x7f", 1))
    Case("arrow", "planted", 0, [*arguments_of("in/a.arrow"), "--write", "duplicates"]).save(saved)
    verdict = runner.again(saved)
    assert (verdict.findings, verdict.ended.status) == ([], 0)


def test_new_filters_of_a_query_are_no_finding(runner: Runner, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query makes the filters that an index lacks."""
    monkeypatch.chdir(saved)
    write_rows("in/b.jsonl", [f"{n} a b c d e f" for n in range(4)])
    for verb, file in (("build", "in/a.jsonl"), ("add", "in/b.jsonl")):
        assert main(["index", verb, "index", file, "--backend", "cpu"]) == 0
    for name in Path("index").glob("*groups-*"):
        name.unlink()
    query = ["index", "query", "index", "in/a.jsonl", "--backend", "cpu"]
    Case("index", "planted", 0, query, writes=[], honest=False).save(saved)
    verdict = runner.again(saved)
    assert verdict.findings == [] and verdict.ended.status == 0, verdict


def test_the_judge_reports_accepted_damage(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved)
    packed = saved / "in/b.jsonl.gz"
    packed.write_bytes(gzip.compress((saved / "in/a.jsonl").read_bytes()))
    arguments = ["dedup", "in/b.jsonl.gz", "-o", "out", "--backend", "cpu"]
    assert main(arguments) == 0 and list(faults(saved, arguments)) == []
    packed.write_bytes(packed.read_bytes()[:-9])
    assert [kind for kind, _ in faults(saved, arguments)] == ["accepted"]


@pytest.mark.parametrize("format", FILES)
def test_a_seed_gives_the_same_files(format: str, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        folder, case = tmp_path / name, Case(format, "seed", 5)
        cases.make_folders(folder)
        FILES[format](case, folder)
        made.append((case.arguments, case.damage, tree(folder)))
    assert made[0] == made[1]


def test_a_finding_is_reproduced(tmp_path: Path, saved: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    Case("jsonl", "planted", 0, ARGUMENTS, target="tests.fuzz.planted:similarity").save(saved)
    monkeypatch.setattr(runner, "_findings", tmp_path / "findings")
    first = runner.again(saved)
    assert first.saved is not None and "evidence" in (first.saved / "finding.txt").read_text()
    assert {path.name for path in first.saved.iterdir()} >= {"in", "beside", "case.json", "finding.txt"}
    assert runner.again(first.saved).findings == first.findings


@pytest.mark.parametrize(("unit", "count"), [(b"a", 0), (b"abc" * 99, 1), (b"\0" * 1000, 37), (b"line\n", 1000)])
def test_repeated_members_are_gzip(unit: bytes, count: int) -> None:
    assert gzip.decompress(repeated_member(b"head", unit, count, b"tail")) == b"head" + unit * count + b"tail"
