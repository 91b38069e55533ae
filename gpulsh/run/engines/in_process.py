"""Tasks run in this process: those that the backend works at with all its threads one after another, others abreast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpulsh.account.progress import Progress
from gpulsh.backends.protocol import Backend
from gpulsh.budget import held_bytes
from gpulsh.io.files.held_texts import HeldTexts
from gpulsh.run.engines.abreast import Abreast, most_abreast
from gpulsh.run.engines.steps import Steps, tell
from gpulsh.run.job.job import Job
from gpulsh.run.job.task import Made, Runner, Stage, Task, Workplace
from gpulsh.secret import evidence_keys
from gpulsh.store.allocators import give_back


class ThisProcess:
    """The engine "local": `run.engines.engines.Engine` without anybody else."""

    def __init__(self, ops: Backend, threads: int, memory: int) -> None:
        self.ops, self.memory = ops, memory
        self._threads = threads

    @contextmanager
    def running(self, job: Job, folder: Path, steps: Steps, progress: Progress) -> Iterator[Runner]:
        """This process."""
        abreast = most_abreast(self._threads, self.memory)
        held = HeldTexts(size) if (size := held_bytes(self.memory)) else None
        place = Workplace(job, folder, self.ops, progress, evidence_keys(steps.secret), held=held)
        with self._second_compiler():
            yield InProcess(place, steps, abreast)

    def to_json(self) -> dict[str, Any]:
        """What the report says of it."""
        return {"name": "local", "workers": 1}

    def _second_compiler(self) -> AbstractContextManager[None]:
        """One for a first run, where there is memory for what only saves time."""
        if self.ops.name != "cpu" or not held_bytes(self.memory):
            return nullcontext()
        from gpulsh.backends.cpu.second_compiler import second_compiler  # loads Numba

        return second_compiler()


class InProcess:
    """`run.job.task.Runner` at one workplace, with `workers` threads for tasks that run abreast."""

    def __init__(self, place: Workplace, steps: Steps, workers: int) -> None:
        self._place, self._steps, self._workers = place, steps, workers
        self.resumed: set[str] = set()

    def run(self, stage: Stage) -> list[Mapping[str, Any]]:
        """The facts of each task; one that was finished before is not done again."""
        found = [self._steps.finished(task.step) for task in stage.tasks]
        for facts in found:
            if facts is not None:
                tell(facts, stage.unit, self._place.progress, before=True)
                self.resumed.add(stage.name)
        missing = [number for number, facts in enumerate(found) if facts is None]
        tasks = [stage.tasks[number] for number in missing]
        workers = min(self._workers, len(tasks)) if stage.abreast else 0
        for place, made in self._abreast(tasks, workers) if workers > 1 else self._in_turn(tasks, stage.abreast):
            self._steps.finish(tasks[place].step, made)
            found[missing[place]] = made.facts
        give_back()
        return [facts for facts in found if facts is not None]

    def _in_turn(self, tasks: Sequence[Task], abreast: bool) -> Iterator[tuple[int, Made]]:
        """One after another; those that would run `abreast` share the memory with what is held."""
        doing, whole = Abreast(self._place, 1), replace(self._place, held=None)
        for place, task in enumerate(tasks):
            yield place, doing.do(task.work, *task.arguments) if abreast else task.work(whole, *task.arguments)

    def _abreast(self, tasks: Sequence[Task], workers: int) -> Iterator[tuple[int, Made]]:
        """Whatever is done; where tasks fail, the error of the first of them, as if they were done in turn."""
        doing = Abreast(self._place, workers)
        with ThreadPoolExecutor(workers) as pool:
            begun = {pool.submit(doing.do, task.work, *task.arguments): place for place, task in enumerate(tasks)}
            failed: dict[int, BaseException] = {}
            try:
                for future in as_completed(begun):
                    if future.cancelled():
                        continue
                    error = future.exception()
                    if error is None:
                        yield begun[future], future.result()
                        continue
                    failed[begun[future]] = error
                    for other, place in begun.items():
                        if place > min(failed):
                            other.cancel()
                if failed:
                    raise failed[min(failed)]
            finally:
                doing.stop()
                for future in begun:
                    future.cancel()
