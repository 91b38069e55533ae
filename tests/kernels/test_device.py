"""A missing, broken or old CUDA is reported with its reason; no test here needs a device."""

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from gpulsh.backends.cuda import CudaBackend, device
from gpulsh.backends.cuda.launcher import DeviceLauncher
from gpulsh.errors import BackendError
from tests.kernels.device_arrays import CUDARuntimeError
from tests.kernels.host_cupy import CompileException, HostCupy, devices_unknown
from tests.support.runs import python

pytestmark = pytest.mark.kernels


def cupy_with(place: str, value: Any) -> HostCupy:
    """A working `cupy` but for one of its attributes."""
    cupy = HostCupy()
    *above, name = place.split(".")
    setattr(reduce(getattr, above, cupy), name, value)
    return cupy


def failing(error: Exception) -> Mock:
    return Mock(side_effect=error)


NO_HEADERS = failing(RuntimeError("Failed to find CUDA headers.\nInstall them"))
OLD_DRIVER = failing(CUDARuntimeError("cudaErrorInsufficientDriver: CUDA driver version is\ninsufficient"))


@pytest.fixture(autouse=True)
def unknown_devices() -> Iterator[None]:
    with devices_unknown():
        yield


COUNT, PROPERTIES = "cuda.runtime.getDeviceCount", "cuda.runtime.getDeviceProperties"
CUDA13 = 'pip install "gpulsh[cuda13]"'


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (COUNT, lambda: 0, "there is no CUDA device"),
        (COUNT, OLD_DRIVER, "no CUDA device can be used (cudaErrorInsufficientDriver: CUDA driver version is"),
        (PROPERTIES, lambda _: {"major": 6, "minor": 1}, "the CUDA device has compute capability 6.1; 7.0 or newer"),
        ("zeros", failing(MemoryError("out of memory")), "the CUDA device does not work (out of memory)"),
        ("arange", NO_HEADERS, f"cupy cannot compile a kernel (Failed to find CUDA headers. Install them); {CUDA13}"),
        (None, None, f"cupy cannot be imported (import of cupy halted; None in sys.modules); {CUDA13}, or"),
    ],
)
def test_a_broken_cuda_is_reported(monkeypatch: pytest.MonkeyPatch, place: str | None, value: Any, reason: str) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None if place is None else cupy_with(place, value))  # type: ignore[arg-type]
    assert str(device.why_unavailable()).startswith(reason)
    with pytest.raises(BackendError, match=r"CUDA does not work here: .*; use backend='cpu', or 'auto'"):
        CudaBackend()


def test_devices_are_described_where_cuda_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", HostCupy())
    assert device.why_unavailable() is None
    assert device.devices() == ["Host fibres, compute capability 9.0, 1 GiB"]
    for missing in (None, cupy_with(COUNT, OLD_DRIVER)):
        monkeypatch.setitem(sys.modules, "cupy", missing)  # type: ignore[arg-type]
        assert device.devices() == []


FORKED = """
import os, sys
from tests.kernels.host_cupy import HostCupy, devices_unknown
with devices_unknown():
    sys.modules["cupy"] = HostCupy()
    from gpulsh.backends.cuda import CudaBackend, device
    from gpulsh.backends.select import select_backend
    from gpulsh.errors import BackendError
    assert device.why_unavailable() is None
    for _ in range(2):
        child = os.fork()
        if not child:
            print(device.why_unavailable())
            print(select_backend("auto").name)
            try:
                CudaBackend()
            except BackendError as error:
                print(error)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)
    assert device.why_unavailable() is None
    print(os.getpid())
"""


def test_a_forked_child_works_on_the_cpu_and_says_why() -> None:
    *printed, parent = python(FORKED).splitlines()
    reason = f"this process was forked from process {parent}, which uses CUDA, and CUDA does not outlive a fork;"
    assert len(printed) == 6 and printed[:3] == printed[3:]
    assert printed[0].startswith(reason) and printed[1] == "cpu"
    assert printed[2].startswith(f"CUDA does not work here: {reason}")


def test_the_device_launcher_compiles_a_kernel_once() -> None:
    """Several lanes may need the kernel at once."""
    made, calls, lanes = [], [], 3
    together, busy = threading.Barrier(lanes), threading.Event()

    def raw_module(**options: Any) -> Any:
        made.append(options)
        busy.wait(0.2)
        return SimpleNamespace(get_function=lambda name: lambda *given: calls.append((name, *given)))

    def start(_: int) -> None:
        together.wait(60)
        launch("minhash", "minhash", (3, 2), 128, np.int64(1))

    launch = DeviceLauncher(cupy_with("RawModule", raw_module))
    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(start, range(lanes)))
    assert calls == [("minhash", (3, 2, 1), (128, 1, 1), (np.int64(1),))] * lanes
    assert len(made) == 1 and made[0]["backend"] == "nvrtc" and "#include" not in made[0]["code"]


def test_a_kernel_that_does_not_compile_is_a_backend_error() -> None:
    launch = DeviceLauncher(cupy_with("RawModule", failing(CompileException("no such architecture"))))
    with pytest.raises(BackendError, match=r"minhash does not compile here .no such architecture"):
        launch("minhash", "minhash", (1, 1), 32)


# CuPy's acts on import, and after it compiled.
FOLDER_OF_CUPY = """
import os
folder = os.environ.get("CUPY_CACHE_DIR", os.path.expanduser("~/.cupy/kernel_cache"))
if not os.path.isdir(folder):
    os.makedirs(folder, exist_ok=True)
if not int(os.environ.get("CUPY_CACHE_IN_MEMORY", 0)):
    open(os.path.join(folder, "kernel"), "wb").close()
"""


@pytest.mark.parametrize("home", ["/proc/nowhere", "own"])
def test_cupy_is_imported_without_a_home(tmp_path: Path, home: str) -> None:
    (tmp_path / "cupy.py").write_text(FOLDER_OF_CUPY)
    for name in ("own", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    code = "from gpulsh.backends.cuda.device import import_cupy; print(import_cupy().folder)"
    environment = {name: value for name, value in os.environ.items() if name != "CUPY_CACHE_DIR"}
    environment["HOME"] = str(tmp_path / "own") if home == "own" else home
    environment["TMPDIR"] = str(tmp_path / "tmp")
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = Path(done.stdout.strip())
    assert found == tmp_path / ("own/.cupy/kernel_cache" if home == "own" else f"tmp/gpulsh-{os.geteuid()}/cupy")
    assert home == "own" or stat.S_IMODE(found.stat().st_mode) == 0o700


@pytest.mark.parametrize("home", ["/proc/nowhere", "~"])
def test_cupy_keeps_kernels_in_memory_without_a_writable_folder(
    home: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "temporary_folder", lambda _: None)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path.replace("~", home))
    given = {"CUPY_CACHE_DIR": "/chosen"}
    device.find_folder(given)
    assert given == {"CUPY_CACHE_DIR": "/chosen"}
    found: dict[str, str] = {}
    device.find_folder(found)
    assert os.path.isdir(found["CUPY_CACHE_DIR"]) and found["CUPY_CACHE_IN_MEMORY"] == "1"
    assert not list(folder.iterdir())
