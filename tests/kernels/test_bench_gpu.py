"""The benchmarks and tests for a device, run on the host at tiny sizes: no line of them meets a device first."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu import corpora, operations, page, parity, stress
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.cases import roofline
from gpulsh.backends.cuda import backend, device
from gpulsh.backends.reference import ReferenceBackend
from tests.kernels import host
from tests.kernels.cuts import build_kernels
from tests.kernels.host_cupy import HostCupy

pytestmark = pytest.mark.kernels
TINY = 2e-5
ROOT = Path(__file__).parents[2]


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostCupy]:
    """The host in the place of a device, for everything that imports cupy."""
    build_kernels()
    made = HostCupy()
    monkeypatch.setitem(sys.modules, "cupy", made)
    monkeypatch.setattr(host, "ORDERS", {"ascending": 0})  # other tests run the kernels in every order
    caches = (device.why_unavailable, backend._device)
    for cache in caches:
        cache.cache_clear()
    yield made
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def bench(cupy: HostCupy, tmp_path: Path) -> Bench:
    return Bench(cupy, tmp_path, scale=TINY, rounds=3, say=lambda _: None)


def test_a_case_that_fails_leaves_the_others_and_the_status(
    cupy: HostCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*_: Any) -> Any:
        return np.zeros(512, np.uint32)

    monkeypatch.setattr(roofline, "expected", wrong)
    assert main([f"--scale={TINY}", "--rounds=3", "--cases=roofline,rivals", f"--output={tmp_path}"]) == 1
    assert "failed: roofline" in capsys.readouterr().err
    records = page.read(tmp_path)
    assert "AssertionError" in records["roofline"]["error"] and records["rivals"]["rows"]
    assert "**Failed:** AssertionError" in (tmp_path / page.PAGE).read_text()


def test_without_a_device_nothing_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    device.why_unavailable.cache_clear()
    assert main([f"--output={tmp_path / 'none'}"]) == 1 and parity.main([f"--output={tmp_path / 'none'}"]) == 1
    device.why_unavailable.cache_clear()
    assert not (tmp_path / "none").exists()


def test_a_wrong_operation_is_found(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    text = corpora.make_text(np.full(12, 5, np.int64))
    wrong = type(bench.backend).intersect

    def off_by_one(self: Any, *given: Any) -> Any:
        both, either = wrong(self, *given)
        return both + np.int64(1), either

    monkeypatch.setattr(type(bench.backend), "intersect", off_by_one)
    with pytest.raises(AssertionError, match="intersect"):
        operations.check(bench.backend, text, ReferenceBackend())


def test_every_operation_has_a_row() -> None:
    found = operations.run(ReferenceBackend(), corpora.make_text(np.full(12, 5, np.int64)))
    assert {name.partition(" ")[0] for name in found} == operations.operations_of()


def test_texts_are_the_same_with_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "BLOCK", 64)
    lengths = np.arange(60)
    made = []
    for threads in (1, 3):
        monkeypatch.setattr(corpora, "cores", lambda threads=threads: threads)
        made.append(corpora.make_text(lengths))
    np.testing.assert_array_equal(made[0].values, made[1].values)
    texts = [made[0].values[a:b].tobytes() for a, b in zip(made[0].offset[:-1], made[0].offset[1:], strict=True)]
    copies = [i for i in range(9, 60, 10) if texts[i] == texts[i - 1]]
    assert copies == list(range(9, 60, 10))
    near = [i for i in range(14, 60, 10) if texts[i] != texts[i - 1] and texts[i][: -corpora.PHRASE] in texts[i - 1]]
    assert len(near) >= 4  # unless the same phrase was drawn again
    "".join(text.decode() for text in texts)
    for script in ("cjk", "mixed"):
        assert corpora.phrases(script).shape == (corpora.PHRASES, corpora.PHRASE)  # type: ignore[arg-type]
        corpora.phrases(script).tobytes().decode()  # type: ignore[arg-type]


def made_up(folder: Path) -> dict[str, dict[str, Any]]:
    """Records as a device would leave them, of a few rows each."""
    header = {
        "device": "A made-up device",
        "date": "2026-01-02",
        "multiprocessors": 2,
        "memory_GiB": 8.0,
        "cpu": "a cpu",
        "smi": {"driver_version": "1.2"},
        "cuda_driver": 13000,
        "cuda_runtime": 13000,
        "cupy": "14",
        "gpulsh": "0",
        "commit": None,
        "command": "ci/bench-gpu",
        "seconds": 1.0,
        "checks": ["one | two"],
        "not_measured": ["x"],
    }
    times = {"median ms": 1.23456, "min ms": 1.0, "max ms": 2.0, "rounds": 3}
    operation = {"operation": "set_sketch", "input": "rows of 50", **times, "GB/s": 10.0, "kernels": {"minhash": {}}}
    rows = {
        "roofline": [{"what": "device copy", "rate": 1.0, "unit": "GB/s", **times}],
        "kernels": [
            {**operation, "% of copy": 3.0, "% of multiply-adds": 61.5},
            {**operation, "operation": "shingle", "% of copy": 44.0, "% of multiply-adds": None},
        ],
        "endtoend": [
            {"from": "host memory", **times, "stages": {"sign": 1.0, "collide": 0.4, "verify": 0.7}},
            {"from": "Parquet files", **times, "stages": {"sign": 1.5, "collide": 0.4, "verify": 0.9, "write": 0.1}},
        ],
    }
    figures = {"copy": 3e11, "multiply_add": 2e12}
    for name, found in rows.items():
        record = {"case": name, "title": f"About {name}", **header, "rows": found, "figures": figures}
        (folder / f"{name}.json").write_text(json.dumps(record))
    return page.read(folder)


def test_the_page(tmp_path: Path) -> None:
    made_up(tmp_path)
    text = page.write(tmp_path).read_text()
    assert "# A made-up device, 2026-01-02" in text and "driver 1.2" in text
    assert "| set_sketch | rows of 50 | 1.235 |" in text
    assert "- not measured: x" in text and "kernels |" not in text
    with pytest.raises(FileNotFoundError, match=r"holds none of roofline\.json"):
        page.write(tmp_path / "missing")


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip(
        "matplotlib", reason="matplotlib, which draws the picture of a device's records, is not installed"
    )
    made_up(tmp_path)
    page.write(tmp_path)
    first = (tmp_path / page.PICTURE).read_bytes()
    page.write(tmp_path)
    assert b"</svg>" in first and (tmp_path / page.PICTURE).read_bytes() == first
    from benchmarks.gpu.picture import draw

    assert str(draw({"rivals": {}}, tmp_path / "none.svg")).startswith("No picture")


REPORT = """<testsuites><testsuite>
<testcase name="test_a[device-ones-3]"/><testcase name="test_b[host-ones]"/>{more}
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("more", "status", "skips_allowed", "passed", "words"),
    [
        ("", 0, False, True, "2 tests, 1 on the device, 0 skipped"),
        ('<testcase name="test_c[device-small]"><skipped message="why"/></testcase>', 0, False, False, "small]: why"),
        ('<testcase name="test_c[host-small]"><skipped message="why"/></testcase>', 0, True, True, "1 skipped"),
        (
            '<testcase name="c[device-a]"><skipped message="torch is not installed"/></testcase>'
            '<testcase name="c[device-b]"><skipped message="orjson is not installed"/></testcase>',
            0,
            False,
            True,
            "2 ski",
        ),
        ('<testcase name="test_c[device-small]"><failure/></testcase>', 1, False, False, "test_c"),
        ("", 1, False, False, "status 1"),
    ],
    ids=["passed", "skipped", "skipped on the host", "skipped without torch and orjson", "failed", "broken off"],
)
def test_judging_a_run_of_tests(
    more: str, status: int, skips_allowed: bool, passed: bool, words: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT.replace("{more}", more))
    verdict = parity.judge(parity.read_report(report), status, skips_allowed=skips_allowed)
    assert verdict["passed"] is passed and words in verdict["verdict"]


COLLECTING = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"orjson", "zstandard", "fsspec", "matplotlib", "polars"}:
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
given = [*folders, "--collect-only", "-qq", "-p", "no:cacheprovider", "-m", "kernels"]
sys.exit(pytest.main(given, [Marks()]))
"""


def test_where_a_device_is_and_little_else_the_marker_chooses_what_runs_on_it() -> None:
    """The kernels' tests need nothing but NumPy, pytest and hypothesis."""
    done = subprocess.run([sys.executable, "-c", COLLECTING], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    device_cuts = re.compile(r"[\[-]device-(small|ones|default)\b")
    found = [line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("True ", "False "))]
    marked = {name for told, name in found if told == "True"}
    assert len(marked) > 100 and len(found) - len(marked) > 100
    assert marked == {name for _, name in found if device_cuts.search(name)}


TINY_STRESS = ["--megabytes=0.02", "--rounds=3", "--batch=2000"]


def test_the_stress_compares_batches_in_flight(cupy: HostCupy, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    assert stress.main(TINY_STRESS) == 0
    each, whole = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"each, keep: 3 rounds of \d\d+ batches, .* equal the CPU's", each), each
    assert re.fullmatch(r"Index.add in \d+ parts, deduplicate: \d+ dropped, equal the CPU's", whole), whole
