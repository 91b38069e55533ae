"""Engines run the tasks of a job: this process, or workers on a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from gpulsh.backends.parallel import processors
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, check_backend, select_backend
from gpulsh.budget import parse_memory
from gpulsh.errors import BackendError, ParameterError, install
from gpulsh.params import check_choice, shown
from gpulsh.run.engines.local import ThisProcess
from gpulsh.run.job import FileJob, Runner
from gpulsh.stats.stages import Progress
from gpulsh.store.manifest import Manifest

EngineName = Literal["local", "ray"]


class Engine(Protocol):
    """A place where tasks run, while it is open."""

    remote: bool  # other processes run them, which may have another current folder
    memory: int  # bytes that a worker may take

    @property
    def ops(self) -> Backend:
        """The backend, for its name, its device and its batch sizes; each worker has one of its own."""

    def running(
        self, job: FileJob, folder: Path, manifest: Manifest, progress: Progress
    ) -> AbstractContextManager[Runner]:
        """A runner of the job's tasks in the work folder `folder`; nothing runs once the context is left."""

    def to_json(self) -> Mapping[str, Any]:
        """The engine's entry in the report."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where a run works: parameters that change no byte of its results."""

    backend: BackendName
    threads: int | None
    devices: Sequence[int] | None
    memory: int | str | None
    engine: EngineName
    address: str | None

    def checked(self) -> Machine:
        """This machine in plain types; ParameterError if it is not possible, BackendError if Ray is not installed.

        Loads neither Ray nor a backend: a finished run needs none.
        """
        parse_memory(self.memory)
        engine, address = self.engine, self.address
        check_choice("engine", engine, get_args(EngineName))
        if address is not None and not isinstance(address, str):
            raise ParameterError(
                f"address is {shown(address)}; give the address of a Ray cluster, such as '192.0.2.1:6379', or 'auto'"
            )
        if engine == "ray" and self.devices is not None:
            raise ParameterError(
                "devices are of this machine, and Ray gives each worker one; give --backend cuda alone"
            )
        if engine == "ray" and find_spec("ray") is None:
            raise BackendError(f"engine is 'ray' and Ray is not installed; {install('ray')}")
        if engine != "ray" and address is not None:
            raise ParameterError(f"address needs a Ray cluster and engine is {engine!r}; give --engine ray with it")
        return replace(self, threads=check_backend(self.backend, self.threads, self.devices))

    def opened(self) -> AbstractContextManager[Engine]:
        """The engine, open until the context is left; BackendError also where no cluster answers."""
        if self.engine == "local":
            budget = parse_memory(self.memory)
            ops = select_backend(self.backend, threads=self.threads, devices=self.devices, memory=budget)
            return nullcontext(ThisProcess(ops, self.threads or processors(), budget))
        from gpulsh.run.engines.ray import Cluster

        memory = None if self.memory is None else parse_memory(self.memory)
        return Cluster(self.address, self.backend, self.threads, memory)
