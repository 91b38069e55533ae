"""A missing, broken or old CUDA is reported with its reason; nothing here needs a device."""

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpulsh.backends.cuda import CudaBackend, device
from gpulsh.backends.cuda.launcher import DeviceLauncher
from gpulsh.errors import BackendError
from tests.kernels.host_cupy import devices_unknown
from tests.support.runs import python

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

    def arange(*_: Any, **__: Any) -> Any:
        if refuses == "compiler":
            raise RuntimeError("Failed to find CUDA headers.\nInstall them")
        return SimpleNamespace(get=lambda: np.zeros(1))

    properties = {"name": b"A device", "major": capability[0], "minor": capability[1], "totalGlobalMem": 8 * 2**30}
    runtime = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=get_count,
        getDevice=lambda: 0,
        getDeviceProperties=lambda _: properties,
    )
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime), zeros=zeros, arange=arange, uint8=np.uint8)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with devices_unknown():
        yield


CUDA13 = 'pip install "gpulsh[cuda13]"'


@pytest.mark.parametrize(
    ("cupy", "reason"),
    [
        (cupy_with(count=0), "there is no CUDA device"),
        (cupy_with(refuses="count"), "no CUDA device can be used (cudaErrorInsufficientDriver: CUDA driver version is"),
        (cupy_with(capability=(6, 1)), "the CUDA device has compute capability 6.1; 7.0 or newer is needed"),
        (cupy_with(refuses="memory"), "the CUDA device does not work (out of memory)"),
        (
            cupy_with(refuses="compiler"),
            f"cupy cannot compile a kernel (Failed to find CUDA headers. Install them); {CUDA13}",
        ),
        (None, f"cupy cannot be imported (import of cupy halted; None in sys.modules); {CUDA13}, or"),
    ],
)
def test_why_unavailable(monkeypatch: pytest.MonkeyPatch, cupy: Any, reason: str) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert str(device.why_unavailable()).startswith(reason)
    with pytest.raises(BackendError, match=r"CUDA does not work here: .*; use backend='cpu', or 'auto'"):
        CudaBackend()


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy_with(capability=(7, 0)))
    assert device.why_unavailable() is None
    assert device.devices() == ["A device, compute capability 7.0, 8 GiB"]
    for missing in (None, cupy_with(refuses="count")):
        monkeypatch.setitem(sys.modules, "cupy", missing)
        assert device.devices() == []


FORKED = """
import os, sys
from types import SimpleNamespace
import numpy as np
from tests.kernels.test_device import cupy_with
from tests.kernels.host_cupy import devices_unknown
with devices_unknown():
    sys.modules["cupy"] = cupy_with()
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


def test_a_forked_child_of_a_process_with_cuda_says_so_and_works_on_the_cpu() -> None:
    *said, parent = python(FORKED).splitlines()
    reason = f"this process was forked from process {parent}, which uses CUDA, and CUDA does not outlive a fork;"
    assert len(said) == 6 and said[:3] == said[3:]
    assert said[0].startswith(reason) and said[1] == "cpu"
    assert said[2].startswith(f"CUDA does not work here: {reason}")


def launcher_of(raw_module: Any) -> DeviceLauncher:
    cupy = cupy_with()
    cupy.RawModule = raw_module
    cupy.cuda.compiler = SimpleNamespace(CompileException=ValueError)
    return DeviceLauncher(cupy)


def test_the_device_launcher_compiles_once_and_passes_everything_on() -> None:
    """Also when lanes need the kernel at once."""
    made, calls, lanes = [], [], 3
    together, busy = threading.Barrier(lanes), threading.Event()

    def raw_module(**options: Any) -> Any:
        made.append(options)
        busy.wait(0.2)
        return SimpleNamespace(get_function=lambda name: lambda *given: calls.append((name, *given)))

    def start(_: int) -> None:
        together.wait(60)
        launch("minhash", "minhash", (3, 2), 128, np.int64(1))

    launch = launcher_of(raw_module)
    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(start, range(lanes)))
    assert calls == [("minhash", (3, 2, 1), (128, 1, 1), (np.int64(1),))] * lanes
    assert len(made) == 1 and made[0]["backend"] == "nvrtc" and "#include" not in made[0]["code"]


def test_a_kernel_that_does_not_compile_is_a_backend_error() -> None:
    def raw_module(**_: Any) -> Any:
        raise ValueError("no such architecture")

    with pytest.raises(BackendError, match=r"minhash does not compile here .no such architecture"):
        launcher_of(raw_module)("minhash", "minhash", (1, 1), 32)


# What CuPy does as it is imported, and when it has compiled something.
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
    environment = {
        **{name: value for name, value in os.environ.items() if name != "CUPY_CACHE_DIR"},
        "HOME": str(tmp_path / "own") if home == "own" else home,
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    if home == "own":
        assert folder == tmp_path / "own/.cupy/kernel_cache"
    else:
        assert folder == tmp_path / f"tmp/gpulsh-{os.geteuid()}/cupy"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("home", ["/proc/nowhere", "~"])
def test_where_nothing_can_be_written_kernels_are_kept_in_memory(
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
