"""A CUDA backend without a device: CuPy's stand-in holds the arrays, the CPU's operations do the work of the kernels.

`Clock` divides the processor time of a run: `device` is what operations, and calls of the array module, took. A device
would do that. The rest is the host's own work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from threading import local
from typing import Any
from unittest import mock

import numpy as np

from gpulsh.arrays import Arrays, Rows, TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.cuda.backend import LANES, CudaBackend, Shared
from gpulsh.backends.cuda.launcher import Geometry
from gpulsh.backends.cuda.memory import text_sizes
from gpulsh.backends.protocol import Backend, Sizes
from gpulsh.stats.stages import Progress
from tests.kernels.device_arrays import DeviceArray, DeviceModule

FREE = 70 << 30  # bytes of a device
# What the stand-in is asked besides its functions; the operators of an array end in the first two.
METHODS = ("__array_ufunc__", "__array_function__", "__getitem__", "__setitem__", "__getattr__", "__init__", "__del__",
           "__int__", "__float__", "__bool__", "get", "set", "sort", "astype", "copy", "reshape", "view")  # fmt: skip
FUNCTIONS = ("asarray", "array", "empty", "ascontiguousarray", "argsort", "sort", "from_dlpack", "__getattr__")
OPERATIONS = ("sign", "shingle", "shingle_sets", "gather", "unique", "intersect", "bitmaps", "overlap_bounds",
              "collisions", "candidates", "components", "frequencies", "prefixes", "text_simhash")  # fmt: skip

Call = Callable[..., Any]


class Clock(Progress):
    """The host's processor seconds of each stage."""

    def __init__(self) -> None:
        self.host: dict[str, float] = {}
        self._within = local()
        self._device: list[float] = []

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[None]:
        """As `Progress`."""
        before = self._now()
        yield
        self.host[name] = self.host.get(name, 0.0) + self._now() - before

    def device(self, call: Call) -> Call:
        """`call`, whose time is the device's."""

        @wraps(call)
        def timed(*given: Any, **named: Any) -> Any:
            if getattr(self._within, "call", False):
                return call(*given, **named)
            self._within.call, began = True, time.thread_time()
            try:
                found = call(*given, **named)
                return self.device(found) if call.__name__ == "__getattr__" and callable(found) else found
            finally:
                self._within.call = False
                self._device.append(time.thread_time() - began)

        return timed

    def _now(self) -> float:
        return time.process_time() - sum(self._device)


class StandIn(CudaBackend):
    """The operations of a CPU on a device's arrays; texts go through the staging of a device."""

    def sizes(self) -> Sizes:
        return text_sizes(FREE, Geometry().text_bytes)


class _Shared(Shared):
    def _lane_set(self, device: int) -> list[CudaBackend]:
        return [StandIn(self, devices=[device]) for _ in range(LANES)]


@contextmanager
def stand_in(clock: Clock) -> Iterator[Backend]:
    """The backend; inside, `clock` runs."""
    cpu = CpuBackend(1)

    def operation(name: str) -> Call:
        work = clock.device(lambda *given: _moved(getattr(cpu, name)(*(_moved(one, False) for one in given)), True))

        def run(self: StandIn, *given: Any) -> Any:
            return work(*(self.staging.on_device(one) if isinstance(one, TextBatch) else one for one in given))

        return run

    module = DeviceModule()
    module.cuda.runtime.memcpyAsync = clock.device(module.cuda.runtime.memcpyAsync)
    work = mock.patch.multiple(StandIn, **{name: operation(name) for name in OPERATIONS}, create=True)
    with work, _timed(DeviceArray, METHODS, clock), _timed(DeviceModule, FUNCTIONS, clock):
        yield StandIn(_Shared(module, _no_kernel))


@contextmanager
def _timed(kind: type, names: tuple[str, ...], clock: Clock) -> Iterator[None]:
    with mock.patch.multiple(kind, **{name: clock.device(getattr(kind, name)) for name in names}):  # type: ignore[call-overload]
        yield


def _moved(value: Any, there: bool = True) -> Any:
    """Arrays, and all arrays in it, as a device's or as the host's."""
    if isinstance(value, np.ndarray) and there:
        return DeviceArray(value)
    if isinstance(value, DeviceArray) and not there:
        return value.host
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_moved(one, there) for one in value)
    if isinstance(value, (Rows, Arrays)) and is_dataclass(value):
        return type(value)(*(_moved(getattr(value, one.name), there) for one in fields(value)))
    return value


def _no_kernel(*given: Any) -> None:
    raise AssertionError(f"a kernel was started: {given[:2]}")
