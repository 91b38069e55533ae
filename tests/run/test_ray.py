"""Runs on a Ray cluster of several node processes on this machine: the bytes of a local run, whoever is killed."""

from __future__ import annotations

import bz2
import json
import logging
import lzma
import os
import random
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.backends.compiling import COMPILING
from gpulsh.budget import Cut
from gpulsh.errors import BackendError, ChangedInputError, InputError, ParameterError
from gpulsh.io.file import File
from gpulsh.run.engines.steps import Steps
from gpulsh.run.job import Made, Workplace
from gpulsh.store.manifest import Manifest
from tests.support.texts import SECRETS

ray = pytest.importorskip("ray", reason="Ray has no wheel for this Python")

from ray.cluster_utils import Cluster  # noqa: E402

import gpulsh.run.engines.ray as engine  # noqa: E402
from gpulsh.run.engines import worker  # noqa: E402
from gpulsh.run.engines.ray import check_reachable  # noqa: E402

ROOT = Path(__file__).parents[2]
OPTIONS: dict[str, Any] = {"backend": "cpu", "threads": 1, "memory": "512MiB"}
SMALL_STORE = 80 << 20  # bytes: containers have little shared memory
PROCESSORS = (0, 1, 2)  # of the nodes; the head does no work
# Each worker that Ray starts before anyone asks for it takes seconds of a processor; and other tests, which run beside
# these, would leave almost none to workers of its usual niceness.
SPEEDY = {
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",
}


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
    """Its address; this process is in it."""
    ray.init(cluster.address, log_to_driver=False, logging_level=logging.CRITICAL)
    return str(cluster.address)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Seven files of about one size, with duplicates in and between them."""
    folder = tmp_path / "in"
    folder.mkdir()
    source = random.Random(5)
    words = [f"word{number}" for number in range(400)]
    pages = [" ".join(source.choices(words, k=30)) for _ in range(25)]
    for number in range(7):
        rows = [
            " ".join([*source.choice(pages).split()[: source.choice([30, 30, 29, 20])], *source.choices(words, k=2)])
            for _ in range(30)
        ]
        table = pa.table(
            {
                "text": [*rows, pages[number], None, "!"],
                "score": [source.randrange(50) for _ in range(33)],
                "key": [f"{number}/{row}" for row in range(33)],
            }
        )
        if number % 2:
            pq.write_table(table, folder / f"{number}.parquet")
        else:
            lines = "".join(f"{json.dumps(row)}\n" for row in table.to_pylist())
            (folder / f"{number}.jsonl").write_text(lines)
    return folder


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Cuts the work into small ranges and groups, and partitions of so many bytes."""

    def small(partition: int) -> None:
        cut = Cut(partition=partition, digests=1000, group=5_000, memory=1 << 30)
        monkeypatch.setattr("gpulsh.run.files.cut", lambda memory, sizes: cut)

    return small


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that are finished, one after another."""
    names: list[str] = []
    finish = Steps.finish

    def told(self: Steps, step: str, made: Any) -> None:
        finish(self, step, made)
        names.append(step)

    monkeypatch.setattr(Steps, "finish", told)
    return names


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes of the workers that were taken on."""
    found: list[int] = []
    began = engine._Pool._began

    def noted(self: Any, member: Any, answer: Any) -> None:
        if isinstance(answer, dict):
            found.append(int(answer["process"]))
        began(self, member, answer)

    monkeypatch.setattr(engine._Pool, "_began", noted)
    return found


def results(out: Path) -> dict[str, bytes]:
    """All that a run gives but its report, which tells times."""
    files = {str(path.relative_to(out)): path for path in sorted(out.rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith("report")}


def kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


FIRST: dict[str, Any] = {}
LONGEST = {"keep": "longest", "id_column": "key"}
SCORE = {"keep": "score", "resolve": "components", "id_column": "key"}
CONTAINED = {"measure": "containment", "id_column": "key"}


@pytest.mark.parametrize(
    ("partitions", "size", "threads", "options", "secret"),
    [
        (1, 1 << 30, 1, LONGEST, 1),
        (2, 40_000, 2, SCORE, 2),
        (7, 1, 1, FIRST, 3),
        (7, 1, 2, CONTAINED, 4),
    ],
)
def test_the_bytes_are_those_of_a_local_run(
    joined: str,
    inputs: Path,
    tmp_path: Path,
    cuts: Callable[[int], None],
    steps: list[str],
    partitions: int,
    size: int,
    threads: int,
    options: dict[str, Any],
    secret: int,
) -> None:
    """Of another secret, too, which workers read in the manifest."""
    options = {**OPTIONS, "threads": threads, **options}
    local = gpulsh.deduplicate_files(inputs, tmp_path / "local", **options, secret=SECRETS[0])
    wanted = results(tmp_path / "local")
    cuts(size)
    steps.clear()
    asked = {**options, "engine": "ray", "address": joined, "secret": SECRETS[secret]}
    result = gpulsh.deduplicate_files(inputs, tmp_path / "ray", **asked)
    assert results(tmp_path / "ray") == wanted and len(wanted) == 8
    assert {**result.funnel, "seconds": None} == {**local.funnel, "seconds": None}
    assert result.report["sampled"] == local.report["sampled"]
    assert bool(result.report["sampled"]["below_one"]) == ("measure" not in options)  # by containment none are drawn
    assert sum(step.startswith("sign-") for step in steps) == partitions
    for stage in ("prefix" if "measure" in options else "collide", "compare", "verify"):
        assert sum(step.startswith(f"{stage}-") for step in steps) > 3, stage
    assert result.report["engine"] == {"name": "ray", "workers": sum(n // threads for n in PROCESSORS)}
    assert result.report["backend"] == {"name": "cpu", "device": None}
    assert result.funnel["dropped"] > 50


def test_a_document_larger_than_a_share_of_a_worker_has_it_alone(
    joined: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 512 MiB a document may have 128, and 16 where eight tasks share them."""
    folder = tmp_path / "in"
    folder.mkdir()
    large = 110 * "".join(f"word{number} " for number in range(20_000))
    assert len(large) > 16 << 20
    for number, text in enumerate([large, "other words", "other  words!", large + "more", "still other"]):
        (folder / f"{number}.jsonl").write_text(json.dumps({"text": text}) + "\n")
    gpulsh.deduplicate_files(folder, tmp_path / "local", **OPTIONS)
    cut = Cut(partition=1, digests=1000, group=1 << 28, memory=512 << 20, abreast=1)
    monkeypatch.setattr("gpulsh.run.files.cut", lambda memory, sizes: cut)
    monkeypatch.setattr(engine, "most_abreast", lambda threads, memory: 8)
    refused: list[Any] = []
    answers = engine._Pool.answers

    def noted(self: Any, waiting: Any) -> Any:
        found = answers(self, waiting)
        refused.extend(errand for errand, answer in found if isinstance(answer, worker.Failure))
        return found

    monkeypatch.setattr(engine._Pool, "answers", noted)
    gpulsh.deduplicate_files(folder, tmp_path / "ray", **OPTIONS, engine="ray", address=joined)
    assert results(tmp_path / "ray") == results(tmp_path / "local")
    again = {errand.step for errand in refused if errand.abreast == 8}
    assert sum(step.startswith("sign-") for step in again) == sum(step.startswith("gather-") for step in again) == 2


def test_relative_paths_and_inputs_of_sources(
    joined: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: Callable[[int], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    cuts(1)
    keep = "source:in/0.jsonl,in/3.parquet,in/[4-6].*"
    for out in ("local", "ray"):
        gpulsh.deduplicate_files(
            keep.removeprefix("source:").split(",")[::-1], out, protect="in/1.parquet", keep=keep, engine=out, **OPTIONS
        )
    assert results(Path("local")) == results(Path("ray"))


@pytest.mark.parametrize("keep", ["first", "longest"])
def test_runs_through_an_index(
    keep: str, joined: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: Callable[[int], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = sorted(map(str, inputs.iterdir()))
    for cut, out in ((1 << 30, "local"), (1, "ray")):
        cuts(cut)
        asked = {**OPTIONS, "index": f"known-{out}", "keep": keep, "engine": out}
        gpulsh.deduplicate_files(files[:3], f"{out}-before", **asked)
        found = gpulsh.deduplicate_files(files[3:], out, **asked)
        assert found.funnel["earlier"] > 20 and found.funnel["dropped"] > found.funnel["earlier"]
    assert results(Path("local")) == results(Path("ray")) and len(results(Path("ray"))) == 5


def test_folders_with_files_of_equal_names(
    joined: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("2.jsonl", "3.parquet"):
        Path("other").mkdir(exist_ok=True)
        shutil.copy(inputs / name, Path("other", name))
    for out in ("local", "ray"):
        gpulsh.deduplicate_files(["in", "other"], out, within=True, engine=out, **OPTIONS)
    assert results(Path("local")) == results(Path("ray"))
    assert {path.name for path in Path("ray/data").iterdir()} == {"in", "other"}


def test_streams_of_records_written_as_parquet(joined: str, inputs: Path, tmp_path: Path) -> None:
    for number, (name, pack) in enumerate({"c.csv.bz2": bz2.compress, "d.json.xz": lzma.compress}.items()):
        texts = pq.read_table(inputs / f"{2 * number + 1}.parquet").column("text").to_pylist()
        rows = [{"text": text} for text in texts if text is not None]
        listed = json.dumps(rows) if ".json" in name else "\n".join(["text", *(row["text"] for row in rows)])
        (inputs / name).write_bytes(pack(listed.encode()))
    for out, address in (("local", None), ("ray", joined)):
        asked = {**OPTIONS, "format": "parquet", "engine": out, "address": address}
        gpulsh.deduplicate_files(inputs, tmp_path / out, **asked)
    assert results(tmp_path / "ray") == results(tmp_path / "local")
    assert pq.read_table(tmp_path / "ray/data/d.parquet").column_names == ["text"]


def test_workers_killed_in_two_stages(
    joined: str,
    inputs: Path,
    tmp_path: Path,
    cuts: Callable[[int], None],
    processes: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gpulsh.deduplicate_files(inputs, tmp_path / "local", **OPTIONS)
    killed: list[str] = []
    finish = Steps.finish

    def finish_and_kill(self: Steps, step: str, made: Any) -> None:
        finish(self, step, made)
        stage = step.partition("-")[0]
        if stage in ("sign", "verify") and stage not in killed:
            killed.append(stage)
            for process in processes:
                kill(process)

    monkeypatch.setattr(Steps, "finish", finish_and_kill)
    cuts(1)
    gpulsh.deduplicate_files(inputs, tmp_path / "ray", **OPTIONS, engine="ray")
    assert results(tmp_path / "ray") == results(tmp_path / "local")
    assert len(killed) == 2
    for stage in killed:
        assert f"{stage}-" in caplog.text
    assert caplog.text.count("ended: its worker process has died; another one does it") >= 2


def test_a_node_that_is_lost_leaves_its_tasks_to_the_others(
    cluster: Any,
    joined: str,
    inputs: Path,
    tmp_path: Path,
    cuts: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gpulsh.deduplicate_files(inputs, tmp_path / "local", **OPTIONS)
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=SMALL_STORE)]
    places: set[str] = set()
    began, finish = engine._Pool._began, Steps.finish

    def noted(self: Any, member: Any, answer: Any) -> None:
        began(self, member, answer)
        if not isinstance(answer, dict):
            places.add(member.place)

    def finish_and_lose(self: Steps, step: str, made: Any) -> None:
        finish(self, step, made)
        if nodes and len(places) == 1 + sum(PROCESSORS):  # each has tasks, also that of the node
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    monkeypatch.setattr(engine._Pool, "_began", noted)
    monkeypatch.setattr(Steps, "finish", finish_and_lose)
    cuts(1)
    try:
        gpulsh.deduplicate_files(inputs, tmp_path / "ray", **OPTIONS, engine="ray", address=joined)
        assert not nodes and "; another one does it" in caplog.text
    finally:
        for node in nodes:
            cluster.remove_node(node, allow_graceful=False)
    assert results(tmp_path / "ray") == results(tmp_path / "local")


def test_workers_that_always_end_end_the_run(
    joined: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = engine._Pool._began

    def killed(self: Any, member: Any, answer: Any) -> None:
        kill(int(answer["process"]))
        began(self, member, answer)

    monkeypatch.setattr(engine._Pool, "_began", killed)
    said = r"4 workers ended before they could begin, the last on node [\d.]+ \(process \d+\): its worker process"
    with pytest.raises(BackendError, match=said):
        gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS, engine="ray")
    assert not (tmp_path / "out").exists()


RUN = """
import sys, time
import gpulsh.run.files, gpulsh.run.output.folder
from gpulsh.cli import main
from gpulsh.backends.compiling import COMPILING
from gpulsh.budget import Cut
from gpulsh.run.engines.steps import Steps
from gpulsh.run.job import Made, Workplace
finish, finished = Steps.finish, []
def finish_and_wait(self, step, made):
    finish(self, step, made)
    finished.append(step)
    if len(finished) == 3:
        time.sleep(600)  # for its end, which may be long in coming
Steps.finish = finish_and_wait
gpulsh.run.files.cut = lambda memory, sizes: Cut(partition=1, digests=1000, group=5_000, memory=1 << 30)
gpulsh.run.output.folder.worth_resuming = lambda manifest: True
sys.exit(main(sys.argv[1:]))
"""


def started(inputs: Path, out: Path, *more: str) -> subprocess.Popen[bytes]:
    """A run in a process of its own that has finished three steps, and goes no further."""
    options = ["--backend", "cpu", "--threads", "1", "--memory", "512MiB", "--engine", "ray", *more]
    command = [sys.executable, "-c", RUN, "dedup", str(inputs), "-o", str(out), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=ROOT)
    manifest, deadline = out / "_work" / "manifest.jsonl", time.monotonic() + 300
    while not manifest.exists() or manifest.read_bytes().count(b"\n") < 4:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    return process


def test_a_killed_driver_is_resumed(
    joined: str,
    inputs: Path,
    tmp_path: Path,
    cuts: Callable[[int], None],
    steps: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    gpulsh.deduplicate_files(inputs, tmp_path / "local", **OPTIONS)
    cuts(1)
    for engine_name in ("ray", "local"):
        out = tmp_path / f"with {engine_name}"
        with started(inputs, out, "--address", joined) as process:
            process.kill()
        before = re.findall('"step": "([^"]+)"', (out / "_work" / "manifest.jsonl").read_text())
        damaged = out / "_work" / f"{before[1]}-digests.arrow"
        damaged.write_bytes(damaged.read_bytes()[:-1])
        steps.clear()
        gpulsh.deduplicate_files(inputs, out, **OPTIONS, engine=engine_name, resume=True)
        assert results(out) == results(tmp_path / "local")
        assert not (out / "_work").exists()
        assert set(steps) & set(before) == {before[1]} and len(before) >= 3
        assert f"{damaged.name} is missing or damaged" in caplog.text
        caplog.clear()


def test_a_finished_run_asks_no_cluster(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS)
    monkeypatch.delattr(engine, "Cluster")
    options = {**OPTIONS, "engine": "ray", "address": "192.0.2.1:6379", "resume": True}
    assert gpulsh.deduplicate_files(inputs, tmp_path / "out", **options).report == done.report
    with pytest.raises(ParameterError, match="threads is 0"):
        gpulsh.deduplicate_files(inputs, tmp_path / "out", **{**options, "threads": 0})


def test_interrupted_on_a_cluster_of_its_own(inputs: Path, tmp_path: Path, cuts: Callable[[int], None]) -> None:
    out = tmp_path / "out"
    with started(inputs, out, "--address", "local") as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert process.returncode == 130, said
    assert said.splitlines()[-1] == "gpulsh: interrupted" and "; --resume goes on with it" in said
    assert "Traceback" not in said
    gpulsh.deduplicate_files(inputs, tmp_path / "local", **OPTIONS)
    cuts(1)
    gpulsh.deduplicate_files(inputs, out, **OPTIONS, resume=True)
    assert results(out) == results(tmp_path / "local")


def test_a_cluster_of_its_own_that_has_nowhere_to_write(inputs: Path, tmp_path: Path) -> None:
    above = tmp_path / "file"
    above.touch()
    told = alone(inputs, tmp_path / "out", RAY_TMPDIR=str(above))
    assert told.returncode == 1 and not (tmp_path / "out").exists()
    (line,) = told.stderr.splitlines()
    assert line.startswith("gpulsh: error: a Ray cluster could not be started on this machine: ")
    assert line.endswith(
        f"its files go to {above}/ray, where 0 B can be written: set RAY_TMPDIR to a folder with more room"
    )


def test_a_first_run_without_a_home_on_a_cluster_of_its_own(inputs: Path, tmp_path: Path) -> None:
    """The cluster is still not open to others; kernels are told of once, and are no stage's time."""
    nowhere, kernels, out = tmp_path / "gone", tmp_path / "kernels", tmp_path / "out"
    told = alone(inputs, out, HOME=str(nowhere), NUMBA_CACHE_DIR=str(kernels))
    assert told.returncode == 0, told.stderr
    assert not nowhere.exists() and any(kernels.rglob("*.nbc"))
    assert told.stderr.count("gpulsh: compiling kernels ") == 1
    report = json.loads((out / "report.json").read_text())
    assert report["compiling"] > 1
    assert report["compiling"] + sum(report["funnel"]["seconds"].values()) < report["seconds"]
    gpulsh.deduplicate_files(inputs, tmp_path / "local", **OPTIONS)
    assert results(out) == results(tmp_path / "local")


def alone(inputs: Path, out: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command on a cluster of its own."""
    command = [sys.executable, "-m", "gpulsh", "dedup", str(inputs), "-o", str(out), "--engine", "ray"]
    given = [*command, "--backend", "cpu", "--threads", str(os.cpu_count()), "--memory", "512MiB"]  # one worker
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    around = {**kept, "PYTHONPATH": str(ROOT), **SPEEDY, **environment}
    return subprocess.run(given, check=False, capture_output=True, text=True, env=around)


def test_the_first_error_is_told_as_a_local_run_tells_it(
    joined: str, inputs: Path, tmp_path: Path, cuts: Callable[[int], None]
) -> None:
    for number in (2, 4, 6):
        with open(inputs / f"{number}.jsonl", "a") as file:
            file.write("{broken\n")
    cuts(1)
    said = []
    for how in ({}, {"engine": "ray"}):
        with pytest.raises(InputError) as caught:
            gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS, **how)
        said.append((type(caught.value), str(caught.value)))
        assert not (tmp_path / "out").exists()
    assert said[0] == said[1] and "2.jsonl" in said[0][1]
    assert "On node" in caught.value.__notes__[0]  # for --verbose


def test_what_is_wrong_is_said_before_work_begins(joined: str, inputs: Path, tmp_path: Path) -> None:
    def run(**how: Any) -> None:
        gpulsh.deduplicate_files(inputs, tmp_path / "out", **{**OPTIONS, **how})

    with pytest.raises(ParameterError, match="engine is 'spark'; give one of 'local', 'ray'"):
        run(engine="spark")
    with pytest.raises(ParameterError, match="engine is 'local'; give engine='ray' with it"):
        run(address=joined)
    with pytest.raises(ParameterError, match="address is 7; give that of a Ray cluster"):
        run(engine="ray", address=7)
    with pytest.raises(ParameterError, match="devices are of this machine"):
        run(engine="ray", devices=[0])
    with pytest.raises(ParameterError, match=rf"'192.0.2.1:1' and this process is in the Ray cluster at {joined}"):
        run(engine="ray", address="192.0.2.1:1")
    with pytest.raises(BackendError, match=r"room for a worker, which takes 500 processors and 536\.9 MB"):
        run(engine="ray", threads=500)
    with pytest.raises(BackendError, match="takes a GPU, 1 processor and"):
        run(engine="ray", backend="cuda")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("nodes", "backend", "threads", "gigabytes", "workers"),
    [
        ([{"CPU": 16, "memory": 64 << 30}], "cpu", 4, 4, 4),
        ([{"CPU": 16, "memory": 15 << 30}], "cpu", 4, 2, 4),
        ([{"CPU": 16, "memory": 64 << 30}, {"CPU": 2, "memory": 64 << 30}, {"memory": 1 << 30}], "cpu", 2, 4, 9),
        ([{"CPU": 8, "memory": 1 << 30}], "cpu", 4, 0.5, 2),
        ([{"CPU": 16, "GPU": 8, "memory": 64 << 30}, {"CPU": 64, "memory": 64 << 30}], "cuda", 2, 4, 8),
        ([{"CPU": 4, "GPU": 8, "memory": 64 << 30}], "cuda", 1, 4, 4),
    ],
)
def test_what_a_worker_takes_of_the_nodes(
    nodes: list[dict[str, float]],
    backend: str,
    threads: int,
    gigabytes: float,
    workers: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_nodes", lambda: nodes)
    room = engine.Cluster(None, "auto", None, None)._chosen_room()
    assert (room.backend, room.threads, room.memory / 2**30) == (backend, threads, gigabytes)
    assert room.workers() == workers


def test_an_address_where_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host, port = free.getsockname()
        said = f"the Ray cluster at '{host}:{port}' could not be joined: .*Connection refused"
        with pytest.raises(BackendError, match=said):
            check_reachable(f"{host}:{port}")
    with pytest.raises(ParameterError, match=r"'ray://here:1'; give HOST:PORT, or 'auto' on a machine of the cluster"):
        check_reachable("ray://here:1")


@contextmanager
def listening(answer: bytes | None) -> Iterator[tuple[str, list[socket.socket]]]:
    """The address of a service that answers whatever it is told, or says nothing, and those who came."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        held: list[socket.socket] = []

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    held.append(connection)
                    if answer is not None:
                        connection.recv(100)
                        connection.sendall(answer)
                        connection.shutdown(socket.SHUT_WR)

        threading.Thread(target=serve, daemon=True).start()
        host, port = server.getsockname()
        yield f"{host}:{port}", held
        server.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "says nothing in 1 seconds"),
        (b"", "hangs up"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak gRPC"),
        (bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), "does not answer as a Ray cluster in 3 seconds"),  # another gRPC server
    ],
)
def test_an_address_where_another_service_answers(
    answer: bytes | None, told: str, monkeypatch: pytest.MonkeyPatch, inputs: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine, "REACH", 1.0)
    monkeypatch.setattr(engine, "ASKED", 3.0)
    monkeypatch.setattr(engine.ray, "is_initialized", lambda: False)
    with listening(answer) as (address, _), pytest.raises(BackendError, match=f"what listens there {told}"):
        gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS, engine="ray", address=address)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("answer", "calls"), [(None, 1), (bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), 2)])
def test_an_interrupt_while_an_address_is_asked(inputs: Path, tmp_path: Path, answer: bytes | None, calls: int) -> None:
    arguments = ["dedup", str(inputs), "-o", str(tmp_path / "out"), "--engine", "ray", "--address"]
    with listening(answer) as (address, held):
        command = [sys.executable, "-m", "gpulsh", *arguments, address]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=ROOT) as process:
            while len(held) < calls:
                assert process.poll() is None
                time.sleep(0.01)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            assert time.monotonic() - began < 5
    assert not (tmp_path / "out").exists()


def test_without_ray_the_extra_is_named(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "gpulsh.run.engines.ray")
    with pytest.raises(BackendError, match=r'Ray is not installed; pip install "gpulsh\[ray\]"'):
        gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS, engine="ray")


def test_other_versions_on_a_node(joined: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**worker.versions(), "gpulsh": "0.0.1", "Python": "3.9"}
    monkeypatch.setattr(engine, "versions", lambda: other)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    said = rf"node [\d.]+ of the Ray cluster has Python {here} and not 3.9, gpulsh {gpulsh.__version__} and not 0.0.1,"
    with pytest.raises(BackendError, match=said):
        gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS, engine="ray")
    assert not (tmp_path / "out").exists()


def test_a_node_that_does_not_see_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PATIENCE", 0.2)
    out, seen, unseen = (tmp_path / name for name in ("out/_work", "seen.jsonl", "unseen.jsonl"))
    out.mkdir(parents=True)
    seen.touch()

    def told(folder: Path, *paths: Path) -> str:
        files = tuple(File(path.name, path.name, str(path), source=path.name) for path in paths)
        job: Any = SimpleNamespace(files=files, cut=SimpleNamespace(memory=1 << 30))
        answer = worker.Worker().begin(worker.Brief(job, folder, "mine", "reference", 1), "192.0.2.7")
        return str(answer.error) if isinstance(answer, worker.Failure) else str(answer)

    not_shared = "node 192.0.2.7 does not see it; give an output folder on storage that all nodes share"
    assert not_shared in told(tmp_path / "nowhere")
    assert not_shared in told(out)
    (out / worker.TOKEN).write_text("another's")
    assert f"{tmp_path / 'out'}: {not_shared}" in told(out)
    (out / worker.TOKEN).write_text("mine")
    assert f"{out}: node 192.0.2.7 sees no manifest" in told(out, seen)
    Manifest.begin(out, {}, bytes(32))
    assert told(out, seen) == "None"
    assert f"unseen.jsonl: node 192.0.2.7 does not see it as {unseen}; put the inputs where" in told(out, seen, unseen)


def test_failures_that_cannot_be_sent_are_told_in_words() -> None:
    class Here(Exception):
        """Of a class that no other process knows."""

    failure = worker._failure(Here("lost"), "192.0.2.7")
    assert type(failure.error) is RuntimeError and str(failure.error) == "Here: lost"
    sent = worker._failure(OSError(28, "No space left on device", "file"), "192.0.2.7").error
    assert isinstance(sent, OSError) and (sent.errno, sent.filename) == (28, "file")


def test_what_a_worker_compiles_goes_back_with_one_of_its_answers() -> None:
    beside = threading.Barrier(2)

    def compiling(place: Any, kernels: int) -> Made:
        beside.wait(60)
        for _ in range(kernels):
            COMPILING.begin()
            time.sleep(0.05)
            COMPILING.end()
        beside.wait(60)
        return Made()

    def fails(place: Any) -> Made:
        COMPILING.begin()
        COMPILING.end()
        raise BackendError("no")

    made = worker.Worker()
    made._node, made._place = "192.0.2.7", Workplace(*[None] * 5)  # type: ignore[arg-type]
    made._compiled = COMPILING.so_far()  # this process is no worker's own
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda kernels: made.work(2, compiling, kernels), (2, 0)))
    found = [answer.compiled for answer in answers if isinstance(answer, worker.Done)]
    assert sum(compiled.kernels for compiled in found) == 2
    assert 0.1 <= sum(compiled.seconds for compiled in found) < 5
    assert isinstance(made.work(1, fails), worker.Failure)
    beside = threading.Barrier(1)
    later = made.work(1, compiling, 0)
    assert isinstance(later, worker.Done) and later.compiled.kernels == 1  # that of the task that failed


@pytest.mark.parametrize("stage", ["gather", "write"])
def test_an_input_that_changes_is_told_by_a_worker(
    joined: str,
    inputs: Path,
    tmp_path: Path,
    cuts: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
) -> None:
    """Its size and its time are what they were."""
    cuts(8_000)
    path = inputs / "4.jsonl"
    run = engine.RayRunner.run

    def change_and_run(self: Any, of: Any) -> Any:
        if of.row.name == stage:
            before = path.stat()
            path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[::-1]))
            os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
        return run(self, of)

    monkeypatch.setattr(engine.RayRunner, "run", change_and_run)
    with pytest.raises(ChangedInputError, match=r"4\.jsonl: changed while it was read: it holds "):
        gpulsh.deduplicate_files(inputs, tmp_path / "out", engine="ray", address=joined, **OPTIONS)
    assert not (tmp_path / "out").exists()


def test_the_example_of_ray_data(
    joined: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [row["text"] for path in sorted(inputs.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), tmp_path / "texts.parquet", row_group_size=40)
    example = str(ROOT / "examples/ray_data.py")
    monkeypatch.setattr(sys, "argv", [example, str(tmp_path / "texts.parquet"), str(tmp_path / "out")])
    runpy.run_path(example, run_name="__main__")
    signatures = gpulsh.MinHash(num_perm=128).from_texts(texts)
    pairs = gpulsh.candidate_pairs(gpulsh.Banding(bands=21, rows=6)(signatures))
    kept = gpulsh.deduplicate(texts, threshold=0.8).keep.sum()
    assert capsys.readouterr().out == f"{len(pairs)} candidate pairs\n{kept} of {len(texts)} kept\n"
    assert len(pairs) > 10 and kept < len(texts) - 10
    assert pq.read_table(tmp_path / "out").num_rows == kept
