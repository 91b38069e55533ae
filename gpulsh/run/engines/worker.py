"""A worker of a cluster: a process that does tasks, some in parallel.

It answers each task with Done or the error, and does not know the cluster.
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

import pyarrow as pa

from gpulsh import __version__
from gpulsh.backends.compiling import COMPILING, Compiled
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import GpulshError, InputError, MemoryLimitError, OutputError
from gpulsh.memory_limit import lacks_memory, limit_memory, out_of_memory
from gpulsh.params import SCHEME
from gpulsh.run.job import FileJob, Made, Place
from gpulsh.secret import evidence_keys
from gpulsh.stats.stages import Progress
from gpulsh.store.manifest import Manifest

TOKEN = "token"  # a file of the work folder that says whose it is
PATIENCE = 10.0  # seconds until a network file system shows one node's writes to another


@dataclass(frozen=True)
class Brief:
    """The information that a worker needs before its first task."""

    job: FileJob
    folder: Path
    token: str
    backend: BackendName
    threads: int


@dataclass(frozen=True)
class Done:
    """The results of a task, and the kernels that the worker compiled since its last answer."""

    made: Made
    compiled: Compiled


def versions() -> dict[str, str]:
    """The versions that must be equal on all nodes; Arrow writes its own into Parquet files."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python, "gpulsh": __version__, "scheme": str(SCHEME), "pyarrow": pa.__version__}


class Worker:
    """Does tasks. The driver first calls `greet`, then `begin`, then `work` for each task."""

    def __init__(self) -> None:
        self._compiled = Compiled()  # reported so far
        self._saying = Lock()

    def greet(self) -> dict[str, str]:
        """The versions of this worker, which the driver checks before it sends anything else."""
        return versions()

    def begin(self, brief: Brief, node: str) -> str | Exception | None:
        """The device it works on, if it has a name; an error if it does not see the files, or has no such backend."""
        try:
            _check_sight(brief, node)
            manifest = Manifest.open(brief.folder)
            if manifest is None:
                raise OutputError(f"{brief.folder}: node {node} sees no manifest; give a folder that all nodes share")
            keys = evidence_keys(manifest.secret)  # read there, and sent to nobody
            try:
                ops = select_backend(brief.backend, threads=brief.threads, memory=brief.job.cut.memory)
            except GpulshError as error:
                raise type(error)(f"node {node}: {error.message}") from error
        except Exception as error:
            return _noted(error, node)
        if ops.name != "cuda":
            limit_memory(brief.job.cut.memory, brief.threads)
        self._node = node
        self._place = Place(brief.job, brief.folder, ops, Progress(), keys)
        return getattr(ops, "device", None)

    def work(self, parallel: int, task: Callable[..., Made], *arguments: object) -> Done | Exception:
        """Do a task; `parallel` tasks share the memory."""
        try:
            beside = replace(self._place, ops=self._place.ops.beside(parallel), parallel=parallel)
            made = task(beside, *arguments)
            with self._saying:
                before, self._compiled = self._compiled, COMPILING.so_far()
                return Done(made, self._compiled.since(before))
        except Exception as error:
            if lacks_memory(error) and not isinstance(error, MemoryLimitError):
                error = out_of_memory(f"node {self._node}")
            return _noted(error, self._node)


def _noted(error: Exception, node: str) -> Exception:
    """An error, as its text if it cannot be pickled, with a note that names the node."""
    trace = "".join(traceback.format_exception(error))
    try:
        error = pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(f"On node {node}:\n{trace}")
    return error


def _check_sight(brief: Brief, node: str) -> None:
    """OutputError unless the node sees the work folder, InputError unless it sees an input file of each source."""
    token, deadline = brief.folder / TOKEN, time.monotonic() + PATIENCE
    while True:
        with suppress(OSError, ValueError):
            if token.read_text(encoding="ascii") == brief.token:
                break
        if time.monotonic() > deadline:
            raise OutputError(
                f"{brief.folder.parent}: node {node} does not see it; give an output folder on storage that all nodes"
                " share, under the same path"
            )
        time.sleep(0.1)
    if not os.access(brief.folder, os.W_OK | os.X_OK):
        raise OutputError(f"{brief.folder.parent}: cannot be written on node {node}: Permission denied")
    for file in {file.source: file for file in reversed(brief.job.files)}.values():
        if file.filesystem is None and not os.path.exists(file.path):
            raise InputError(
                f"{file.name}: node {node} does not see it as {file.path}; put the inputs where all nodes see them"
                " under the same path"
            )
