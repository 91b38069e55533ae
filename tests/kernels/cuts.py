"""The CUDA backend under test: on the host in several cuts of the work, and on a device where one works."""

import ctypes
import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from gpulsh.arrays import SignedBatch, TextBatch
from gpulsh.backends.cuda import CudaBackend, Shared, why_unavailable
from gpulsh.backends.cuda.launcher import Geometry, expanded_source, kernel_folder
from gpulsh.backends.cuda.sign import sign_in_pieces
from gpulsh.backends.protocol import Sizes
from gpulsh.params import Shingling
from tests.kernels.device_arrays import DeviceArray, DeviceModule
from tests.kernels.host import HostLauncher, build, compiler

DECISION = ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity")
# Small cuts make many blocks of little text; 40 and 33 threads leave warps that are not full.
FIELDS = ["threads", "text_threads", "exact_items", "search_items", "span"]
FIELDS += ["minhash_threads", "row_threads", "row_limit", "sort_span"]
CUTS = {
    "small": (40, 3, 2, 2, 5, 64, 64, 33, 20),
    "ones": (33, 1, 1, 1, 1, 32, 32, 4, 7),
    "medium": (96, 67, 5, 3, 300, 128, 256, 600, 400),
}
GEOMETRIES = {name: Geometry(**dict(zip(FIELDS, cut, strict=True))) for name, cut in CUTS.items()}
GEOMETRIES["default"] = Geometry()

WHERE = [f"host-{name}" for name in GEOMETRIES]
DEVICE = ["device-small", "device-ones", "device-default"] if why_unavailable() is None else []
WHERE += DEVICE
# The cuts of a usual run: a small one finds errors that whole rows hide. ./ci/soak takes all.
EVERY_CUT = "GPULSH_EVERY_CUT" in os.environ
SOME = WHERE if EVERY_CUT else ["host-small", "host-default", *DEVICE]
# For tests whose own parameters also cut documents.
SMALL_CUT = pytest.mark.parametrize("cuda", WHERE if EVERY_CUT else ["host-small", *DEVICE], indirect=True)
HOST_DEFAULT = pytest.mark.parametrize("cuda", ["host-default"], indirect=True)
DEVICE_DEFAULT = pytest.mark.parametrize("cuda", [at for at in DEVICE if at.endswith("-default")], indirect=True)
DEFAULT_CUT = pytest.mark.parametrize("cuda", [at for at in WHERE if at.endswith("-default")], indirect=True)


@cache
def build_kernels() -> None:
    """Compile all kernels for the host, a file a thread."""
    if compiler() is None:
        pytest.skip("no C++ compiler: none of $CXX, g++, clang++ and the ziglang package is there")
    sources = [expanded_source(path.stem) for path in kernel_folder().glob("*.cu")]
    with ThreadPoolExecutor() as pool:
        list(pool.map(build, sources))


class InPieces(CudaBackend):
    """Treats each document as one that memory does not hold, and takes it in pieces from the host or the device."""

    def sign(self, text: TextBatch, shingling: Shingling, *how: Any) -> SignedBatch:
        if not shingling.is_fused:
            return super().sign(text, shingling, *how)
        parts = []
        for row in range(len(text)):
            document = self._somewhere(text.slice(row, row + 1))
            size = int(self.asnumpy(document.lengths)[0])
            # Each piece takes many launches.
            parts.append(sign_in_pieces(self, document, shingling, *how, max(1 + size % 50, size // 90 + 1)))
        return SignedBatch.concat(parts) if parts else super().sign(text, shingling, *how)

    def shingle_part(self, text: TextBatch, *how: Any) -> Any:
        return super().shingle_part(self._somewhere(text), *how)

    def _somewhere(self, text: TextBatch) -> TextBatch:
        return text.moved(self.asnumpy) if len(text.values) % 2 else text


def with_sizes(**sizes: int) -> type[CudaBackend]:
    """The backend with these sizes of batches and tiles."""

    class Sized(CudaBackend):
        def sizes(self) -> Sizes:
            return super().sizes()._replace(**sizes)

    return Sized


def cuda_backend(where: str) -> CudaBackend:
    """The backend of one of WHERE."""
    place, _, name = where.partition("-")
    if place == "device":
        device = CudaBackend()
        return CudaBackend(Shared(device.arrays, device.launch, GEOMETRIES[name]))
    build_kernels()
    if name == "pieces":
        return InPieces(Shared(DeviceModule(), HostLauncher(), replace(GEOMETRIES["small"], piece_bytes=20)))
    return CudaBackend(Shared(DeviceModule(), HostLauncher(), GEOMETRIES[name]))


def install(monkeypatch: pytest.MonkeyPatch, cuda: CudaBackend) -> CudaBackend:
    """Make `cuda` the backend that the library finds by the name "cuda", and by "auto"."""
    monkeypatch.setattr("gpulsh.backends.cuda.CudaBackend", lambda **_: cuda)
    monkeypatch.setattr("gpulsh.backends.cuda.why_unavailable", lambda: None)
    return cuda


def on_device(where: object) -> bool:
    return str(where).startswith("device-")


def memory_of(ops: CudaBackend, host: np.ndarray) -> Any:
    """The memory that the backend's device uses: on the host the array, on a device a copy in the same layout."""
    xp = ops.arrays
    if xp.ndarray is DeviceArray:
        return host
    low, high = np.lib.array_utils.byte_bounds(host)
    content = np.frombuffer((ctypes.c_uint8 * (high - low)).from_address(low), np.uint8)
    return xp.ndarray(host.shape, host.dtype, xp.asarray(content).data + (host.ctypes.data - low), host.strides)


def device_array(ops: CudaBackend, host: np.ndarray) -> Any:
    """An array of the backend's module, in the layout of the given one."""
    memory = memory_of(ops, host)
    return DeviceArray(memory) if isinstance(memory, np.ndarray) else memory


def address(array: Any) -> int:
    """The first address of an array's memory, on the host or a device."""
    if isinstance(array, np.ndarray):
        return int(array.ctypes.data)
    return int(array.__cuda_array_interface__["data"][0])


def on_host(array: Any) -> np.ndarray:
    """A NumPy array of an array of any backend."""
    return np.asarray(array.get() if hasattr(array, "get") else array)


def assert_decisions(found: Any, wanted: Any) -> None:
    for name in DECISION:
        np.testing.assert_array_equal(on_host(getattr(found, name)), on_host(getattr(wanted, name)), err_msg=name)


def texts(count: int, seed: int = 3) -> list[str | None]:
    """Documents with planted near-duplicates, exact copies, nulls and empty ones."""
    source = random.Random(seed)
    words = [f"word{i}" for i in range(300)] + ["語", "नमस्ते", "É"]
    found: list[str | None] = [None, "", "..."]
    for _ in range(count):
        kind = source.random()
        earlier = [text for text in found if text and len(text) > 20]
        if kind < 0.4 and earlier:
            changed = source.choice(earlier).split()
            for _ in range(source.randrange(3)):
                changed[source.randrange(len(changed))] = source.choice(words)
            found.append(" ".join(changed))
        else:
            found.append(" ".join(source.choice(words) for _ in range(source.randrange(40, 80))))
    return found
