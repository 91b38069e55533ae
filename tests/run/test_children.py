"""Tasks in processes of their own: the same bytes as in threads, the ends of processes, and when there are any."""

import logging
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any, cast

import fsspec
import pytest

import gpulsh
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.budget import TaskSizes
from gpulsh.errors import Advice, BackendError, InputError, LargeDocumentError
from gpulsh.io.columns import Columns
from gpulsh.io.stamps import Stamps
from gpulsh.run.engines import children, local
from gpulsh.run.engines.children import Children
from gpulsh.run.engines.local import LocalRunner
from gpulsh.run.engines.worker import WorkerSetup
from gpulsh.run.job import FileJob, TaskContext, TaskResult
from gpulsh.store.manifest import Manifest
from tests.crash.test_resume import results, write_inputs
from tests.run.test_parallel import Listener, Steps, stage_of
from tests.support.runs import interrupting

Processes = list[subprocess.Popen[bytes]]


def cut(memory: int, sizes: Any, tasks: int) -> TaskSizes:
    return TaskSizes(memory=memory, partition=9000, digests=1400 // tasks, group=18000 // tasks, parallel=4000)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    """The processes that a test begins, where even short runs use them; all have ended after it."""
    found: Processes = []

    def begin(*given: Any, **options: Any) -> subprocess.Popen[bytes]:
        found.append(subprocess.Popen(*given, **options))
        return found[-1]

    monkeypatch.setattr(children, "Popen", begin)
    monkeypatch.setattr(local, "MIN_CHILDREN", 2)
    monkeypatch.setattr(local, "MIN_BYTES", 1)
    monkeypatch.setattr("gpulsh.run.file_run.task_sizes", cut)
    monkeypatch.setattr(local, "task_sizes", cut)
    yield found
    assert all(process.returncode == -signal.SIGKILL for process in found)


def run(source: Path | str, out: Path, **options: Any) -> Any:
    return gpulsh.deduplicate_files(source, out, backend="cpu", threads=2, memory="1GiB", **options)


def test_processes_give_the_bytes_of_threads(begun: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"keep": "score", "write": "marked"}
    (source := tmp_path / "in").mkdir()
    write_inputs(source)
    in_turn, here = LocalRunner._run_in_turn, list[str]()
    monkeypatch.setattr(
        LocalRunner, "_run_in_turn", lambda self, tasks, shown: here.append(tasks) or in_turn(self, tasks, shown)
    )
    apart = run(source, tmp_path / "apart", **options)
    assert len(begun) == 2 and apart.report["engine"] == {"name": "local", "workers": 2}
    assert [task.step for tasks in here for task in tasks.values()] == ["connect"]
    monkeypatch.setattr(local, "MIN_BYTES", 1 << 30)
    together = run(source, tmp_path / "together", **options)
    assert len(begun) == 2 and together.report["engine"] == {"name": "local", "workers": 1}
    assert results(tmp_path / "apart") == results(tmp_path / "together")
    assert apart.funnel["dropped"] == together.funnel["dropped"] > 0


@pytest.mark.parametrize("first", [1, 1 << 30])
def test_a_run_goes_on_in_processes_or_threads(
    first: int, begun: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source := tmp_path / "in").mkdir()
    write_inputs(source)
    monkeypatch.setattr("gpulsh.run.output.folder.worth_resuming", lambda manifest: True)
    run(source, tmp_path / "whole")
    begun.clear()
    monkeypatch.setattr(local, "MIN_BYTES", first)
    with interrupting("form_groups"):
        run(source, tmp_path / "out")
    monkeypatch.setattr(local, "MIN_BYTES", (1 << 30) + 1 - first)
    run(source, tmp_path / "out", resume=True)
    assert len(begun) == 2
    assert results(tmp_path / "whole") == results(tmp_path / "out")


@pytest.mark.parametrize("cause", ["a store in memory", "no process", "an update", "an embedded Python"])
def test_threads_do_what_processes_cannot(
    cause: str, begun: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source: Path | str = tmp_path / "in"
    Path(source).mkdir()
    write_inputs(Path(source))
    if cause == "a store in memory":
        fsspec.filesystem("memory").put(f"{source}/b.jsonl", "/lake/b.jsonl")
        source = "memory://lake/b.jsonl"
    elif cause == "no process":
        monkeypatch.setattr(children, "Popen", lambda *_, **__: os.open("/nowhere", 0))
    elif cause == "an update":
        monkeypatch.setattr(children, "versions", lambda: {"gpulsh": "0.1"})
    else:
        monkeypatch.setattr(sys, "executable", "/usr/bin/editor")
    with caplog.at_level(logging.WARNING, "gpulsh"):
        assert run(source, tmp_path / "out").report["engine"]["workers"] == 1
    said = caplog.text.partition("no others could begin: ")[2]
    assert said.strip() == {
        "a store in memory": "memory://lake/b.jsonl: cannot be read: no such file",
        "no process": "[Errno 2] No such file or directory: '/nowhere'",
        "an update": "Python, gpulsh or pyarrow was updated after this process began; start it again",
    }.get(cause, "")


@pytest.mark.parametrize(("memory", "machine", "enough"), [(None, 64, "1536MiB"), (None, 2, ""), ("1GiB", 64, "")])
def test_a_default_that_leaves_processors_idle_is_named(
    memory: str | None,
    machine: int,
    enough: str,
    begun: Processes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("gpulsh.budget.MAX_DEFAULT", (1 << 30) + (memory is not None))
    monkeypatch.setattr("gpulsh.budget.machine_memory", lambda: machine << 30)
    monkeypatch.setattr(local, "machine_memory", lambda: machine << 30)
    (source := tmp_path / "in").mkdir()
    write_inputs(source)
    with caplog.at_level(logging.WARNING, "gpulsh"):
        gpulsh.deduplicate_files(source, tmp_path / "out", backend="cpu", threads=3, memory=memory)
    said = f"the default of memory allows 2 tasks at once; memory={enough!r} allows 3" if enough else ""
    assert len(begun) == 2 and caplog.messages == [said] * bool(said)


# --- single tasks ---


class Nothing(FileJob):
    def parameters(self) -> Mapping[str, Any]:
        return {}


def runner_of(folder: Path, steps: Any = None) -> LocalRunner:
    """Two processes do what two threads would."""
    Manifest.begin(folder, {}, bytes(32))
    job = Nothing(files=(), columns=Columns("text"), stamps=Stamps((), []))
    setup = WorkerSetup.of(job, folder, "reference", 1)
    context = TaskContext(job, folder, ReferenceBackend(), Listener(), None)  # type: ignore[arg-type]
    return LocalRunner(context, Steps() if steps is None else steps, 2, lambda: Children(setup, 2))


ERRORS = {
    "large": LargeDocumentError("too large"),
    "memory": MemoryError(),
    "input": InputError("a.jsonl: is damaged"),
    "other": ZeroDivisionError("by zero"),
}


def fail_elsewhere(context: Any, number: int, error: str, home: int) -> TaskResult:
    """Raise an error in another process than `home`."""
    if error and os.getpid() != home:
        raise ERRORS[error]
    return TaskResult(facts={"at_home": os.getpid() == home})


def end(context: Any, number: int) -> TaskResult:
    os.kill(os.getpid(), signal.SIGKILL)
    return TaskResult()


def sleep(context: Any, number: int, seconds: float) -> TaskResult:
    time.sleep(seconds)
    return TaskResult()


def test_a_task_that_needs_more_memory_comes_home(begun: Processes, tmp_path: Path) -> None:
    runner = runner_of(tmp_path)
    try:
        facts = runner.run(stage_of(fail_elsewhere, *((error, os.getpid()) for error in ("", "large", "memory", ""))))
        assert [of["at_home"] for of in facts] == [False, True, True, False]
        assert len(begun) == 2 and None not in [process.poll() for process in begun]  # their memory is free for it
        for error in ("input", "other"):
            with pytest.raises(type(ERRORS[error]), match=str(ERRORS[error])):
                runner.run(stage_of(fail_elsewhere, ("", 0), (error, 0)))
        with pytest.raises(BackendError, match="ended with SIGKILL; if memory ran out, give less memory or fewer thr"):
            runner.run(stage_of(end, (), ()))
    finally:
        if runner._children is not None:
            runner._children.kill()


def warn(context: Any, number: int, home: int) -> TaskResult:
    if os.getpid() != home:
        logging.getLogger("gpulsh").warning("%s is busy", Path("a"))
        logging.getLogger("gpulsh").warning(Advice("give --lines"))
    return TaskResult()


def test_warnings_of_processes_reach_the_handlers(
    begun: Processes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runner = runner_of(tmp_path)
    try:
        runner.run(stage_of(warn, (os.getpid(),), (os.getpid(),)))
    finally:
        if runner._children is not None:
            runner._children.kill()
    assert sorted(caplog.messages) == ["a is busy"] * 2 + ["give lines=True"] * 2
    assert sum(isinstance(record.msg, Advice) for record in caplog.records) == 2


def test_all_processes_start_before_one_reads_its_job(begun: Processes) -> None:
    """A job of many files fills a pipe, which a process that starts does not read: they started one after another."""
    started: list[int] = []

    class Job:
        def __reduce__(self) -> tuple[Any, ...]:
            started.append(len(begun))
            return str, ("not a job",)

    with pytest.raises(AttributeError, match="'str' object"):
        Children(cast(Any, Job()), 3)
    assert started == [3]


def test_a_process_may_end_within_an_answer(begun: Processes) -> None:
    child = children._Child()
    child.process.kill()
    child._connection, other_end = Pipe()
    with other_end:
        os.write(other_end.fileno(), struct.pack("!i", 9) + b"half")
    with pytest.raises(BackendError, match="ended with SIGKILL"):
        child.receive()


def test_an_interrupt_ends_the_processes(begun: Processes, tmp_path: Path) -> None:
    steps, began = Steps(), time.monotonic()
    steps.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        runner_of(tmp_path, steps).run(stage_of(sleep, (0,), (600,)))
    assert time.monotonic() - began < 60


ENDS = """
import os, sys
from pathlib import Path
from tests.run.test_children import runner_of, sleep, stage_of
import threading
runner = runner_of(Path(sys.argv[1]))
threading.Timer(1, lambda: os.kill(os.getpid(), 9)).start()
runner.run(stage_of(sleep, (600,), (600,)))
"""


def test_processes_end_with_the_one_that_began_them(tmp_path: Path) -> None:
    # They have its standard output, which is open until all have ended.
    ended = subprocess.run([sys.executable, "-c", ENDS, tmp_path], stdout=subprocess.PIPE, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
