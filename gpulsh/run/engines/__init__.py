"""Engines run the tasks of a job: this machine, or workers on a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from gpulsh.backends.parallel import processors
from gpulsh.backends.select import BackendName, check_backend, select_backend
from gpulsh.budget import parse_memory
from gpulsh.checks import check_choice, shown
from gpulsh.errors import BackendError, ParameterError, install_command
from gpulsh.run.engines.local import LocalEngine, LocalRunner

if TYPE_CHECKING:
    from gpulsh.run.engines.ray import Cluster, RayRunner

EngineName = Literal["local", "ray"]
Engine: TypeAlias = "LocalEngine | Cluster"  # where tasks run, while it is open
Runner: TypeAlias = "LocalRunner | RayRunner"  # runs the tasks of a job


@dataclass(frozen=True)
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
        if address is not None and not (isinstance(address, str) and address):
            raise ParameterError(
                f"address is {shown(address)}; give the address of a Ray cluster, such as '192.0.2.1:6379', or 'auto'"
            )
        if engine == "ray" and self.devices is not None:
            raise ParameterError(
                "devices are of this machine, and Ray gives each worker one; give --backend cuda alone"
            )
        if engine == "ray" and find_spec("ray") is None:
            raise BackendError(f"engine is 'ray' and Ray is not installed; {install_command('ray')}")
        if engine != "ray" and address is not None:
            raise ParameterError(f"address needs a Ray cluster and engine is {engine!r}; give --engine ray with it")
        return replace(self, threads=check_backend(self.backend, self.threads, self.devices))

    def open_engine(self) -> AbstractContextManager[Engine]:
        """The engine, open until the context is left; BackendError also where no cluster answers."""
        if self.engine == "local":
            budget = parse_memory(self.memory)
            ops = select_backend(self.backend, threads=self.threads, devices=self.devices, memory=budget)
            return nullcontext(LocalEngine(ops, self.threads or processors(), budget))
        from gpulsh.run.engines.ray import Cluster

        memory = None if self.memory is None else parse_memory(self.memory)
        return Cluster(self.address, self.backend, self.threads, memory)
