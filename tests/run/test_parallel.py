"""Tasks side by side in one process: what they share, and who is alone."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.errors import InputError, LargeDocumentError, MemoryLimitError
from gpulsh.io.arrow.rows import arrow_rows
from gpulsh.io.files.file_texts import HeldTexts
from gpulsh.run.engines import steps as parallel
from gpulsh.run.engines.local import InProcess
from gpulsh.run.engines.steps import Attempt
from gpulsh.run.files import deduplicate_files
from gpulsh.run.job import Made, Stage, Task, Workplace
from gpulsh.stats.stages import StageRow

ROW = StageRow("stage", "", "things")


class Heard:
    """What a listener was told, and whether two threads told it at once."""

    def __init__(self) -> None:
        self.amount = 0
        self.counted: dict[str, int] = {}
        self._telling = threading.Lock()

    def advance(self, amount: int) -> None:
        assert self._telling.acquire(blocking=False)
        self.amount += amount
        self._telling.release()

    def count(self, **amounts: int) -> None:
        assert self._telling.acquire(blocking=False)
        for name, amount in amounts.items():
            self.counted[name] = self.counted.get(name, 0) + amount
        self._telling.release()


def workplace(heard: Heard) -> Workplace:
    return Workplace(cast(Any, None), Path(), cast(Any, None), cast(Any, heard), cast(Any, None))


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_task_that_meets_a_large_document_is_done_again_alone(most: int) -> None:
    heard = Heard()
    runner = InProcess(workplace(heard), cast(Any, Recorded()), most)
    running: list[int] = []
    begun: list[tuple[int, int]] = []

    def work(place: Workplace, number: int, size: int) -> Made:
        running.append(number)
        begun.append((number, place.parallel))
        try:
            for step in range(4):
                assert place.parallel > 1 or running == [number] or most == 1
                place.progress.advance(1)
                place.progress.count(documents=10)
                time.sleep(0.001)
                if step == 2 and size > 12 // place.parallel:
                    raise LargeDocumentError("too large")
            return Made(facts={"number": number})
        finally:
            running.remove(number)

    sizes = [1, 12, 1, 2, 7, 1, 1, 12, 2, 1]
    tasks = [Task(f"step-{at}", work, (at, size)) for at, size in enumerate(sizes)]
    facts = runner.run(Stage(ROW, tasks, parallel=True))
    assert [one["number"] for one in facts] == list(range(len(sizes)))
    # What an attempt told that came to nothing is not counted.
    assert (heard.amount, heard.counted) == (4 * len(sizes), {"documents": 40 * len(sizes)})
    again = [number for number, size in enumerate(sizes) if size > 12 // most]
    assert sorted(begun) == sorted([(at, most) for at in range(len(sizes))] + [(at, 1) for at in again])
    assert not again or begun[-len(again) :] == [(at, 1) for at in again]


@pytest.mark.parametrize("most", [1, 3])
def test_a_document_too_large_for_all_memory_is_an_error(most: int) -> None:
    def work(place: Workplace) -> Made:
        raise LargeDocumentError(f"too large for one of {place.parallel}")

    runner = InProcess(workplace(Heard()), cast(Any, Recorded()), most)
    with pytest.raises(InputError, match="for one of 1"):
        runner.run(Stage(ROW, [Task(f"step-{at}", work) for at in range(most)], parallel=True))


@pytest.mark.parametrize("error", [MemoryError(), OSError("codec: not enough memory")])
def test_a_task_without_memory_is_done_again_alone_and_names_its_stage(error: Exception) -> None:
    begun: list[int] = []

    def work(place: Workplace, most: int) -> Made:
        begun.append(place.parallel)
        if place.parallel > most:
            raise error
        return Made()

    runner = InProcess(workplace(Heard()), cast(Any, Recorded()), 2)
    runner.run(Stage(ROW, [Task(f"step-{at}", work, (1,)) for at in range(2)], parallel=True))
    assert begun == [2, 2, 1, 1]
    with pytest.raises(MemoryLimitError, match=r"^stage: the system has no more memory"):
        runner.run(Stage(ROW, [Task("step", work, (0,))]))


def test_a_large_document_behind_a_failure_is_not_tried_again() -> None:
    """In turn its task would not have begun; one before the failure would, and may fail first."""
    begun: list[tuple[int, int]] = []
    met = threading.Barrier(3, timeout=10)

    def work(place: Workplace, number: int, first_fails: bool) -> Made:
        begun.append((number, place.parallel))
        if place.parallel > 1:
            met.wait()
        if number == 1:
            raise ValueError("the second")
        if place.parallel > 1 or (number == 0 and first_fails):
            raise LargeDocumentError(f"too large: {number}")
        return Made()

    for first_fails, told in ((False, "the second"), (True, "too large: 0")):
        begun.clear()
        runner = InProcess(workplace(Heard()), cast(Any, Recorded()), 3)
        tasks = [Task(f"step-{at}", work, (at, first_fails)) for at in range(3)]
        with pytest.raises((ValueError, InputError), match=told):
            runner.run(Stage(ROW, tasks, parallel=True))
        assert sorted(begun) == [(0, 1), (0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_large_document_has_the_memory_of_what_was_held(workers: int) -> None:
    held = HeldTexts(1000)
    held.add("piece", 0, arrow_rows(pa.array(["text"])))
    held.complete("piece")
    begun: list[tuple[int, bool]] = []

    def work(place: Workplace, number: int) -> Made:
        begun.append((place.parallel, place.held is not None))
        if number == 1 and place.parallel > 1:
            raise LargeDocumentError("too large beside others")
        return Made()

    runner = InProcess(replace(workplace(Heard()), held=held), cast(Any, Recorded()), workers)
    tasks = [Task(f"step {number}", work, (number,)) for number in range(2)]
    runner.run(Stage(ROW, tasks, parallel=False))
    assert begun == [(1, False)] * 2  # whoever works with all threads has all memory, and nothing is held for him
    begun.clear()
    runner.run(Stage(ROW, tasks, parallel=True))
    assert sorted(begun) == sorted([(workers + 1, True), (workers + 1, True), (1, False)])
    assert held.take("piece") is None


def test_what_is_stopped_ends_at_its_next_word() -> None:
    begun = threading.Event()

    def work(place: Workplace, number: int) -> Made:
        if number == 0:
            begun.wait(timeout=10)
            return Made()
        begun.set()
        while True:  # it would never end
            place.progress.advance(1)
            time.sleep(0.001)

    class Interrupted(Recorded):
        def finish(self, step: str, made: Made) -> None:
            raise KeyboardInterrupt

    runner = InProcess(workplace(Heard()), cast(Any, Interrupted()), 2)
    tasks = [Task(f"step-{at}", work, (at,)) for at in range(3)]
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        runner.run(Stage(ROW, tasks, parallel=True))
    assert threading.active_count() == before


class Recorded:
    """Steps as they are finished."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def finished(self, step: str) -> None:
        return None

    def finish(self, step: str, made: Made) -> None:
        self.steps.append(step)


def test_steps_behind_a_slow_one_are_recorded_and_the_first_error_is_raised() -> None:
    others = threading.Event()

    def work(place: Workplace, number: int) -> Made:
        if number == 0:
            others.wait(timeout=10)
        if number in (0, 3):
            raise ValueError(f"of {number}")
        if number == 2:
            others.set()
        return Made()

    recorded = Recorded()
    runner = InProcess(workplace(Heard()), cast(Any, recorded), 2)
    tasks = [Task(f"step-{number}", work, (number,)) for number in range(6)]
    with pytest.raises(ValueError, match="of 0"):
        runner.run(Stage(ROW, tasks, parallel=True))
    assert {"step-1", "step-2"} <= set(recorded.steps)


def test_a_single_worker_works_where_an_interrupt_reaches_it() -> None:
    threads: list[int] = []

    def work(place: Workplace, number: int) -> Made:
        threads.append(threading.get_ident())
        if number == 1:
            raise KeyboardInterrupt
        return Made()

    recorded = Recorded()
    runner = InProcess(workplace(Heard()), cast(Any, recorded), 1)
    tasks = [Task(f"step-{number}", work, (number,)) for number in range(3)]
    with pytest.raises(KeyboardInterrupt):
        runner.run(Stage(ROW, tasks, parallel=True))
    assert threads == [threading.get_ident()] * 2 and recorded.steps == ["step-0"]


def test_memory_bounds_how_many_run_abreast() -> None:
    assert [parallel.most_parallel(16, memory << 20) for memory in (512, 1023, 1024, 4096, 1 << 14)] == [1, 1, 2, 8, 16]


def test_a_run_with_a_large_document_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 512 MiB one document may have 128, of four who share them 32."""
    large = 180 * "".join(f"word{number} " for number in range(20_000))
    inputs = tmp_path / "in"
    inputs.mkdir()
    for name, text in {
        "a": "other words",
        "b": large,
        "c": "other  words!",
        "d": large + "more",
        "e": "still other",
    }.items():
        (inputs / f"{name}.jsonl").write_text(json.dumps({"text": text}) + "\n")
    alone: list[int] = []
    taken_back = Attempt.take_back

    def noted(told: Attempt) -> None:
        alone.append(1)
        taken_back(told)

    monkeypatch.setattr(Attempt, "take_back", noted)
    results = {}
    for share in (512 << 20, 128 << 20):
        monkeypatch.setattr(parallel, "TASK_MEMORY", share)
        result = deduplicate_files(inputs, tmp_path / str(share), backend="cpu", threads=4, memory="512MiB")
        assert result.data is not None
        kept = {path.name: path.read_bytes() for path in result.data.iterdir()}
        results[share] = pq.read_table(result.duplicates).to_pylist(), kept
        assert len(alone) == (0 if share == 512 << 20 else 4), (
            "each large one when it is signed and when it is gathered"
        )
    assert results[512 << 20] == results[128 << 20]
    assert [(row["row"], Path(row["file"]).name) for row in results[128 << 20][0]] == [(0, "c.jsonl"), (0, "d.jsonl")]
