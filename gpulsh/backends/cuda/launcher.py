"""Starting kernels: their source, how their work is cut, and the launcher that runs them on the device."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np

from gpulsh.backends.compiling import COMPILING
from gpulsh.backends.cuda.memory import TEXT_BYTES
from gpulsh.errors import BackendError

OPTIONS = ("-std=c++17",)
LANES = 32  # of a warp
STRIP = 28  # bytes per thread of kernels that read text, as in kernels/text.cuh

Argument = Any  # an array, or a NumPy scalar of the parameter's exact type: a Python int has no width
# Starts `kernel` of kernels/`file`.cu, the first two arguments, on a grid of `blocks` (x, y), `threads` a block, on the
# rest, of which arrays are contiguous. Returns before the device has finished.
Launcher = Callable[..., None]
_INCLUDE = re.compile(r'#include "([\w.]+)"\n')
_PARAMETERS = r"__global__ void [\w, ()]*\s+{}\(([^)]*)\)"  # of the kernel of a name
_NUMBERS: dict[str, Any] = {"i32": np.int32, "i64": np.int64, "u32": np.uint32, "u64": np.uint64}


@cache
def kernel_folder() -> Path:
    """`kernels/` in the package, as in a wheel, or next to it, as in the source tree."""
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "kernels", package.parent / "kernels"):
        if (folder / "bits.cuh").is_file():
            return folder
    raise BackendError(f"the CUDA kernels are neither in {package} nor next to it; install gpulsh again")


def expanded_source(file: str, folder: Path | None = None) -> str:
    """`file`.cu with each local header once, where it is first included: caches key the whole text."""
    folder = folder or kernel_folder()
    seen: set[str] = set()

    def expand(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        text = (folder / name).read_text("utf-8").replace("#pragma once\n", "")
        return _INCLUDE.sub(lambda match: expand(match[1]), text)

    return expand(f"{file}.cu")


@cache
def converters(file: str, kernel: str, arrays: ModuleType) -> Sequence[Callable[[Argument], Argument]]:
    """For each argument of `kernel`, a function that converts it to the type in kernels/`file`.cu.

    A number gets its type, and an array that is only read loses its strides; another array stays as it is.
    """
    found = re.search(_PARAMETERS.format(kernel), expanded_source(file))
    assert found, f"{file}.cu has no kernel {kernel}"
    known = {**_NUMBERS, "const": arrays.ascontiguousarray}
    return [known.get(declared.split()[0], lambda array: array) for declared in found[1].split(",")]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """How work is cut. No result depends on it; tests use small cuts to have many blocks.

    The kernels' shared arrays bound the products: MAX_THREADS and MAX_ROW there.
    """

    threads: int = 256
    text_threads: int = 256
    exact_items: int = 8
    search_items: int = 8
    span: int = 1024  # fingerprints per warp of minhash, tokens per warp of sketch
    minhash_threads: int = 128  # whole warps
    row_threads: int = 128  # whole warps
    row_limit: int = 2048  # fingerprints of the longest row that one block, or warp, takes alone
    sort_span: int = 2**26  # items sorted at once, which bounds the memory of the operations that sort
    text_bytes: int = TEXT_BYTES
    piece_bytes: int = 1 << 26  # text of a giant document on the device at a time


class DeviceLauncher:
    """CuPy's RawModule: NVRTC compiles it for the current device on first use, CuPy keeps it on disk."""

    def __init__(self, cupy: ModuleType) -> None:
        self._cupy = cupy
        self._kernels: dict[tuple[int, str, str], Any] = {}
        self._compiling = Lock()  # lanes that need a kernel at once would each compile it

    def __call__(self, file: str, kernel: str, blocks: tuple[int, int], threads: int, *arguments: Argument) -> None:
        device = self._cupy.cuda.runtime.getDevice()
        function = self._kernels.get((device, file, kernel))
        if function is None:
            with self._compiling:
                function = self._kernels.get((device, file, kernel)) or self._compile(file, kernel)
                self._kernels[device, file, kernel] = function
        function((*blocks, 1), (threads, 1, 1), arguments)

    def _compile(self, file: str, kernel: str) -> Any:
        COMPILING.begin(notify=False)  # or read from CuPy's cache, which only CuPy knows
        try:
            module = self._cupy.RawModule(code=expanded_source(file), options=OPTIONS, backend="nvrtc")
            return module.get_function(kernel)
        except self._cupy.cuda.compiler.CompileException as error:
            raise BackendError(
                f"the CUDA kernel {kernel} does not compile here ({error});"
                " install the CuPy whose CUDA version fits the driver"
            ) from error
        finally:
            COMPILING.end()
