"""The CUDA backend under test: on the host in several cuts of the work, and on a device where one works."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest

from gpulsh.backends.cuda import CudaBackend, why_unavailable
from gpulsh.backends.cuda.launcher import Geometry, expanded_source, kernel_folder
from gpulsh.backends.select import select_backend
from tests.kernels.device_arrays import DeviceModule
from tests.kernels.host import HostLauncher, build, compiler

# Small cuts make many blocks of little text; 40 and 33 threads leave warps that are not full.
GEOMETRIES = {
    "small": Geometry(
        threads=40,
        text_threads=3,
        exact_items=2,
        search_items=2,
        span=5,
        minhash_threads=64,
        row_threads=64,
        row_limit=33,
        sort_span=20,
    ),
    "ones": Geometry(
        threads=33,
        text_threads=1,
        exact_items=1,
        search_items=1,
        span=1,
        minhash_threads=32,
        row_threads=32,
        row_limit=4,
        sort_span=7,
    ),
    "medium": Geometry(
        threads=96,
        text_threads=67,
        exact_items=5,
        search_items=3,
        span=300,
        minhash_threads=128,
        row_threads=256,
        row_limit=600,
        sort_span=400,
    ),
    "default": Geometry(),
}

WHERE = [f"host-{name}" for name in GEOMETRIES]
if why_unavailable() is None:
    WHERE += ["device-small", "device-ones", "device-default"]


@cache
def build_kernels() -> None:
    """Compile all kernels for the host, a file a thread."""
    if compiler() is None:
        pytest.skip("no C++ compiler: none of $CXX, g++, clang++ and the ziglang package is there")
    sources = [expanded_source(path.stem) for path in kernel_folder().glob("*.cu")]
    with ThreadPoolExecutor() as pool:
        list(pool.map(build, sources))


def cuda_backend(where: str) -> CudaBackend:
    """The backend of one of WHERE."""
    place, _, name = where.partition("-")
    if place == "device":
        return CudaBackend(geometry=GEOMETRIES[name])
    build_kernels()
    return CudaBackend(DeviceModule(), HostLauncher(), GEOMETRIES[name])


def selecting(cuda: CudaBackend) -> Callable[..., Any]:
    """In place of `select_backend`: `cuda` for who asks for "cuda", what anybody gets for who asks for another."""

    def select(name: Any = "auto", **options: Any) -> Any:
        return cuda if name == "cuda" else select_backend(name, **options)

    return select


def on_device(where: object) -> bool:
    """Whether a test's parameter names a device."""
    return str(where).startswith("device-")
