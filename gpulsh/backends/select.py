"""Choose a backend by name, and say of each whether it works here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from gpulsh.backends.protocol import Backend
from gpulsh.errors import BackendError, ParameterError
from gpulsh.params import check_choice, check_integer, shown

BackendName = Literal["auto", "reference", "cpu", "cuda"]


def select_backend(
    name: BackendName = "auto",
    *,
    threads: int | None = None,
    devices: Sequence[int] | None = None,
    memory: int | None = None,
) -> Backend:
    """The backend `name`; "auto" takes CUDA when it works, otherwise the CPU.

    `threads` is how many threads the CPU backend uses, None for all processors this process may run on; `devices` are
    the numbers of the CUDA devices to use, None for all that are visible; `memory` is what a run on the CPU may take,
    in bytes.
    Raises ParameterError for an unknown name, BackendError when CUDA was asked for and does not work, or the CPU's
    libraries cannot be loaded.
    """
    threads = check_backend(name, threads, devices)
    if name == "reference":
        from gpulsh.backends.reference import ReferenceBackend

        return ReferenceBackend()
    reason = None if name == "cpu" else _cuda_unavailable()
    if name == "cuda" and reason is not None:
        raise BackendError(f"backend 'cuda' was asked for and does not work here: {reason}")
    if devices is not None and reason is not None:
        raise BackendError(f"devices were asked for and CUDA does not work here: {reason}")
    if name == "cpu" or reason is not None:
        try:
            from gpulsh.backends.cpu import CpuBackend
        except (ImportError, OSError) as error:  # a library that finds no memory, as under `ulimit -v`, is not loaded
            told = str(error).partition(". ")[0]
            raise BackendError(
                f"backend 'cpu' cannot be loaded: {told}; it needs Numba, and memory to load it in (ulimit -v); or give"
                " --backend reference"
            ) from error

        return CpuBackend(threads) if memory is None else CpuBackend(threads, memory)
    from gpulsh.backends.cuda import CudaBackend

    return CudaBackend(devices=devices)


def check_backend(name: BackendName, threads: int | None, devices: Sequence[int] | None) -> int | None:
    """`threads` as an int, where given; raises ParameterError for what no machine can do."""
    check_choice("backend", name, get_args(BackendName))
    if threads is not None:
        threads = check_integer("threads", threads, 1, 1024)
    if devices is not None:
        _check_devices(devices, name)
    return threads


def backend_status() -> dict[str, str | None]:
    """Each backend's name, with None where it works and the reason where it does not."""
    return {"reference": None, "cpu": None, "cuda": _cuda_unavailable()}


def _check_devices(devices: Sequence[int], name: str) -> None:
    numbers = isinstance(devices, (list, tuple, range)) and all(type(number) is int for number in devices)
    if not numbers or not devices or len(set(devices)) < len(devices):
        raise ParameterError(f"devices is {shown(devices)}; give the numbers of CUDA devices, each once, as [0, 1]")
    if name not in ("auto", "cuda"):
        raise ParameterError(f"devices names CUDA devices and backend is {name!r}; give --backend cuda, or no devices")


def _cuda_unavailable() -> str | None:
    from gpulsh.backends.cuda import why_unavailable

    return why_unavailable()
