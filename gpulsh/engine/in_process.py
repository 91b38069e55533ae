"""Tasks run in this process: those that the backend works at with all its threads one after another, others abreast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpulsh.backends.protocol import Backend
from gpulsh.dedup.job import Job
from gpulsh.dedup.progress import Progress
from gpulsh.dedup.task import Made, Runner, Stage, Task, Workplace
from gpulsh.engine.abreast import Abreast
from gpulsh.engine.steps import Steps, tell
from gpulsh.store.allocators import give_back

WORKER_MEMORY = 512 << 20  # of the budget, for each task that runs beside others


class ThisProcess:
    """The engine "local": `engine.engines.Engine` without anybody else."""

    def __init__(self, ops: Backend, threads: int, memory: int) -> None:
        self.ops, self.memory = ops, memory
        self._threads = threads

    @contextmanager
    def running(self, job: Job, folder: Path, steps: Steps, progress: Progress) -> Iterator[Runner]:
        """This process."""
        abreast = max(1, min(self._threads, self.memory // WORKER_MEMORY))
        yield InProcess(Workplace(job, folder, self.ops, progress), steps, abreast)

    def to_json(self) -> dict[str, Any]:
        """What the report says of it."""
        return {"name": "local", "workers": 1}


class InProcess:
    """`dedup.task.Runner` at one workplace, with `workers` threads for tasks that run abreast."""

    def __init__(self, place: Workplace, steps: Steps, workers: int) -> None:
        self._place, self._steps, self._workers = place, steps, workers

    def run(self, stage: Stage) -> list[Mapping[str, Any]]:
        """The facts of each task; one that was finished before is not done again."""
        found = [self._steps.finished(task.step) for task in stage.tasks]
        for facts in found:
            if facts is not None:
                tell(facts, stage.unit, self._place.progress)
        missing = [number for number, facts in enumerate(found) if facts is None]
        abreast = stage.abreast and self._workers > 1 and len(missing) > 1
        work = self._abreast if abreast else self._in_turn
        tasks = [stage.tasks[number] for number in missing]
        for number, task, made in zip(missing, tasks, work(tasks), strict=True):
            self._steps.finish(task.step, made)
            found[number] = made.facts
        give_back()
        return [facts for facts in found if facts is not None]

    def _in_turn(self, tasks: Sequence[Task]) -> Iterator[Made]:
        return (task.work(self._place, *task.arguments) for task in tasks)

    def _abreast(self, tasks: Sequence[Task]) -> Iterator[Made]:
        workers = min(self._workers, len(tasks))
        doing = Abreast(self._place, workers)
        with ThreadPoolExecutor(workers) as pool:
            begun = [pool.submit(doing.do, task.work, *task.arguments) for task in tasks]
            try:
                for future in begun:
                    yield future.result()
            finally:
                doing.stop()
                for future in begun:
                    future.cancel()
