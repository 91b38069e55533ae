"""A module `cupy` on the host: arrays that refuse to become NumPy's, kernels that fibres run, events by its clock.

What the library and the benchmarks ask of CuPy beyond arrays is here and nothing else, so whatever runs on it asks a
device for nothing that is missing here.
"""

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from gpulsh.backends.cuda import backend, device
from tests.kernels.device_arrays import DeviceModule, _Device, _Event, current_device
from tests.kernels.host import WHOLE_WARPS, HostLauncher, build, signatures


class CompileException(RuntimeError):
    pass


class Event(_Event):
    at: float

    def record(self, stream: Any = None) -> None:
        super().record(stream)
        self.at = time.perf_counter()


class Device(_Device):
    def __init__(self, number: int | None = None) -> None:
        super().__init__(current_device() if number is None else number)

    def synchronize(self) -> None:
        pass


class GivenSource(HostLauncher):
    """A launcher of one source text, as RawModule holds one."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self._files["given"] = ctypes.CDLL(str(build(code))), signatures(code)
        self._whole["given"] = WHOLE_WARPS.search(code) is not None

    def get_function(self, name: str) -> Any:
        def run(blocks: tuple[int, int, int], threads: tuple[int, int, int], arguments: tuple[Any, ...]) -> None:
            assert blocks[2] == threads[1] == threads[2] == 1
            self("given", name, blocks[:2], threads[0], *arguments)

        return run


class HostCupy(ModuleType):
    """The module to put at sys.modules["cupy"]."""

    __version__ = "0 (on the host)"
    uint8 = np.uint8

    def __init__(self) -> None:
        super().__init__("cupy")
        self.unpooled = False
        self._arrays = DeviceModule()
        properties = {"name": b"Host fibres", "major": 9, "minor": 0, "totalGlobalMem": 2**30, "multiProcessorCount": 1}
        given = self._arrays.cuda
        runtime = SimpleNamespace(
            **vars(given.runtime),
            getDeviceProperties=lambda _: properties,
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 13000,
        )
        self.cuda = SimpleNamespace(
            **{name: value for name, value in vars(given).items() if name not in ("runtime", "Device", "Event")},
            Device=Device,
            Event=Event,
            get_elapsed_time=lambda before, behind: max((behind.at - before.at) * 1e3, 1e-3),
            set_allocator=lambda allocator: setattr(self, "unpooled", allocator is None),
            compiler=SimpleNamespace(CompileException=CompileException),
            runtime=runtime,
        )

    def RawModule(self, *, code: str, options: tuple[str, ...], backend: str) -> GivenSource:
        assert backend == "nvrtc" and "#include" not in code
        return GivenSource(code)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._arrays, name)


@contextmanager
def devices_unknown() -> Iterator[None]:
    """Forget the devices of the process, before and after."""
    caches = (device._reason, backend._device)
    users = device._users[:]
    for cache in caches:
        cache.cache_clear()
    device._users.clear()
    try:
        yield
    finally:
        for cache in caches:
            cache.cache_clear()
        device._users[:] = users
