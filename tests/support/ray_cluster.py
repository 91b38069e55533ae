"""A Ray cluster of several node processes on this machine, shared by the tests of a file, and inputs for it."""

import logging
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gpulsh
from gpulsh.budget import TaskSizes
from gpulsh.store.manifest import Manifest
from tests.crash.test_resume import results
from tests.support.files import write_rows
from tests.support.texts import SECRETS

ray = pytest.importorskip("ray", reason="Ray has no wheel for this Python")

from ray.cluster_utils import Cluster  # noqa: E402

import gpulsh.run.engines.ray as engine  # noqa: E402

ROOT = Path(__file__).parents[2]
OPTIONS: dict[str, Any] = {"backend": "cpu", "threads": 1, "memory": "512MiB"}
SMALL_STORE = 80 << 20  # bytes: containers have little shared memory
PROCESSORS = (1, 2)  # of the nodes
# Each worker that Ray starts in advance takes seconds of a processor; and other tests, which run beside
# these, would leave almost none to workers of its usual niceness.
SPEEDY = {"RAY_enable_worker_prestart": "0", "RAY_prestart_worker_first_driver": "0", "RAY_worker_niceness": "0"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of several nodes, which run this checkout."""
    before = dict(os.environ)
    os.environ |= {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0", **SPEEDY}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": PROCESSORS[0], "object_store_memory": SMALL_STORE, "include_dashboard": False},
    )
    try:
        for processors in PROCESSORS[1:]:
            cluster.add_node(num_cpus=processors, object_store_memory=SMALL_STORE)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        os.environ.clear()
        os.environ |= before


@pytest.fixture(scope="module")
def joined(cluster: Any) -> str:
    """The cluster's address; this process has joined it."""
    ray.init(cluster.address, log_to_driver=False, logging_level=logging.CRITICAL)
    return str(cluster.address)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Seven files of about one size, with duplicates inside and across them."""
    folder = tmp_path / "in"
    source = random.Random(5)
    words = [f"word{number}" for number in range(400)]
    pages = [" ".join(source.choices(words, k=30)) for _ in range(25)]
    for number in range(7):
        rows = [
            " ".join([*source.choice(pages).split()[: source.choice([30, 30, 29, 20])], *source.choices(words, k=2)])
            for _ in range(30)
        ]
        columns = {"score": [source.randrange(50) for _ in range(33)], "key": [f"{number}/{row}" for row in range(33)]}
        name = f"{number}.parquet" if number % 2 else f"{number}.jsonl"
        write_rows(folder / name, pa.table({"text": [*rows, pages[number], None, "!"], **columns}))
    return folder


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Cut the work into small ranges and groups, and partitions of so many bytes."""

    def small(partition: int) -> None:
        cut = TaskSizes(partition=partition, digests=1000, group=5_000, memory=1 << 30)
        monkeypatch.setattr("gpulsh.run.file_run.task_sizes", lambda *_: cut)

    return small


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The finished steps, in order."""
    names: list[str] = []
    finish = Manifest.add

    def noted(self: Manifest, step: str, *made: Any, **how: Any) -> None:
        finish(self, step, *made, **how)
        names.append(step)

    monkeypatch.setattr(Manifest, "add", noted)
    return names


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes of the workers."""
    found: list[int] = []
    began = engine.RayRunner._greeted

    def noted(self: Any, member: Any, answer: Any) -> None:
        if isinstance(answer, dict):
            found.append(int(answer["process"]))
        began(self, member, answer)

    monkeypatch.setattr(engine.RayRunner, "_greeted", noted)
    return found


def kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def passages_as_of_a_local_run(joined: str, inputs: Path, tmp_path: Path, **options: Any) -> None:
    """Check passages and cut texts on the cluster at `joined`, in many partitions, against a local run."""
    given: dict[str, Any] = {**OPTIONS, "cut": True, "id_column": "key", **options}
    lines = [{"key": f"z{n}", "text": f"page {n}\nall rights reserved\nand word {n % 7}"} for n in range(300)]
    write_rows(inputs / "z.jsonl", lines)
    local = gpulsh.passages_files(inputs, tmp_path / "local", **given, secret=SECRETS[0])
    small = TaskSizes(partition=20_000, digests=1000, group=5_000, memory=1 << 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.run.file_run.task_sizes", lambda *_: small)
        found = gpulsh.passages_files(inputs, tmp_path / "ray", **given, engine="ray", address=joined)
    assert results(tmp_path / "ray") == results(tmp_path / "local")
    assert found.report["engine"]["name"] == "ray" and local.report["passages"]["passages"] > 50
    for part in ("passages", "windows", "frequent"):
        assert found.report[part] == local.report[part]
    local_cut = gpulsh.cut_files(inputs, tmp_path / "cut", passages=local.passages, **OPTIONS)
    where = {"passages": found.passages, **OPTIONS, "engine": "ray", "address": joined}
    ray_cut = gpulsh.cut_files(inputs, tmp_path / "ray-cut", **where)
    assert results(ray_cut.output) == results(local_cut.output)
