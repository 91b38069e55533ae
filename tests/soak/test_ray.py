"""Runs on a Ray cluster: lost nodes, killed drivers, large documents, an index, addresses of other services."""

import bz2
import json
import lzma
import os
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
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
import gpulsh.run.engines.ray as engine
from gpulsh.backends.compiling import COMPILING
from gpulsh.backends.select import select_backend
from gpulsh.budget import TaskSizes
from gpulsh.errors import BackendError, InputError
from gpulsh.run.engines import worker
from gpulsh.run.job import JobContext, TaskResult
from gpulsh.store.manifest import Manifest
from tests.run.test_ray import as_of_a_local_run
from tests.support import ray_cluster
from tests.support.files import write_rows
from tests.support.ray_cluster import OPTIONS, ROOT, cluster, cuts, inputs, joined, results, steps

Cuts = Callable[[int], None]


@pytest.mark.parametrize(
    ("partition", "options"),
    [(1, {"key": "score", "key_only": True, "keep": "longest"}), (40_000, {"measure": "containment", "threads": 2})],
    ids=str,
)
def test_keys_and_containment_give_the_bytes_of_a_local_run(
    joined: str, inputs: Path, tmp_path: Path, cuts: Cuts, steps: list[str], partition: int, options: dict[str, Any]
) -> None:
    """Keys run alone, and containment runs in two partitions."""
    given = {**OPTIONS, "id_column": "key", **options}
    funnel = as_of_a_local_run(joined, inputs, tmp_path, lambda _: cuts(partition), steps, given)
    assert any(step.startswith("keys-" if "key" in options else "prefix-") for step in steps)
    assert funnel["dropped"] > 50


def test_engines_share_an_index(joined: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"key": f"z{n}", "text": f"page {n}\nall rights reserved\nand word {n % 7}"} for n in range(200)]
    for path, some in ((tmp_path / "first", lines[:150]), (tmp_path / "last", lines[50:]), (inputs / "z", lines[100:])):
        write_rows(f"{path}.jsonl", some)
    given: dict[str, Any] = {**OPTIONS, "cut": True, "id_column": "key", "tokens": 4}
    here, there = {"index": tmp_path / "here"}, {"index": tmp_path / "there", "engine": "ray", "address": joined}
    gpulsh.passages_files(tmp_path / "first.jsonl", tmp_path / "first", **given, **here)
    shutil.copytree(here["index"], tmp_path / "there")
    local = gpulsh.passages_files(inputs, tmp_path / "local", **given, **here)
    small = TaskSizes(partition=20_000, digests=1000, group=5_000, memory=1 << 30)
    with monkeypatch.context() as patch:
        patch.setattr("gpulsh.run.file_run.task_sizes", lambda *_: small)
        remote = gpulsh.passages_files(inputs, tmp_path / "ray", **given, **there)
    assert results(remote.output) == results(local.output) and local.report["passages"]["first_earlier"] > 50
    for part in ("passages", "windows", "frequent"):
        assert remote.report[part] == local.report[part]
    last = []
    for path in (tmp_path / "here", tmp_path / "there"):
        last.append(gpulsh.passages_files(tmp_path / "last.jsonl", tmp_path / f"last-{path.name}", **given, index=path))
    assert results(last[0].output) == results(last[1].output)


@pytest.mark.parametrize("options", [{"unit": "line", "max_copies": 1}, {"passages": 3, "protect": "bench.jsonl"}])
@pytest.mark.usefixtures("folder")
def test_lines_and_items_equal_a_local_run(joined: str, inputs: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    lines = {"q1": "all rights reserved and word 3", "q2": "page 200 all rights"}
    write_rows("bench.jsonl", [{"key": key, "text": text} for key, text in lines.items()])
    ray_cluster.passages_as_of_a_local_run(joined, inputs, tmp_path, **options)


def test_a_large_document_gets_a_worker_alone(joined: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document may have 128 of 512 MiB, or 16 where eight tasks share them."""
    folder = tmp_path / "in"
    large = 110 * "".join(f"word{number} " for number in range(20_000))
    assert len(large) > 16 << 20
    for number, text in enumerate([large, "other words", "other  words!", large + "more", "still other"]):
        write_rows(folder / f"{number}.jsonl", [text])
    gpulsh.deduplicate_files(folder, tmp_path / "local", **OPTIONS)
    cut = TaskSizes(partition=1, digests=1000, group=1 << 28, memory=512 << 20, parallel=1)
    monkeypatch.setattr("gpulsh.run.file_run.task_sizes", lambda *_: cut)
    monkeypatch.setattr(engine, "max_parallel", lambda threads, memory: 8)
    refused: list[Any] = []
    answers = engine.RayRunner.exchange

    def noted(self: Any, waiting: Any) -> Any:
        found = answers(self, waiting)
        refused.extend(request for request, answer in found if isinstance(answer, Exception))
        return found

    monkeypatch.setattr(engine.RayRunner, "exchange", noted)
    gpulsh.deduplicate_files(folder, tmp_path / "ray", **OPTIONS, engine="ray", address=joined)
    assert results(tmp_path / "ray") == results(tmp_path / "local")
    again = {request.step for request in refused if request.parallel == 8}
    assert sum(step.startswith("sign-") for step in again) == sum(step.startswith("gather-") for step in again) == 2


def test_the_first_error_equals_that_of_a_local_run(joined: str, inputs: Path, tmp_path: Path, cuts: Cuts) -> None:
    for number in (2, 4, 6):
        with open(inputs / f"{number}.jsonl", "a") as file:
            file.write("{broken\n")
    cuts(1)
    errors = []
    for how in ({}, {"engine": "ray"}):
        with pytest.raises(InputError) as caught:
            gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS, **how)
        errors.append((type(caught.value), str(caught.value)))
        assert not (tmp_path / "out").exists()
    assert errors[0] == errors[1] and "2.jsonl" in errors[0][1]
    assert "On node" in caught.value.__notes__[0]  # for --verbose


def as_local(inputs: Any, **options: Any) -> None:
    """Check that a run in the folder `ray` gives the bytes of a local run in `local`."""
    for out in ("local", "ray"):
        gpulsh.deduplicate_files(inputs, out, engine=out, **OPTIONS, **options)
    assert results(Path("local")) == results(Path("ray"))


@pytest.mark.usefixtures("joined", "inputs", "folder")
def test_relative_paths_and_sources_equal_a_local_run(cuts: Cuts) -> None:
    cuts(1)
    sources = ["in/[4-6].*", "in/3.parquet", "in/0.jsonl"]
    as_local(sources, protect="in/1.parquet", keep="source:" + ",".join(reversed(sources)))


@pytest.mark.usefixtures("joined", "folder")
def test_folders_of_equal_file_names_equal_a_local_run(inputs: Path) -> None:
    Path("other").mkdir()
    for name in ("2.jsonl", "3.parquet"):
        shutil.copy(inputs / name, Path("other", name))
    as_local(["in", "other"], within=True)
    assert {path.name for path in Path("ray/data").iterdir()} == {"in", "other"}


@pytest.mark.usefixtures("joined", "folder")
def test_conversion_to_parquet_equals_a_local_run(inputs: Path) -> None:
    for number, (name, pack) in enumerate({"c.csv.bz2": bz2.compress, "d.json.xz": lzma.compress}.items()):
        texts = pq.read_table(inputs / f"{2 * number + 1}.parquet").column("text").to_pylist()
        rows = [{"text": text} for text in texts if text is not None]
        listed = json.dumps(rows) if ".json" in name else "\n".join(["text", *(row["text"] for row in rows)])
        (inputs / name).write_bytes(pack(listed.encode()))
    as_local("in", format="parquet")
    assert pq.read_table("ray/data/d.parquet").column_names == ["text"]


@pytest.mark.parametrize("keep", ["first", "longest"])
@pytest.mark.usefixtures("joined", "folder")
def test_runs_through_an_index_equal_local_runs(keep: str, inputs: Path, cuts: Cuts) -> None:
    files = sorted(map(str, inputs.iterdir()))
    for cut, out in ((1 << 30, "local"), (1, "ray")):
        cuts(cut)
        asked = {**OPTIONS, "index": f"known-{out}", "keep": keep, "engine": out}
        gpulsh.deduplicate_files(files[:3], f"{out}-before", **asked)
        found = gpulsh.deduplicate_files(files[3:], out, **asked)
        assert found.funnel["earlier"] > 20 and found.funnel["dropped"] > found.funnel["earlier"]
    assert results(Path("local")) == results(Path("ray")) and len(results(Path("ray"))) == 5


def test_tasks_of_a_lost_node_are_repeated(
    cluster: Any,
    joined: str,
    inputs: Path,
    tmp_path: Path,
    cuts: Cuts,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gpulsh.deduplicate_files(inputs, tmp_path / "local", **OPTIONS)
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=ray_cluster.SMALL_STORE)]
    places: set[str] = set()
    began, finish = engine.RayRunner._greeted, Manifest.add

    def noted(self: Any, member: Any, answer: Any) -> None:
        began(self, member, answer)
        if not isinstance(answer, dict):
            places.add(member.place)

    def finish_and_lose(self: Manifest, step: str, *made: Any, **how: Any) -> None:
        finish(self, step, *made, **how)
        if nodes and len(places) == 1 + sum(ray_cluster.PROCESSORS):  # each has tasks, also the node's
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    monkeypatch.setattr(engine.RayRunner, "_greeted", noted)
    monkeypatch.setattr(Manifest, "add", finish_and_lose)
    cuts(1)
    try:
        gpulsh.deduplicate_files(inputs, tmp_path / "ray", **OPTIONS, engine="ray", address=joined)
        assert not nodes and "; another worker repeats the task" in caplog.text
    finally:
        for node in nodes:
            cluster.remove_node(node, allow_graceful=False)
    assert results(tmp_path / "ray") == results(tmp_path / "local")


def test_dying_workers_end_the_run(joined: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = engine.RayRunner._greeted

    def killed(self: Any, member: Any, answer: Any) -> None:
        ray_cluster.kill(int(answer["process"]))
        began(self, member, answer)

    monkeypatch.setattr(engine.RayRunner, "_greeted", killed)
    message = r"4 workers ended before they could begin, the last on node [\d.]+ \(process \d+\): its worker process"
    with pytest.raises(BackendError, match=message):
        gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS, engine="ray")
    assert not (tmp_path / "out").exists()


RUN = """
import sys, time
import gpulsh.run.files, gpulsh.run.output.folder
from gpulsh.cli import main
from gpulsh.backends.compiling import COMPILING
from gpulsh.budget import TaskSizes
from gpulsh.store.manifest import Manifest

finish, finished = Manifest.add, []
def finish_and_wait(self, step, *made, **how):
    finish(self, step, *made, **how)
    finished.append(step)
    if len(finished) == 3:
        time.sleep(600)  # for its end, which may be long in coming
Manifest.add = finish_and_wait
gpulsh.run.file_run.task_sizes = lambda *_: TaskSizes(partition=1, digests=1000, group=5_000, memory=1 << 30)
gpulsh.run.output.folder.worth_resuming = lambda manifest: True
sys.exit(main(sys.argv[1:]))
"""


def start_run(inputs: Path, out: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start a run in its own process, which stops after three finished steps."""
    options = ["--backend", "cpu", "--threads", "1", "--memory", "512MiB", "--engine", "ray", *more]
    command = [sys.executable, "-c", RUN, "dedup", str(inputs), "-o", str(out), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=ROOT)
    manifest, deadline = out / "_work" / "manifest.jsonl", time.monotonic() + 300
    while not manifest.exists() or manifest.read_bytes().count(b"\n") < 4:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    return process


def test_a_run_resumes_after_its_driver_is_killed(
    joined: str, inputs: Path, tmp_path: Path, cuts: Cuts, steps: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    gpulsh.deduplicate_files(inputs, tmp_path / "local", **OPTIONS)
    cuts(1)
    for engine_name in ("ray", "local"):
        out = tmp_path / f"with {engine_name}"
        with start_run(inputs, out, "--address", joined) as process:
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


def test_an_interrupted_run_with_its_own_cluster_resumes(inputs: Path, tmp_path: Path, cuts: Cuts) -> None:
    out = tmp_path / "out"
    with start_run(inputs, out, "--address", "local") as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        error = process.stderr.read().decode()
    assert process.returncode == 130, error
    assert error.splitlines()[-1] == "gpulsh: interrupted" and "; --resume continues it" in error
    assert "Traceback" not in error
    gpulsh.deduplicate_files(inputs, tmp_path / "local", **OPTIONS)
    cuts(1)
    gpulsh.deduplicate_files(inputs, out, **OPTIONS, resume=True)
    assert results(out) == results(tmp_path / "local")


def test_a_cluster_without_room_to_write_is_an_error(inputs: Path, tmp_path: Path) -> None:
    above = tmp_path / "file"
    above.touch()
    ran = run_alone(inputs, tmp_path / "out", RAY_TMPDIR=str(above))
    assert ran.returncode == 1 and not (tmp_path / "out").exists()
    (line,) = ran.stderr.splitlines()
    assert line.startswith("gpulsh: error: a Ray cluster could not be started on this machine: ")
    assert line.endswith(
        f"its files go to {above}/ray, where 0 B can be written: set RAY_TMPDIR to a folder with more room"
    )


def test_a_first_run_on_its_own_cluster_needs_no_home(inputs: Path, tmp_path: Path) -> None:
    """The cluster is still not open to others; kernels are ran of once, and are no stage's time."""
    nowhere, kernels, out = tmp_path / "gone", tmp_path / "kernels", tmp_path / "out"
    ran = run_alone(inputs, out, HOME=str(nowhere), NUMBA_CACHE_DIR=str(kernels))
    assert ran.returncode == 0, ran.stderr
    assert not nowhere.exists() and any(kernels.rglob("*.nbc"))
    assert ran.stderr.count("gpulsh: compiling kernels ") == 1
    report = json.loads((out / "report.json").read_text())
    assert report["compiling"] > 1
    assert report["compiling"] + sum(report["funnel"]["seconds"].values()) < report["seconds"]
    gpulsh.deduplicate_files(inputs, tmp_path / "local", **OPTIONS)
    assert results(out) == results(tmp_path / "local")


def run_alone(inputs: Path, out: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpulsh", "dedup", str(inputs), "-o", str(out), "--engine", "ray"]
    given = [*command, "--backend", "cpu", "--threads", str(os.cpu_count()), "--memory", "512MiB"]  # one worker
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    around = {**kept, "PYTHONPATH": str(ROOT), **ray_cluster.SPEEDY, **environment}
    return subprocess.run(given, check=False, capture_output=True, text=True, env=around)


@contextmanager
def listening(answer: bytes | None) -> Iterator[tuple[str, list[socket.socket]]]:
    """The address of a service that answers with these bytes, or not at all; and its connections."""
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
                        with suppress(OSError):
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
    "answer",
    [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])],  # the last of a gRPC server
)
def test_an_address_of_another_service_is_refused(
    answer: bytes | None, monkeypatch: pytest.MonkeyPatch, inputs: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine, "ANSWER_SECONDS", 3.0)
    monkeypatch.setattr(engine.ray, "is_initialized", lambda: False)
    with listening(answer) as (address, _), pytest.raises(BackendError, match="does not answer as a Ray cluster in 3"):
        gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS, engine="ray", address=address)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("answer", [None, bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])])
def test_an_interrupt_while_connecting_ends_the_command(inputs: Path, tmp_path: Path, answer: bytes | None) -> None:
    arguments = ["dedup", str(inputs), "-o", str(tmp_path / "out"), "--engine", "ray", "--address"]
    with listening(answer) as (address, held):
        command = [sys.executable, "-m", "gpulsh", *arguments, address]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=ROOT) as process:
            while len(held) < 2:
                assert process.poll() is None
                time.sleep(0.01)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            assert time.monotonic() - began < 5
    assert not (tmp_path / "out").exists()


def test_the_ray_data_example_finds_all_candidates(
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
