"""The benchmarks and tests for a device, run on the host at tiny sizes: no line of them meets a device first."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu import corpora, operations, page, stress
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
