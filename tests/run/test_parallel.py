"""Tasks in parallel in one process: they share the memory, and a large one runs alone."""

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import gpulsh
from gpulsh.backends.cuda.memory import max_text_sizes
from gpulsh.backends.protocol import Sizes
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.budget import TaskSizes, memory_shares, parse_memory, task_sizes
from gpulsh.errors import InputError, LargeDocumentError, MemoryLimitError, OutputError, ParameterError
from gpulsh.io.arrow.rows import arrow_rows
from gpulsh.io.files.file_texts import HeldTexts
from gpulsh.io.limits import MIN_MEMORY
from gpulsh.run.engines import local
from gpulsh.run.engines.local import LocalRunner
from gpulsh.run.job import JobContext, Stage, Task, TaskResult
from gpulsh.stats.stages import StageRow
from tests.crash.test_resume import results, write_inputs
from tests.support.runs import interrupting

ROW = StageRow("stage", "", "things")


class Listener:
    """Counts the progress that tasks report."""

    def __init__(self) -> None:
        self.amount = self.documents = 0

    def advance(self, amount: int) -> None:
        self.amount += amount

    def count(self, *, documents: int = 0, size: int = 0, dropped: int = 0) -> None:
        self.documents += documents


class Steps(list[str]):
    """The finished steps, as a manifest; `error` is raised when one is recorded."""

    error: BaseException | None = None

    def find(self, step: str) -> None:
        return None

    finished = find

    def add(self, step: str, files: object, facts: Mapping[str, Any], *, brief: bool) -> None:
        if self.error is not None:
            raise self.error
        self.append(step)


def runner_of(workers: int, steps: Any = None, listener: Any = None, **more: Any) -> LocalRunner:
    nothing = cast(Any, None)
    place = JobContext(nothing, Path(), ReferenceBackend(), listener or Listener(), nothing)
    return LocalRunner(replace(place, **more), Steps() if steps is None else steps, workers)


def stage_of(work: Callable[..., TaskResult], *arguments: tuple[Any, ...], parallel: bool = True) -> Stage:
    tasks = [Task(f"step-{number}", work, (number, *given)) for number, given in enumerate(arguments)]
    return Stage(ROW, tasks, parallel)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_task_with_a_large_document_is_repeated_alone(most: int) -> None:
    running: list[int] = []
    begun: list[tuple[int, int]] = []

    def work(context: JobContext, number: int, size: int) -> TaskResult:
        running.append(number)
        begun.append((number, context.parallel))
        try:
            for step in range(4):
                assert context.parallel > 1 or running == [number] or most == 1
                context.progress.advance(1)
                time.sleep(0.001)
                if step == 2 and size > 12 // context.parallel:
                    raise LargeDocumentError("too large")
            return TaskResult(facts={"number": number, "amount": 4, "documents": 40})
        finally:
            running.remove(number)

    sizes, listener = [1, 12, 1, 2, 7, 1, 1, 12, 2, 1], Listener()
    facts = runner_of(most, listener=listener).run(stage_of(work, *((size,) for size in sizes)))
    assert [one["number"] for one in facts] == list(range(len(sizes)))
    # The attempts that failed are not counted.
    assert (listener.amount, listener.documents) == (4 * len(sizes), 40 * len(sizes))
    again = [number for number, size in enumerate(sizes) if size > 12 // most]
    assert sorted(begun) == sorted([(at, most) for at in range(len(sizes))] + [(at, 1) for at in again])
    assert not again or begun[-len(again) :] == [(at, 1) for at in again]
    with pytest.raises(InputError, match="too large"):
        runner_of(most).run(stage_of(work, *[(20,)] * most))


@pytest.mark.parametrize("error", [MemoryError(), OSError("codec: not enough memory")])
def test_a_task_without_memory_is_repeated_alone(error: Exception) -> None:
    begun: list[int] = []

    def work(context: JobContext, number: int, most: int) -> TaskResult:
        begun.append(context.parallel)
        if context.parallel > most:
            raise error
        return TaskResult()

    runner_of(2).run(stage_of(work, (1,), (1,)))
    assert begun == [2, 2, 1, 1]
    with pytest.raises(MemoryLimitError, match=r"^stage: the system has no more memory"):
        runner_of(2).run(stage_of(work, (0,), parallel=False))


def test_a_large_document_after_a_failure_is_not_repeated() -> None:
    """A serial run would not have started its task; a task before the failure may be repeated, and fail first."""
    begun: list[tuple[int, int]] = []
    met = threading.Barrier(3, timeout=10)

    def work(context: JobContext, number: int, first_fails: bool) -> TaskResult:
        begun.append((number, context.parallel))
        if context.parallel > 1:
            met.wait()
        if number == 1:
            raise ValueError("the second")
        if context.parallel > 1 or (number == 0 and first_fails):
            raise LargeDocumentError(f"too large: {number}")
        return TaskResult()

    for first_fails, message in ((False, "the second"), (True, "too large: 0")):
        begun.clear()
        with pytest.raises((ValueError, InputError), match=message):
            runner_of(3).run(stage_of(work, *[(first_fails,)] * 3))
        assert sorted(begun) == [(0, 1), (0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_large_document_gets_the_memory_of_held_texts(workers: int) -> None:
    held = HeldTexts(1000)
    held.add("piece", 0, arrow_rows(pa.array(["text"])))
    held.complete("piece")
    begun: list[tuple[int, bool]] = []

    def work(context: JobContext, number: int) -> TaskResult:
        begun.append((context.parallel, context.held is not None))
        if number == 1 and context.parallel > 1:
            raise LargeDocumentError("too large beside others")
        return TaskResult()

    runner = runner_of(workers, held=held)
    runner.run(stage_of(work, (), (), parallel=False))
    assert begun == [(1, False)] * 2  # a task that uses all threads has all memory, and no held texts
    begun.clear()
    runner.run(stage_of(work, (), ()))
    assert sorted(begun) == sorted([(workers + 1, True), (workers + 1, True), (1, False)])
    assert held.find("piece") is None


def test_a_stopped_task_ends_when_it_reports_progress() -> None:
    begun = threading.Event()

    def work(context: JobContext, number: int) -> TaskResult:
        if number == 0:
            begun.wait(timeout=10)
            return TaskResult()
        begun.set()
        while True:  # it would run forever
            context.progress.advance(1)
            time.sleep(0.001)

    before, steps = threading.active_count(), Steps()
    steps.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        runner_of(2, steps).run(stage_of(work, (), (), ()))
    assert threading.active_count() == before


def test_steps_after_a_slow_one_are_recorded() -> None:
    others = threading.Event()

    def work(context: JobContext, number: int) -> TaskResult:
        if number == 0:
            others.wait(timeout=10)
        if number in (0, 3):
            raise ValueError(f"of {number}")
        if number == 2:
            others.set()
        return TaskResult()

    steps = Steps()
    with pytest.raises(ValueError, match="of 0"):
        runner_of(2, steps).run(stage_of(work, *[()] * 6))
    assert {"step-1", "step-2"} <= set(steps)


def test_a_single_worker_runs_in_the_main_thread() -> None:
    threads: list[int] = []

    def work(context: JobContext, number: int) -> TaskResult:
        threads.append(threading.get_ident())
        if number == 1:
            raise KeyboardInterrupt
        return TaskResult()

    steps = Steps()
    with pytest.raises(KeyboardInterrupt):
        runner_of(1, steps).run(stage_of(work, *[()] * 3))
    assert threads == [threading.get_ident()] * 2 and steps == ["step-0"]


# --- `--memory`: valid amounts, too small ones, and another amount for a resumed run ---


MIN_AMOUNTS = ["512MiB", "512mib", MIN_MEMORY, str(MIN_MEMORY), float(MIN_MEMORY), "0.5G", "524288K", "536870912B"]
FOUR = ["4GiB", "4 GiB", " 4G ", "4gb"]
TOO_LITTLE = ["511MiB", MIN_MEMORY - 1, "0", 0, "1", "1K", "0.49G", "4"]
NO_AMOUNTS = [
    *("", " ", "much", "GiB", "4 Gi B", "4XB", "-4GiB", "+4GiB", "4,5GiB", "1e10", "0x40000000", "4GiB4", "٤GiB"),
    *("9" * 400, "9" * 400 + "T", True, False, -(4 << 30), float("nan"), float("inf"), b"4GiB", ["4GiB"]),
]


def test_memory_amounts_are_parsed() -> None:
    for given, memory in ((MIN_AMOUNTS, MIN_MEMORY), (FOUR, 4 << 30), (["2T"], 2 << 40), (["1.5GiB"], 3 << 29)):
        for one in given:
            assert repr(parse_memory(one)) == str(memory), one  # type: ignore[arg-type]
    assert MIN_MEMORY <= parse_memory(None) <= 8 << 30  # the machine's memory
    assert [local.max_parallel(16, size << 20) for size in (512, 1023, 1024, 4096, 1 << 14)] == [1, 1, 2, 8, 16]


@pytest.mark.parametrize(
    ("given", "message"),
    [*((given, "too little to work in") for given in TOO_LITTLE), *((given, "not an amount") for given in NO_AMOUNTS)],
)
def test_wrong_memory_amounts_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=f"{message}.*; give at least 512MiB, such as 4GiB"):
        parse_memory(given)


@pytest.mark.parametrize("memory", [MIN_MEMORY, MIN_MEMORY + 1, 1 << 30, 8 << 30, 1 << 40])
def test_more_memory_gives_larger_cuts(memory: int) -> None:
    sizes = Sizes(batch=1 << 20, tile=1 << 20, largest_tile=1 << 20)
    less, more = task_sizes(memory, sizes), task_sizes(2 * memory, sizes)
    assert task_sizes(2 * memory, sizes, 2) == replace(less, memory=2 * memory)
    assert 0 < less.group <= more.group < 2 * memory and 0 < less.digests <= more.digests
    assert less.group < memory and less.digests * 8 < memory


@pytest.mark.parametrize("memory", [MIN_MEMORY, 1 << 30, 8 << 30])
@pytest.mark.parametrize("devices", [1, 8])
def test_a_device_takes_at_most_half_of_the_budget(memory: int, devices: int) -> None:
    sizes = max_text_sizes(memory, devices)
    found = memory_shares(memory, sizes)
    assert list(found) == ["host", "read_ahead", "pinned", "held", "device"]
    lanes = 3 * devices + 2  # with a batch each, and two that are made
    assert found["read_ahead"] + found["pinned"] + lanes * sizes.batch + found["held"] <= memory // 2
    assert found["held"] == (0 if memory == MIN_MEMORY else memory // 4)


def test_an_unfinished_run_resumes_with_as_much_memory_or_more(tmp_path: Path) -> None:
    given, out = write_inputs(tmp_path / "in"), tmp_path / "out"
    options: dict[str, Any] = {"backend": "cpu", "threads": 1}
    gpulsh.deduplicate_files(given, out, memory="1GiB", **options)
    expected = results(out)
    for stop, memory in (("form_groups", 2 << 30), ("write_evidence", 1 << 30)):
        shutil.rmtree(out)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gpulsh.run.output.folder.worth_resuming", lambda manifest: True)
            patch.setattr("gpulsh.run.file_run.task_sizes", few_at_once)
            with interrupting(stop):
                gpulsh.deduplicate_files(given, out, memory="1GiB", **options)
            with pytest.raises(OutputError, match="memory was 1GiB and is 512MiB now, which is less; give"):
                gpulsh.deduplicate_files(given, out, memory="512MiB", resume=True, **options)
            before = gpulsh.deduplicate_files(given, out, memory=memory, resume=True, **options)
        assert before.report["parameters"]["memory"] == memory and results(out) == expected
    again = gpulsh.deduplicate_files(given, out, memory="2GiB", resume=True, **options)
    assert again.report == before.report and results(out) == expected


def few_at_once(memory: int, sizes: Sizes, tasks: int) -> TaskSizes:
    """Sizes that follow from the memory, and cut a few documents."""
    return replace(task_sizes(memory, sizes, tasks), digests=memory >> 25, group=memory >> 20)
