"""Runs on a Ray cluster: they give the bytes of a local run, even with killed workers; and clear errors."""

import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
import gpulsh.run.engines.ray as engine
from gpulsh.cli.terminal import clean_exit
from gpulsh.errors import BackendError, ParameterError
from gpulsh.io.file import File
from gpulsh.io.stamps import Stamps
from gpulsh.run.engines import worker
from gpulsh.run.engines.ray import check_reachable
from gpulsh.store.manifest import Manifest
from tests.support import ray_cluster
from tests.support.ray_cluster import OPTIONS, cluster, cuts, inputs, joined, processes, results, steps
from tests.support.texts import SECRETS

SCORE = {"keep": "score", "resolve": "components", "id_column": "key", "write": "marked", "source_column": "score"}


def test_passages_equal_those_of_a_local_run(joined: str, inputs: Path, tmp_path: Path) -> None:
    ray_cluster.passages_as_of_a_local_run(joined, inputs, tmp_path, tokens=8, bridge=4)


def test_keys_and_protected_items_equal_a_local_run(
    joined: str, inputs: Path, tmp_path: Path, cuts: Callable[[int], None], steps: list[str]
) -> None:
    rows = [row["text"] for row in pq.read_table(inputs / "1.parquet").to_pylist()]
    items = pa.table({"text": [" ".join(text.split()[3:25]) for text in rows[:9]], "score": range(-9, 0)})
    pq.write_table(items, tmp_path / "test.parquet")
    options = {**OPTIONS, "protect": tmp_path / "test.parquet", "passages": 13, "coverage": 0.9}
    funnel = as_of_a_local_run(joined, inputs, tmp_path, cuts, steps, {**options, "key": "score", "keep": "longest"})
    assert sum(step.startswith("screen-") for step in steps) == 8 and any(step.startswith("keys-") for step in steps)
    assert funnel["contaminated"] > 9 and funnel["key_copies"] > 50


def as_of_a_local_run(
    joined: str, inputs: Path, tmp_path: Path, cuts: Callable[[int], None], steps: list[str], options: dict[str, Any]
) -> dict[str, Any]:
    """The counts of a run on the cluster at `joined`, checked against a local run; `steps` gets its steps."""
    local = gpulsh.deduplicate_files(inputs, tmp_path / "local", **options, secret=SECRETS[0])
    cuts(1)
    steps.clear()
    result = gpulsh.deduplicate_files(inputs, tmp_path / "ray", **options, engine="ray", address=joined)
    assert results(tmp_path / "ray") == results(tmp_path / "local")
    assert {**result.funnel, "seconds": None} == {**local.funnel, "seconds": None}
    return dict(result.funnel)


def test_killed_workers_change_no_byte(
    joined: str,
    inputs: Path,
    tmp_path: Path,
    cuts: Callable[[int], None],
    steps: list[str],
    processes: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """This holds under another secret, which workers read in the manifest, and if all workers of a stage are killed."""
    options = {**OPTIONS, **SCORE, "threads": 2}
    local = gpulsh.deduplicate_files(inputs, tmp_path / "local", **options, secret=SECRETS[0])
    cuts(1)
    steps.clear()
    add, killed = Manifest.add, list[str]()

    def add_and_kill(self: Manifest, step: str, *made: Any, **how: Any) -> None:
        add(self, step, *made, **how)
        if step.startswith("verify-") and not killed:
            killed.append(step)
            for process in processes:
                ray_cluster.kill(process)

    monkeypatch.setattr(Manifest, "add", add_and_kill)
    how = {**options, "engine": "ray", "address": joined, "secret": SECRETS[1]}
    result = gpulsh.deduplicate_files(inputs, tmp_path / "ray", **how)
    wanted = results(tmp_path / "local")
    assert results(tmp_path / "ray") == wanted and len(wanted) == 9
    assert {**result.funnel, "seconds": None} == {**local.funnel, "seconds": None}
    assert result.report["sampled"] == local.report["sampled"] and result.report["sampled"]["below_one"]
    assert sum(step.startswith("sign-") for step in steps) == 7
    for stage in ("collide", "compare", "verify"):
        assert sum(step.startswith(f"{stage}-") for step in steps) > 3, stage
    assert result.report["engine"] == {"name": "ray", "workers": sum(n // 2 for n in ray_cluster.PROCESSORS)}
    assert result.report["backend"] == {"name": "cpu", "device": None}
    assert result.funnel["dropped"] > 50
    assert killed and "ended: its worker process has died; another worker repeats the task" in caplog.text


def test_wrong_options_are_refused_before_the_work(joined: str, inputs: Path, tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"engine": "spark"}, "engine is 'spark'; give one of 'local', 'ray'"),
        ({"address": joined}, "engine is 'local'; give engine='ray' with it"),
        ({"engine": "ray", "address": 7}, "address is 7; give the address of a Ray cluster"),
        ({"engine": "ray", "address": ""}, "address is ''; give the address of a Ray cluster"),
        ({"engine": "ray", "devices": [0]}, "devices are of this machine"),
        ({"engine": "ray", "address": "192.0.2.1:1"}, f"'192.0.2.1:1' and this process is in the .* at {joined}"),
        ({"engine": "ray", "threads": 500}, r"room for a worker, which takes 500 processors and 536\.9 MB"),
        ({"engine": "ray", "backend": "cuda"}, "takes a GPU, 1 processor and"),
    ]
    for how, message in wrong:
        with pytest.raises((ParameterError, BackendError), match=message):
            gpulsh.deduplicate_files(inputs, tmp_path / "out", **{**OPTIONS, **how})
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
def test_workers_are_sized_by_the_nodes(
    nodes: list[dict[str, float]],
    backend: str,
    threads: int,
    gigabytes: float,
    workers: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_nodes", lambda: nodes)
    room = engine.Cluster(None, "auto", None, None)._choose_worker_size()
    assert (room.backend, room.threads, room.memory / 2**30) == (backend, threads, gigabytes)
    assert room.workers() == workers


def test_one_worker_is_requested_after_all_nodes_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """An autoscaled cluster needs a request to start a node; the driver must not repeat it without a pause."""
    asked: list[object] = []

    def remote() -> object:
        asked.append(object())
        return asked[-1]

    monkeypatch.setattr(engine, "_nodes", list)
    pool = object.__new__(engine.RayRunner)
    pool._worker_size, pool._ready_members, pool._busy, pool.most = engine._WorkerSize("cpu", 1, 1 << 30), [], {}, 0
    pool._actor_class = SimpleNamespace(remote=lambda: SimpleNamespace(greet=SimpleNamespace(remote=remote)))
    pool._start(7)
    pool._start(7)
    assert list(pool._busy) == asked and len(asked) == 1


def test_nodes_that_are_lost_with_workers_that_begin_do_not_end_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Until Ray notices that a node is lost, the driver requests as many workers there as it had."""
    monkeypatch.setattr(engine.ray, "kill", lambda actor: None)
    pool = object.__new__(engine.RayRunner)
    pool._ready_members, pool._ended = [], Counter()
    lost = RuntimeError(
        "The actor died unexpectedly.\n\tip: 192.0.2.7\nThe actor died because its node has died. Node Id: 1"
    )
    for _ in range(engine.ATTEMPTS + 1):
        pool._replace(engine._Member(None), None, lost)
    assert "begin: a worker on node 192.0.2.7 ended: its node has died; another worker" in caplog.text
    absent = RuntimeError("The actor died: (pid=7, ip=192.0.2.8, x)\nNo module named 'gpulsh'")
    with pytest.raises(BackendError, match=r"4 .* the last on node 192\.0\.2\.8: No module named 'gpulsh'; if"):
        for _ in range(engine.ATTEMPTS):
            pool._replace(engine._Member(None), None, absent)


def test_runs_of_several_threads_take_turns_in_clusters_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run to end shut Ray down under the others. Runs still share a cluster that the program has joined."""
    clusters, seen = list[str](), list[str]()
    monkeypatch.setattr(engine.ray, "init", lambda address, **_: clusters.append(address))
    monkeypatch.setattr(engine.ray, "shutdown", clusters.clear)
    monkeypatch.setattr(engine.ray, "is_initialized", lambda: bool(clusters))
    monkeypatch.setattr(engine.ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address="192.0.2.1:6379"))
    monkeypatch.setattr(engine, "_nodes", lambda: [{"CPU": 2, "memory": 64 << 30}])

    def run(seconds: float) -> None:
        with engine.Cluster(None, "cpu", 1, None):
            time.sleep(seconds)
            seen.extend(clusters)

    def run_two() -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(run, (0.05, 0.2)))

    run_two()
    assert seen == ["local"] * 2 and not clusters
    clusters.append("the program's")
    with engine.Cluster(None, "cpu", 1, None):
        run_two()
    assert seen[2:] == clusters * 2


def test_an_unreachable_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host, port = free.getsockname()
        message = f"the Ray cluster at '{host}:{port}' could not be joined: .*Connection refused"
        with pytest.raises(BackendError, match=message):
            check_reachable(f"{host}:{port}")
    monkeypatch.setattr(engine, "CLIENT", "exit('ray.exceptions.AuthenticationError: InvalidAuthToken')")
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(BackendError, match="set RAY_AUTH_MODE=token"):
        check_reachable(f"127.0.0.1:{server.getsockname()[1]}")
    with pytest.raises(ParameterError, match=r"'ray://here:1'; give HOST:PORT, or 'auto' on a machine of the cluster"):
        check_reachable("ray://here:1")


def test_a_signal_while_a_cluster_starts_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's handler ended the command without a message, with status 15."""

    def start(*_: Any, **__: Any) -> None:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(engine.ray, "init", start)
    monkeypatch.setattr(engine.ray, "is_initialized", lambda: False)
    with pytest.raises(SystemExit, match=r"^143$"), clean_exit():
        engine.Cluster(None, "cpu", 1, None).__enter__()


def test_without_ray_the_extra_is_named(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "gpulsh.run.engines.ray")
    with pytest.raises(BackendError, match=r'Ray is not installed; pip install "gpulsh\[ray\]"'):
        gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS, engine="ray")


def test_other_versions_are_refused(joined: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**worker.versions(), "gpulsh": "0.0.1", "Python": "3.9"}
    monkeypatch.setattr(engine, "versions", lambda: other)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = rf"node [\d.]+ of the Ray cluster has Python {here} and not 3.9, gpulsh {gpulsh.__version__} and not 0.0.1,"
    with pytest.raises(BackendError, match=found):
        gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS, engine="ray")
    assert not (tmp_path / "out").exists()


@dataclass(frozen=True)
class Job:
    """The part of a job that a worker needs to begin."""

    files: tuple[File, ...]
    stamps: Stamps
    cut: Any
    earlier_files: int = 1


def test_a_node_without_the_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PATIENCE", 0.2)
    limited: list[int] = []
    monkeypatch.setattr(worker, "limit_memory", lambda memory, threads: limited.append(memory))  # not of this process
    out, seen, unseen = (tmp_path / name for name in ("out/_work", "seen.jsonl", "unseen.jsonl"))
    out.mkdir(parents=True)
    seen.touch()

    began = worker.Worker()
    stamp: list[int | str | None] = [0, seen.stat().st_mtime_ns, 7]  # with the inode of another node
    gone = File("gone", "gone", str(tmp_path / "gone"), source="gone")  # of an earlier run

    def reply(folder: Path, *paths: Path, others: tuple[str, ...] = ()) -> str:
        files = (gone, *(File(path.name, path.name, str(path), source=path.name) for path in paths))
        job = Job(files, Stamps(files, [stamp] * len(files)), SimpleNamespace(memory=1 << 30))
        return str(began.begin(worker.WorkerSetup(cast(Any, job), folder, "mine", "reference", 1, others), "192.0.2.7"))

    not_shared = "node 192.0.2.7 does not see it; give an output folder on storage that all nodes share"
    assert not_shared in reply(tmp_path / "nowhere")
    assert not_shared in reply(out)
    (out / worker.TOKEN).write_text("another's")
    assert f"{tmp_path / 'out'}: {not_shared}" in reply(out)
    (out / worker.TOKEN).write_text("mine")
    assert f"{out}: node 192.0.2.7 sees no manifest" in reply(out, seen)
    Manifest.begin(out, {}, bytes(32))
    assert reply(out, seen) == "None"
    assert limited == [1 << 30]
    began._context.job.stamps.check([1])
    assert f"unseen.jsonl: node 192.0.2.7 does not see it as {unseen}; put it where" in reply(out, seen, unseen)
    index = str(tmp_path / "index" / "samples.arrow")
    assert f"{index}: node 192.0.2.7 does not see it as {index}; put it where" in reply(out, seen, others=(index,))
    seen.write_text("longer")
    assert f"seen.jsonl: node 192.0.2.7 sees another file as {seen}, or it has changed" in reply(out, seen)


def test_errors_that_cannot_be_pickled_are_sent_as_text() -> None:
    class Here(Exception):
        """No other process knows this class."""

    failure = worker._with_node_note(Here("lost"), "192.0.2.7")
    assert type(failure) is RuntimeError and str(failure) == "Here: lost"
    sent = worker._with_node_note(OSError(28, "No space left on device", "file"), "192.0.2.7")
    assert isinstance(sent, OSError) and (sent.errno, sent.filename) == (28, "file")


def test_a_finished_run_starts_no_cluster(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS)
    monkeypatch.delattr(engine, "Cluster")
    options = {**OPTIONS, "engine": "ray", "address": "192.0.2.1:6379", "resume": True}
    assert gpulsh.deduplicate_files(inputs, tmp_path / "out", **options).report == done.report
    with pytest.raises(ParameterError, match="threads is 0"):
        gpulsh.deduplicate_files(inputs, tmp_path / "out", **{**options, "threads": 0})
