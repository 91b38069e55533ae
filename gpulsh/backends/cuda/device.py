"""The CUDA installation: CuPy, its folder of compiled kernels, the driver, the devices."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from gpulsh.backends.kernel_cache import temporary_folder
from gpulsh.errors import BackendError, install_command

MIN_CAPABILITY = (7, 0)
FOLDER, IN_MEMORY = "CUPY_CACHE_DIR", "CUPY_CACHE_IN_MEMORY"  # environment variables that CuPy reads


_users = list[int]()  # the process that began to use CUDA, if one did; its children by fork hold the same list


def why_unavailable() -> str | None:
    """None if CUDA works in this process, otherwise the reason in words."""
    return _reason(os.getpid())


@cache
def _reason(process: int) -> str | None:
    if _users and process not in _users:
        return (
            f"this process was forked from process {_users[0]}, which uses CUDA, and CUDA does not outlive a fork;"
            " start processes by multiprocessing's 'spawn' or 'forkserver'"
        )
    try:
        cupy = import_cupy()
    except ImportError as error:
        reason = _error_text(error.__cause__ or error)  # CuPy's own message is a banner around it
        return f"cupy cannot be imported ({reason}); {_remedy()}"
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return f"no CUDA device can be used ({_error_text(error)})"
    if count == 0:
        return "there is no CUDA device"
    _users.append(process)
    try:
        capability = _capability(runtime.getDeviceProperties(runtime.getDevice()))
        if capability < MIN_CAPABILITY:
            return (
                f"the CUDA device has compute capability {_dotted(capability)}; {_dotted(MIN_CAPABILITY)} or newer is"
                " needed"
            )
        cupy.zeros(1, cupy.uint8).get()  # needs a context, memory and a copy: an old driver or a full device refuses
    except Exception as error:
        return f"the CUDA device does not work ({_error_text(error)})"
    try:
        cupy.arange(1, dtype=cupy.uint8).get()  # compiles a kernel: needs NVIDIA's compiler and its headers
    except Exception as error:
        return f"cupy cannot compile a kernel ({_error_text(error)}); {_remedy()}"
    return None


def devices() -> list[str]:
    """A line for each CUDA device: name, compute capability, memory. Empty without a device or CuPy."""
    found = []
    try:
        runtime = import_cupy().cuda.runtime
        for number in range(runtime.getDeviceCount()):
            properties = runtime.getDeviceProperties(number)
            name, memory = properties["name"], properties["totalGlobalMem"] / 2**30
            words = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
            found.append(f"{words}, compute capability {_dotted(_capability(properties))}, {memory:.0f} GiB")
    except Exception:  # of CuPy's own types, which are not importable here
        return []
    return found


def visible_devices(arrays: ModuleType, devices: Sequence[int] | None) -> list[int]:
    """`devices`, or all with the current one first. Raises BackendError if one of them does not exist."""
    runtime = arrays.cuda.runtime
    count, current = runtime.getDeviceCount(), runtime.getDevice()
    if devices is None:
        return [current, *(number for number in range(count) if number != current)]
    for number in devices:
        if not 0 <= number < count:
            raise BackendError(f"devices names {number}; this machine has {count}, numbered from 0")
    return list(devices)


def import_cupy() -> Any:
    """The module `cupy`, with every failure of its import as an ImportError."""
    if "cupy" not in sys.modules and find_spec("cupy"):
        find_folder(os.environ)
    try:
        import cupy
    except ImportError:
        raise
    except Exception as error:  # a broken installation fails in ways of its own
        raise ImportError(_error_text(error)) from error
    return cupy


def find_folder(environment: MutableMapping[str, str]) -> None:
    """Name a folder for compiled kernels that CuPy, which is not imported yet, can write to.

    CuPy uses `~/.cupy`, and its import fails if it cannot. In a container there is often no home, or a read-only one.
    Then kernels are kept below the temporary folder, or, if nothing is writable, in memory. CUPY_CACHE_DIR, if set,
    stays.
    """
    if FOLDER in environment:
        return
    users = os.path.expanduser("~/.cupy/kernel_cache")
    if os.path.isabs(users):  # otherwise the user is unknown, and CuPy would make a folder named ~ in the current one
        with suppress(OSError):
            os.makedirs(users, exist_ok=True)
        if os.access(users, os.W_OK | os.X_OK):
            return
    if (own := temporary_folder("cupy")) is not None:
        environment[FOLDER] = own
    else:
        environment[FOLDER], environment[IN_MEMORY] = os.path.dirname(__file__), "1"  # CuPy wants a folder that exists


def _remedy() -> str:
    return f"{install_command('cuda13')}, or {install_command('cuda12')} for a driver of CUDA 12"


def _capability(properties: Mapping[str, Any]) -> tuple[int, int]:
    return int(properties["major"]), int(properties["minor"])


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _error_text(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
