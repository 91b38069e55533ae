"""The benchmarks and tests for a device, run on the host at tiny sizes: no line of them runs on a device first."""

import json
import os
import re
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu import corpora, exercise, operations, outcomes, page, parity, stress
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.cases import CASES
from gpulsh.backends.cuda import backend, staging
from gpulsh.backends.protocol import Backend
from gpulsh.backends.reference import ReferenceBackend
from tests.kernels import host
from tests.kernels.cuts import build_kernels
from tests.kernels.host_cupy import HostCupy, devices_unknown

pytestmark = pytest.mark.kernels
TINY = 2e-5
TINY_STRESS = ["--megabytes=0.02", "--rounds=3", "--batch=2000"]
IN_MEMORY = ("device memory", "one Arrow chunk", "Arrow chunks of 1,000 rows", "list of str")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostCupy]:
    """The host takes the place of a device for every module that imports cupy."""
    build_kernels()
    made = HostCupy()
    monkeypatch.setitem(sys.modules, "cupy", made)
    monkeypatch.setattr(host, "ORDERS", {"ascending": 0})  # other tests run the kernels in every order
    with devices_unknown():
        yield made


@pytest.fixture
def bench(cupy: HostCupy, tmp_path: Path) -> Bench:
    return Bench(cupy, tmp_path, scale=TINY, rounds=3, say=lambda _: None)


def outcome(name: str, outcome: str = "passed", message: str = "") -> str:
    return json.dumps({"name": name, "outcome": outcome, "seconds": 0.1, "message": message}) + "\n"


LACKING = "".join(
    outcome(f"c[device-{name}]", "skipped", f"{name} is not installed") for name in ("torch", "jax", "orjson")
)


@pytest.mark.parametrize(
    ("more", "status", "skips_allowed", "passed", "words"),
    [
        ("", 0, False, True, "2 tests, 1 on the device, 0 skipped"),
        (outcome("c[device-small]", "skipped", "why"), 0, False, False, "small]: why"),
        (outcome("c[host-small]", "skipped", "why"), 0, True, True, "1 skipped"),
        (LACKING, 0, False, True, "3 ski"),
        (outcome("test_c[device-small]", "failed"), 1, False, False, "test_c"),
        (outcome("test_c[device-small]") + outcome("test_c[device-small]", "failed"), 1, False, False, "test_c"),
        ("", 1, False, False, "status 1"),
    ],
)
def test_outcomes_of_tests_are_judged(
    more: str, status: int, skips_allowed: bool, passed: bool, words: str, tmp_path: Path
) -> None:
    report = tmp_path / "device.jsonl"
    report.write_text(outcome("test_a[device-ones-3]") + outcome("test_b[host-ones]") + more)
    verdict = parity.judge(outcomes.read(report), status, skips_allowed=skips_allowed)
    assert verdict["passed"] is passed and words in verdict["verdict"]


def test_every_benchmark_writes_a_record(cupy: HostCupy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    status = main([f"--scale={TINY}", "--rounds=3", "--seconds=3600", f"--output={tmp_path}"])
    printed = capsys.readouterr()
    assert status == 0, printed.out + printed.err
    records = page.read(tmp_path)
    assert list(records) == list(CASES)
    for record in records.values():
        assert record["device"] == "Host fibres" and record["command"].startswith("ci/bench-gpu --cases")
        assert record["rows"], record
    # A roofline row for each limit, and a line for each missing package.
    figures = records["roofline"]["figures"]
    limits = ("multiply_add", "multiply_add_minimum", "copy", "host to device", "device to host", "pyarrow")
    assert set(figures) == set(limits)
    measured = {row["operation"] for row in records["kernels"]["rows"]}
    assert measured == operations.operations_of(Backend), "each operation has a row"
    assert records["kernels"]["not_measured"] == []
    assert all(row["% of copy"] > 0 for row in records["kernels"]["rows"])
    assert {row["from"] for row in records["endtoend"]["rows"]} == {
        *(f"{kind}, {source}" for kind in ("pages", "tweets") for source in IN_MEMORY),
        "pages, Parquet files",
    }
    assert any("cudf" in row and "not available" in row for row in records["endtoend"]["not_measured"])
    assert any(row["kernels"] for row in records["kernels"]["rows"])
    assert any("equal to backend='cpu'" in check for check in records["endtoend"]["checks"])
    assert {"cost of a giant, sign", "cost of a giant, shingle_sets"} == set(records["shapes"]["figures"])
    assert len(records["growth"]["rows"]) == 5
    text = (tmp_path / page.PAGE).read_text()
    assert all(record["title"] in text for record in records.values())


def test_the_exercise_runs_every_operation_outside_the_pool(
    cupy: HostCupy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exercise, "LENGTHS", (0, 1, 5, 5, 60, 0))  # the reference takes its time
    assert exercise.main() == 0 and cupy.unpooled
    printed = capsys.readouterr().out
    assert printed.count("equal the reference") == 3 and "not exercised" not in printed


CLEAN = "========= ERROR SUMMARY: 0 errors"
WARNED = "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)"


@pytest.mark.parametrize(
    ("line", "status", "passed", "verdict"),
    [
        (CLEAN, 0, True, ""),
        ("========= ERROR SUMMARY: 2 errors", 99, False, ""),
        (WARNED, 0, False, ""),
        ("no such tool", 0, False, ""),
        (CLEAN, None, False, "not done after 1 s"),
        ("========= Error: Device not supported. Please refer", 1, True, "not run: compute-sanitizer says: Device not"),
    ],
)
def test_output_of_the_sanitizer_is_judged(
    line: str, status: int | None, passed: bool, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parity, "sanitizer", lambda: None)
    assert parity.run_sanitizer("memcheck", 1)["verdict"].startswith("not run")
    asked: list[list[str]] = []

    def run_bounded(command: list[str], limit: float, *, shown: bool) -> Any:
        asked.append(command)
        return status, ["word:5: 9 operations equal the reference", line]

    monkeypatch.setattr(parity, "sanitizer", lambda: "compute-sanitizer")
    monkeypatch.setattr(parity, "run_bounded", run_bounded)
    found = parity.run_sanitizer("racecheck", 1)
    assert found["passed"] is passed and found["verdict"].startswith(verdict)
    assert asked[0][1:3] == ["--tool", "racecheck"]
    assert asked[0][asked[0].index("--report-api-errors") + 1] == "no"
    if passed and not verdict:
        assert found["summary"] == [CLEAN] * 2 and len(found["exercised"]) == 2
        assert "benchmarks.gpu.exercise" in asked[0] and "benchmarks.gpu.stress" in asked[1]


def test_each_part_has_a_record_of_its_own(
    cupy: HostCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_part(part: str, *_: Any, **__: Any) -> dict[str, Any]:
        return {"passed": part != "host", "verdict": part}

    monkeypatch.setattr(parity, "run_part", run_part)
    assert parity.main([f"--output={tmp_path}", "--parts=device,memcheck"]) == 0
    first = (tmp_path / parity.record_of("device")).read_bytes()
    assert parity.main([f"--output={tmp_path}", "--parts=host"]) == 1
    assert "failed: host" in capsys.readouterr().err
    assert (tmp_path / parity.record_of("device")).read_bytes() == first
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        assert set(packed.getnames()) == {f"test-gpu/parity-{part}.json" for part in ("device", "memcheck", "host")}
    record = json.loads(first)
    assert record["device"] == "Host fibres" and record["part"] == record["verdict"] == "device"
    assert record["command"] == f"ci/test-gpu --output={tmp_path} --parts=device,memcheck"


TESTS_THAT_END_BADLY = """
import time, pytest
pytestmark = pytest.mark.kernels
def test_first():
    pass
def test_second():
    assert 1 == 2, "one is not two"
@pytest.mark.skip(reason="why not")
def test_third():
    pass
def test_last():
    print("begun", flush=True)
    time.sleep(600)
"""


def test_tests_run_before_a_timeout_are_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS_THAT_END_BADLY)
    monkeypatch.setattr(parity, "TESTS", (str(tmp_path / "test_some.py"),))
    monkeypatch.setattr(parity, "WORKERS", 1)
    seconds = 20.0
    found: dict[str, Any] = {"tests": 0}
    while found["tests"] < 3:  # on a busy machine pytest is slow to begin
        seconds *= 2
        chosen = ["--rootdir", str(tmp_path), "-c", os.devnull, "-W", "ignore"]
        found = parity.run_tests("not device", chosen, seconds, tmp_path / "some.jsonl", skips_allowed=True)
        assert found["verdict"].startswith(f"not done after {seconds:.0f} s; ")
    assert [name.partition("::")[2] for name in found["failed"]][:1] == ["test_second"]
    assert found["skipped"][0].endswith("test_third: why not")
    assert "one is not two" in (tmp_path / "some.jsonl").read_text()


def test_the_stress_test_finds_errors_of_overlap(cupy: HostCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept arrays are in memory that a lane uses again."""
    kept: dict[Any, Any] = {}

    def keep(self: Any, *arrays: Any) -> list[Any]:
        held = [kept.setdefault((array.shape, array.dtype), array) for array in arrays]
        for there, array in zip(held, arrays, strict=True):
            there[:] = array
        return held

    monkeypatch.setattr(backend.CudaBackend, "keep", keep)
    with pytest.raises(AssertionError, match=r"round 0: (sets of )?batch"):
        stress.main(TINY_STRESS)


def test_a_wrong_operation_is_found(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    text = corpora.make_text(np.full(12, 5, np.int64))
    wrong = type(bench.backend).intersect

    def off_by_one(self: Any, *given: Any) -> Any:
        both, either = wrong(self, *given)
        return both + np.int64(1), either

    monkeypatch.setattr(type(bench.backend), "intersect", off_by_one)
    with pytest.raises(AssertionError, match="intersect"):
        operations.check(bench.backend, text, ReferenceBackend())


COLLECTING = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"orjson", "zstandard", "zlib_ng", "fsspec", "click", "rich", "matplotlib", "polars"}:
            raise ModuleNotFoundError(f"no module {name}", name=name)

sys.meta_path.insert(0, Missing())
import gpulsh.backends.cuda

gpulsh.backends.cuda.why_unavailable = lambda: None
import pytest

class Marks:
    def pytest_collection_finish(self, session):
        for item in session.items:
            on_device = item.get_closest_marker("device") is not None
            print(on_device, item.nodeid)
            assert not (on_device and "kernels_built" in item.fixturenames), f"{item.nodeid} asks for a host compiler"

folders = ["tests/kernels", "tests/backends/parity"]
few = ["-p", "no:cacheprovider", "-p", "no:timeout", "-p", "no:xdist", "-p", "benchmarks.gpu.outcomes"]
given = [*folders, "--collect-only", "-qq", *few, "-m", "kernels"]
sys.exit(pytest.main(given, [Marks()]))
"""


def test_the_device_marker_needs_few_packages() -> None:
    """The kernels' tests need no package of the command, no reader of files but pyarrow, and no plugin of pytest."""
    done = subprocess.run([sys.executable, "-c", COLLECTING], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    device_cuts = re.compile(r"[\[-]device-(small|ones|default)\b")
    found = [line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("True ", "False "))]
    marked = {name for is_marked, name in found if is_marked == "True"}
    assert len(marked) > 100 and len(found) - len(marked) > 100
    assert marked == {name for _, name in found if device_cuts.search(name)}


def test_the_stress_compares_batches_in_flight(cupy: HostCupy, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    assert stress.main(TINY_STRESS) == 0
    each, whole = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"each, keep: 3 rounds of \d\d+ batches, .* equal the CPU's", each), each
    assert re.fullmatch(r"Index.add in \d+ parts, deduplicate: \d+ dropped, equal the CPU's", whole), whole
