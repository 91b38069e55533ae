"""A worker: a process that does tasks, some in parallel.

It answers each task with a WorkerAnswer or the error, and does not know who sends it.
"""

from __future__ import annotations

import os
import pickle
import platform
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Self
from uuid import uuid4

import pyarrow as pa

from gpulsh import __version__
from gpulsh.backends.compiling import COMPILING, Compiled
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import GpulshError, InputError, MemoryLimitError, OutputError
from gpulsh.io.file import SHARED, File
from gpulsh.memory_limit import is_out_of_memory, limit_memory, memory_error
from gpulsh.params import SCHEME
from gpulsh.run.job import FileJob, TaskContext, TaskResult
from gpulsh.secret import evidence_keys
from gpulsh.stats.stages import Progress
from gpulsh.store.manifest import Manifest

TOKEN = "token"  # a file of the work folder that says whose it is
PATIENCE = 10.0  # seconds until a network file system shows one node's writes to another


@dataclass(frozen=True)
class WorkerSetup:
    """The information that a worker needs before its first task."""

    job: FileJob
    folder: Path
    token: str
    backend: BackendName
    threads: int
    others: tuple[str, ...] = ()  # absolute `FileJob.other_files`

    @classmethod
    def of(cls, job: FileJob, folder: Path, backend: BackendName, threads: int) -> Self:
        """The setup for workers of a run, with a new token in its work folder."""
        token = uuid4().hex
        (folder / TOKEN).write_text(token, encoding="ascii")
        return cls(job, folder, token, backend, threads, tuple(map(os.path.abspath, job.other_files)))


@dataclass(frozen=True)
class WorkerAnswer:
    """The results of a task, and the kernels that the worker compiled since its last answer."""

    result: TaskResult
    compiled: Compiled


def versions() -> dict[str, str]:
    """The versions that must be equal on all nodes; Arrow writes its own into Parquet files."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python, "gpulsh": __version__, "scheme": str(SCHEME), "pyarrow": pa.__version__}


class Worker:
    """Does tasks. The driver first calls `greet`, then `begin`, then `work` for each task."""

    def __init__(self) -> None:
        self._compiled = Compiled()  # reported so far
        self._lock = Lock()

    def greet(self) -> dict[str, str]:
        """The versions of this worker, which the driver checks before it sends anything else."""
        return versions()

    def begin(self, setup: WorkerSetup, node: str) -> str | Exception | None:
        """The device it works on, if it has a name; an error if it does not see the files, or has no such backend."""
        try:
            _check_visible(setup, node)
            manifest = Manifest.open(setup.folder)
            if manifest is None:
                raise OutputError(f"{setup.folder}: node {node} sees no manifest; give a folder that all nodes share")
            keys = evidence_keys(manifest.secret)  # read there, and sent to nobody
            try:
                ops = select_backend(setup.backend, threads=setup.threads, memory=setup.job.cut.memory)
            except GpulshError as error:
                raise type(error)(f"node {node}: {error.message}") from error
        except Exception as error:
            return _with_node_note(error, node)
        if ops.name != "cuda":
            limit_memory(setup.job.cut.memory, setup.threads)
        self._node = node
        job = replace(setup.job, stamps=replace(setup.job.stamps, compared=SHARED))
        self._context = TaskContext(job, setup.folder, ops, Progress(), keys)
        return getattr(ops, "device", None)

    def work(self, parallel: int, task: Callable[..., TaskResult], *arguments: object) -> WorkerAnswer | Exception:
        """Do a task; `parallel` tasks share the memory."""
        try:
            context = replace(self._context, ops=self._context.ops.shared_by(parallel), parallel=parallel)
            made = task(context, *arguments)
            with self._lock:
                before, self._compiled = self._compiled, COMPILING.current_count()
                return WorkerAnswer(made, self._compiled.since(before))
        except Exception as error:
            if is_out_of_memory(error) and not isinstance(error, MemoryLimitError):
                error = memory_error(f"node {self._node}")
            return _with_node_note(error, self._node)


def _with_node_note(error: Exception, node: str) -> Exception:
    """An error, as its text if it cannot be pickled, with a note that names the node."""
    trace = "".join(traceback.format_exception(error))
    try:
        error = pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(f"On node {node}:\n{trace}")
    return error


def _check_visible(setup: WorkerSetup, node: str) -> None:
    """OutputError unless the node sees the work folder, InputError unless it sees a file of each source or store,
    and the other files.
    """
    token, deadline = setup.folder / TOKEN, time.monotonic() + PATIENCE
    while True:
        with suppress(OSError, ValueError):
            if token.read_text(encoding="ascii") == setup.token:
                break
        if time.monotonic() > deadline:
            raise OutputError(
                f"{setup.folder.parent}: node {node} does not see it; give an output folder on storage that all nodes"
                " share, under the same path"
            )
        time.sleep(0.1)
    if not os.access(setup.folder, os.W_OK | os.X_OK):
        raise OutputError(f"{setup.folder.parent}: cannot be written on node {node}: Permission denied")
    job = setup.job
    own = reversed(range(job.earlier_files, len(job.files)))  # earlier ones may be gone, if no text repeats them

    def place(file: File) -> object:
        return file.source if file.filesystem is None else id(file.filesystem)

    firsts = {number: job.files[number] for number in {place(job.files[number]): number for number in own}.values()}
    local = [(file.name, file.path) for file in firsts.values() if file.filesystem is None]
    for name, path in [*local, *((path, path) for path in setup.others)]:
        if not os.path.exists(path):
            raise InputError(
                f"{name}: node {node} does not see it as {path}; put it where all nodes see it under the same path"
            )
    for number, file in firsts.items():
        if file.stamp()[:SHARED] != job.stamps.known[number][:SHARED]:
            raise InputError(
                f"{file.name}: node {node} sees another file as {file.path}, or it has changed; put it where all nodes"
                " see the same file, or start again"
            )
