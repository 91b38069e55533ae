"""Run tasks on this machine: one after another if each uses all threads of the backend, otherwise in parallel.

Tasks run in threads of this process. The tasks of a long run have processes of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from gpulsh.backends.parallel import is_python
from gpulsh.backends.protocol import Backend
from gpulsh.budget import TASK_MEMORY, held_bytes, machine_memory, parse_memory, task_sizes
from gpulsh.errors import Advice, LargeDocumentError, MemoryLimitError
from gpulsh.io.files.file_texts import HeldTexts
from gpulsh.io.limits import exact_size
from gpulsh.memory_limit import is_out_of_memory, memory_error
from gpulsh.run.engines.children import Children
from gpulsh.run.engines.worker import WorkerSetup
from gpulsh.run.job import FileJob, Stage, Task, TaskContext, TaskResult, report_done
from gpulsh.secret import evidence_keys
from gpulsh.stats.stages import Progress
from gpulsh.store.columns import release_memory
from gpulsh.store.manifest import Manifest

MIN_CHILDREN, MIN_BYTES = 4, 1 << 30  # tasks at once, and bytes of input, from which on processes are used
_log = logging.getLogger("gpulsh")

READERS = 4  # of the files that an earlier run made; each holds some MiB of one


def max_parallel(threads: int, memory: int) -> int:
    """The number of tasks that a process with these threads and bytes does in parallel."""
    return max(1, min(threads, memory // TASK_MEMORY))


def report_finished(
    stage: Stage, manifest: Manifest, progress: Progress, resumed: set[str]
) -> list[Mapping[str, Any] | None]:
    """The facts of each task that an earlier run finished, which are reported; None if it must be done."""
    begun = any(manifest.find(task.step) for task in stage.tasks)  # otherwise no thread is started
    with ThreadPoolExecutor(READERS) if begun else nullcontext() as pool:
        found = list((pool.map if pool else map)(manifest.finished, [task.step for task in stage.tasks]))
    for facts in found:
        if facts is not None:
            report_done(facts, stage.row.unit, progress, before=True)
            resumed.add(stage.row.name)
    return found


class LocalEngine:
    """The engine "local", with `memory` bytes: this process, and for a long run its children."""

    remote = False

    def __init__(self, ops: Backend, threads: int, memory: int) -> None:
        self.ops, self.memory = ops, memory
        self._threads = threads
        self._processes = 1

    @contextmanager
    def running(self, job: FileJob, folder: Path, manifest: Manifest, progress: Progress) -> Iterator[LocalRunner]:
        """A runner that does all tasks of the job in the work folder `folder`, until the context is left."""
        parallel, processes = max_parallel(self._threads, self.memory), self.processes(job)
        most = max_parallel(self._threads, machine_memory() // 2)
        if processes > 1 and most > parallel and self.memory == parse_memory(None):
            enough = exact_size(most * TASK_MEMORY)
            _log.warning(
                Advice(f"the default of --memory allows {parallel} tasks at once; --memory {enough} allows {most}")
            )
        size = 0 if processes > 1 else held_bytes(self.memory, device=self.ops.sizes().device > 0)
        held = HeldTexts(size) if size else None
        context = TaskContext(job, folder, self.ops, progress, evidence_keys(manifest.secret), held=held)
        with ExitStack() as stack:
            if self.ops.name == "cpu" and size:  # for a first run, where memory can be spared
                from gpulsh.backends.cpu import second_compiler  # loads Numba

                stack.enter_context(second_compiler())

            def begin_children() -> Children | None:
                nonlocal processes
                if processes == 1:
                    return None
                shared = replace(job, cut=replace(job.cut, memory=self.memory // processes))
                try:
                    children = Children(WorkerSetup.of(shared, folder, "cpu", self._threads // processes), processes)
                except Exception as error:
                    _log.warning("tasks share one process, because no others could begin: %s", error)
                    processes = 1
                    return None
                stack.callback(children.kill)
                self._processes = processes
                return children

            small = task_sizes(self.memory, self.ops.sizes(), processes)
            fits = processes > 1 and job.cut.group <= small.group and job.cut.digests <= small.digests
            yield LocalRunner(context, manifest, parallel, begin_children, fits)

    def processes(self, job: FileJob) -> int:
        """How many processes share the memory: 1, or one for each parallel task of a long run."""
        parallel = max_parallel(self._threads, self.memory)
        if parallel < MIN_CHILDREN or self.ops.name != "cpu" or not is_python():
            return 1
        sizes = (job.stamps.known[number][0] for number in range(job.earlier_files, len(job.files)))
        return parallel if sum(size for size in sizes if isinstance(size, int)) >= MIN_BYTES else 1

    def to_json(self) -> Mapping[str, Any]:
        """The engine's entry in the report."""
        return {"name": "local", "workers": self._processes}


class LocalRunner:
    """Runs tasks in this process, with `workers` threads for tasks that run in parallel, which children may do.

    If `all_fit`, the tasks of every stage fit into the memory side by side, otherwise only those of parallel stages.
    `resumed` are the stages with tasks that an earlier run finished.
    """

    def __init__(
        self,
        context: TaskContext[Any],
        manifest: Manifest,
        workers: int,
        begin_children: Callable[[], Children | None] = lambda: None,
        all_fit: bool = False,
    ) -> None:
        self._context, self._manifest, self._workers = context, manifest, workers
        self._begin_children, self._all_fit = begin_children, all_fit
        self._children: Children | None = None
        self.resumed: set[str] = set()
        self.held = context.held

    def run(self, stage: Stage) -> list[Mapping[str, Any]]:
        """The facts of each task, unfinished ones done now, and reported when they end where they run in parallel."""
        progress = self._context.progress
        found = report_finished(stage, self._manifest, progress, self.resumed)
        missing = {number: task for number, task in enumerate(stage.tasks) if found[number] is None}
        parallel = bool(missing) and (stage.parallel or (self._all_fit and len(missing) >= MIN_CHILDREN))
        try:
            for number, made in self._run_in_parallel(missing) if parallel else self._run_in_turn(missing, progress):
                self._manifest.add(stage.tasks[number].step, made.files, made.facts, brief=made.brief)
                found[number] = made.facts
                if parallel:
                    report_done(made.facts, stage.row.unit, progress)
        except Exception as error:
            if isinstance(error, MemoryLimitError) or not is_out_of_memory(error):
                raise
            raise memory_error(stage.row.name) from error
        release_memory()
        return [facts for facts in found if facts is not None]

    def _run_in_turn(self, tasks: Mapping[int, Task], progress: Progress) -> Iterator[tuple[int, TaskResult]]:
        """One after another, each with all memory. Where a device signs in turn, texts wait in a part of it."""
        held = self._context.held if self._context.ops.sizes().device else None
        whole = replace(self._context, held=held, progress=progress)
        for number, task in tasks.items():
            made = task.work(whole, *task.arguments)
            if "amount" not in made.facts:
                progress.advance(1)
            yield number, made

    def _run_alone(self, tasks: Mapping[int, Task]) -> Iterator[tuple[int, TaskResult]]:
        """Run tasks one by one when the others have ended and their memory is free."""
        if tasks and self._context.held is not None:
            self._context.held.close()
        if tasks and self._children is not None:
            self._children.kill()
            self._children = None
        return self._run_in_turn(tasks, Progress())

    def _run_in_parallel(self, tasks: Mapping[int, Task]) -> Iterator[tuple[int, TaskResult]]:
        """Yields tasks as they end. If tasks fail, raises the error of the first one in order.

        A document may need more than a task's share of memory. A task that meets one, or that gets no more memory,
        starts again at the end, alone. Held texts count as one more task.
        """
        workers, stopped = min(self._workers, len(tasks)), Event()
        parallel = workers + (self._context.held is not None)
        if workers > 1 and self._children is None:
            self._children = self._begin_children()
        children = self._children if workers > 1 else None
        ops = self._context.ops.shared_by(workers)
        context = replace(self._context, ops=ops, parallel=parallel, progress=_StoppableProgress(stopped))

        def attempt(task: Task) -> TaskResult | None:
            try:
                return children.work(task) if children else task.work(context, *task.arguments)
            except Exception as error:
                too_large = isinstance(error, (LargeDocumentError, MemoryLimitError)) or is_out_of_memory(error)
                if parallel == 1 or not too_large:
                    raise
                return None

        if workers == 1:  # here, where an interrupt reaches it
            for number, task in tasks.items():
                made = attempt(task)
                yield from self._run_alone({number: task}) if made is None else [(number, made)]
            return
        large: dict[int, Task] = {}
        failed: dict[int, BaseException] = {}
        with ThreadPoolExecutor(workers) as pool:
            begun = {pool.submit(attempt, task): number for number, task in tasks.items()}
            try:
                for future in as_completed(begun):
                    number = begun[future]
                    if future.cancelled():
                        continue
                    if (error := future.exception()) is not None:
                        failed[number] = error
                        for other, later in begun.items():
                            if later > min(failed):
                                other.cancel()
                    elif (made := future.result()) is not None:
                        yield number, made
                    else:
                        large[number] = tasks[number]
            except BaseException:
                if children:
                    children.kill()
                raise
            finally:
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
        first = min(failed, default=max(tasks) + 1)
        yield from self._run_alone({number: large[number] for number in sorted(large) if number < first})
        if failed:
            raise failed[first]


class _StoppableProgress(Progress):
    """Ends a task when it next reports progress, once its result is not needed any more."""

    def __init__(self, stopped: Event) -> None:
        self._stopped = stopped

    def advance(self, amount: int) -> None:
        if self._stopped.is_set():
            raise CancelledError
