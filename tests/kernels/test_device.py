"""What is said of CUDA where it is missing, broken or old; nothing here needs a device."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpulsh.backends.cuda import CudaBackend, device
from gpulsh.backends.cuda.launcher import DeviceLauncher, Geometry
from gpulsh.errors import BackendError

pytestmark = pytest.mark.kernels


class CUDARuntimeError(RuntimeError):
    pass


def cupy_with(count: int = 1, capability: tuple[int, int] = (9, 0), refuses: str = "") -> Any:
    """A `cupy` that answers as one on such a machine."""

    def get_count() -> int:
        if refuses == "count":
            raise CUDARuntimeError("cudaErrorInsufficientDriver: CUDA driver version is\ninsufficient")
        return count

    def zeros(*_: Any) -> Any:
        if refuses == "memory":
            raise MemoryError("out of memory")
        return SimpleNamespace(get=lambda: np.zeros(1))

    properties = {"name": b"A device", "major": capability[0], "minor": capability[1], "totalGlobalMem": 8 * 2**30}
    runtime = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=get_count,
        getDevice=lambda: 0,
        getDeviceProperties=lambda _: properties,
    )
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime), zeros=zeros, uint8=np.uint8)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    device.why_unavailable.cache_clear()
    yield
    device.why_unavailable.cache_clear()


@pytest.mark.parametrize(
    ("cupy", "reason"),
    [
        (cupy_with(count=0), "there is no CUDA device"),
        (
            cupy_with(refuses="count"),
            "no CUDA device can be used (cudaErrorInsufficientDriver: CUDA driver version is insu",
        ),
        (cupy_with(capability=(6, 1)), "the CUDA device has compute capability 6.1; 7.0 or newer is needed"),
        (cupy_with(refuses="memory"), "the CUDA device does not work (out of memory)"),
        (
            None,
            'cupy cannot be imported (import of cupy halted; None in sys.modules); pip install "gpulsh[cuda13]", or',
        ),
    ],
)
def test_why_unavailable(monkeypatch: pytest.MonkeyPatch, cupy: Any, reason: str) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert str(device.why_unavailable()).startswith(reason)
    with pytest.raises(BackendError, match=r"CUDA does not work here: .*; ask for backend='cpu', or 'auto'"):
        CudaBackend()


def test_a_device_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy_with(capability=(7, 0)))
    assert device.why_unavailable() is None
    assert device.devices() == ["A device, compute capability 7.0, 8 GiB"]


def test_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert device.devices() == []
    monkeypatch.setitem(sys.modules, "cupy", cupy_with(refuses="count"))
    assert device.devices() == []


def test_the_device_launcher_compiles_once_and_passes_everything_on() -> None:
    made, calls = [], []

    def raw_module(**options: Any) -> Any:
        made.append(options)
        return SimpleNamespace(get_function=lambda name: lambda *given: calls.append((name, *given)))

    cupy = cupy_with()
    cupy.RawModule = raw_module
    cupy.cuda.compiler = SimpleNamespace(CompileException=ValueError)
    launch = DeviceLauncher(cupy)
    for _ in range(2):
        launch("minhash", "minhash", (3, 2), Geometry().minhash_threads, np.int64(1))
    assert calls == [("minhash", (3, 2, 1), (128, 1, 1), (np.int64(1),))] * 2
    assert len(made) == 1 and made[0]["backend"] == "nvrtc" and "#include" not in made[0]["code"]


def test_a_kernel_that_does_not_compile_is_a_backend_error() -> None:
    def raw_module(**_: Any) -> Any:
        raise ValueError("no such architecture")

    cupy = cupy_with()
    cupy.RawModule = raw_module
    cupy.cuda.compiler = SimpleNamespace(CompileException=ValueError)
    with pytest.raises(BackendError, match=r"minhash does not compile here .no such architecture"):
        DeviceLauncher(cupy)("minhash", "minhash", (1, 1), 32)


def test_importing_the_backend_loads_no_cupy() -> None:
    code = "import sys, gpulsh.backends.cuda; sys.exit('cupy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
