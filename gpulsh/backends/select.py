"""Choose a backend by name, and find out which ones work here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from gpulsh.backends.protocol import Backend
from gpulsh.checks import check_choice, check_integer, shown
from gpulsh.errors import BackendError, ParameterError

BackendName = Literal["auto", "reference", "cpu", "cuda"]


def select_backend(
    name: BackendName = "auto",
    *,
    threads: int | None = None,
    devices: Sequence[int] | None = None,
    memory: int | None = None,
) -> Backend:
    """The backend `name`; "auto" takes CUDA when it works, otherwise the CPU.

    `threads` is the number of threads of the CPU backend; None uses all processors this process may use. `devices`
    are the numbers of the CUDA devices to use; None uses all visible ones. `memory` is the bytes of
    the host that a run may use.
    Raises ParameterError for an unknown name, and BackendError if CUDA was requested and does not work, or if the CPU's
    libraries cannot be loaded.
    """
    threads = check_backend(name, threads, devices)
    if name == "reference":
        from gpulsh.backends.reference import ReferenceBackend

        return ReferenceBackend()
    reason = None if name == "cpu" else _cuda_unavailable()
    if name == "cuda" and reason is not None:
        raise BackendError(f"backend 'cuda' does not work here: {reason}")
    if devices is not None and reason is not None:
        raise BackendError(f"devices are given, but CUDA does not work here: {reason}")
    if name == "cpu" or reason is not None:
        try:
            from gpulsh.backends.cpu import CpuBackend
        except (ImportError, OSError) as error:  # a library that finds no memory, as under `ulimit -v`, is not loaded
            reason = str(error).partition(". ")[0]
            raise BackendError(
                f"backend 'cpu' cannot be loaded: {reason}; install Numba, raise the memory limit (ulimit -v), or give"
                " --backend reference"
            ) from error

        return CpuBackend(threads) if memory is None else CpuBackend(threads, memory)
    from gpulsh.backends.cuda import CudaBackend

    return CudaBackend(devices=devices) if memory is None else CudaBackend(devices=devices, memory=memory)


def check_backend(name: BackendName, threads: int | None, devices: Sequence[int] | None) -> int | None:
    """`threads` as an int; raises ParameterError for impossible values."""
    check_choice("backend", name, get_args(BackendName))
    if threads is not None:
        threads = check_integer("threads", threads, 1, 1024)
    if devices is None:
        return threads
    numbers = isinstance(devices, (list, tuple, range)) and all(type(number) is int for number in devices)
    if not numbers or not devices or len(set(devices)) < len(devices):
        raise ParameterError(
            f"devices is {shown(devices)}; give the numbers of CUDA devices, each once, such as [0, 1]"
        )
    if name not in ("auto", "cuda"):
        raise ParameterError(f"devices names CUDA devices and backend is {name!r}; give --backend cuda, or no devices")
    return threads


def backend_status() -> dict[str, str | None]:
    """Each backend's name, with the reason if it does not work, else None."""
    return {"reference": None, "cpu": None, "cuda": _cuda_unavailable()}


def _cuda_unavailable() -> str | None:
    from gpulsh.backends.cuda import why_unavailable

    return why_unavailable()
