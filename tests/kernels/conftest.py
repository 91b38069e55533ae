"""The CUDA backend under test: on the host in several cuts of the work, and on a device where one works."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings

from gpulsh.backends.cuda import CudaBackend, why_unavailable
from gpulsh.backends.cuda.device import import_cupy
from gpulsh.backends.cuda.launcher import Geometry
from gpulsh.backends.cuda.source import expanded_source, kernel_folder
from tests.kernels.device_arrays import DeviceArray, DeviceModule
from tests.kernels.host import HostLauncher, build, compiler

# A failure is enough for `ci/mutate-kernels`; it has no use for the smallest one.
settings.register_profile("mutation", parent=settings.default, phases=[Phase.explicit, Phase.generate])
if "GPULSH_NO_SHRINK" in os.environ:
    settings.load_profile("mutation")

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


@pytest.fixture(scope="session")
def kernels_built() -> None:
    """All kernels compiled for the host, a file a thread."""
    if compiler() is None:
        pytest.skip("no C++ compiler: none of $CXX, g++, clang++ and the ziglang package is there")
    sources = [expanded_source(path.stem) for path in kernel_folder().glob("*.cu")]
    with ThreadPoolExecutor() as pool:
        list(pool.map(build, sources))


def far_array(cuda: CudaBackend, first: int, values: np.ndarray) -> Any:
    """An array of the backend's with `values` from element `first` on, and 16 zeros in front of everything.

    Sparse memory on the host; a device holds all of it.
    """
    length = first + len(values) + 1024
    if isinstance(cuda.asarray(values[:0]), DeviceArray):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE, which Python names from 3.13 on
        host = np.frombuffer(mmap.mmap(-1, length * values.itemsize, flags), values.dtype)
        host[first : first + len(values)] = values
        return DeviceArray(host)
    cupy = import_cupy()
    cupy.get_default_memory_pool().free_all_blocks()
    needed = 2 * length * values.itemsize  # what is made of it takes less
    if needed > cupy.cuda.runtime.memGetInfo()[0]:
        pytest.skip(f"too little device memory: {needed / 2**30:.1f} GiB are needed")
    array = cupy.empty(length, values.dtype)
    array[:16] = 0
    array[first : first + len(values)] = cupy.asarray(values)
    return array


WHERE = [f"host-{name}" for name in GEOMETRIES]
if why_unavailable() is None:
    WHERE += ["device-small", "device-ones", "device-default"]


@pytest.hookimpl(tryfirst=True)  # before pytest looks at markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs on a device; names would choose host-run modules about devices, too."""
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if str(parameters.get("cuda", "")).startswith("device-"):
            item.add_marker("device")


@pytest.fixture(scope="session", params=WHERE)
def cuda(request: pytest.FixtureRequest) -> Iterator[CudaBackend]:
    """The CUDA backend."""
    where, _, name = request.param.partition("-")
    if where == "device":
        yield CudaBackend(geometry=GEOMETRIES[name])
    else:
        request.getfixturevalue("kernels_built")
        yield CudaBackend(DeviceModule(), HostLauncher(), GEOMETRIES[name])
