"""The host launcher: compiles `kernels/*.cu` with a C++ compiler and `cuda_host.h`, and runs them on NumPy memory.

Each launch runs three times on fresh copies of its arrays, with the threads in ascending, descending and random order.
The copies adjoin pages that cannot be touched, behind them or in front; the three results must be equal.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import mmap
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from gpulsh.backends.cuda.launcher import expanded_source
from tests.kernels.device_arrays import DeviceArray, current_device

HEADER = Path(__file__).with_name("cuda_host.h")
LIMIT_SECONDS = 5  # of a launch's own time, after which an endless loop is stopped
ORDERS = {"ascending": 0, "descending": 1, "random": 2}
IN_PLACE = 2**26  # read-only arrays of so many bytes are not copied
# A forest may grow in several shapes; only its roots matter, and `components_label` is compared.
VARIES = {("components_hook", "parent")}

TYPES = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "i32": np.int32, "i64": np.int64}
TYPES["f64"] = np.float64
_KERNEL = re.compile(r'extern "C" __global__ void __launch_bounds__\([\w, ]+\)\s+(\w+)\(([^)]*)\)')
_PARAMETER = re.compile(r"^(const |volatile )?(\w+)(\*?)(?: __restrict__)? (\w+)$")


class Parameter(NamedTuple):
    name: str
    dtype: type[np.generic]
    pointer: bool
    constant: bool


def signatures(source: str) -> dict[str, list[Parameter]]:
    """The kernels of a source text and their parameters."""
    found = {}
    for name, text in _KERNEL.findall(source):
        matches = [_PARAMETER.match(" ".join(part.split())) for part in text.split(",")]
        assert all(matches), f"{name} has a parameter that is not understood: {text}"
        found[name] = [Parameter(m[4], TYPES[m[2]], m[3] == "*", m[1] == "const ") for m in matches if m]
    assert len(found) == source.count("__global__"), "a kernel is not written as the others are"
    return found


CACHE = Path(os.environ.get("GPULSH_KERNEL_CACHE", Path(__file__).parents[2] / ".cache" / "kernels"))


def cached_file(given: Sequence[str], suffix: str, make: Callable[[Path], None]) -> Path:
    """The file that `make` writes to its path, unless the cache has one made from `given`."""
    name = hashlib.sha256("\0".join(given).encode()).hexdigest()[:32]
    found = CACHE / f"{name}{suffix}"
    if not found.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with open(CACHE / f"{name}.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not found.exists():
                with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                    made = Path(folder) / f"made{suffix}"
                    make(made)
                    made.replace(found)
    return found


@cache
def compiler() -> list[str] | None:
    """The command of a C++ compiler: $CXX, g++, clang++, or the ziglang wheel's; None without one."""
    if "CXX" in os.environ:
        return os.environ["CXX"].split()
    for name in ("g++", "clang++"):
        if shutil.which(name):
            return [name]
    try:
        import ziglang  # noqa: F401
    except ImportError:
        return None
    return [sys.executable, "-m", "ziglang", "cc"]  # not c++, which would first compile a C++ library


def build(source: str) -> Path:
    """The shared library of an expanded source, from the cache if it was built before."""
    wrappers = []
    for name, parameters in signatures(source).items():
        types = re.search(rf"\b{name}\(([^)]*)\)", source)[1].split(",")  # type: ignore[index]
        given = [f"*({t.replace('__restrict__', '').rsplit(None, 1)[0]}*)a[{i}]" for i, t in enumerate(types)]
        assert len(given) == len(parameters)
        wrappers.append(
            f"static void call_{name}(void** a) {{ {name}({', '.join(given)}); }}\n"
            f'extern "C" const char* run_{name}(void** a, unsigned x, unsigned y, unsigned t, int o, uint64_t s)'
            f" {{ return host::launch(call_{name}, a, x, y, t, o, s); }}\n"
        )
    wrappers.append('extern "C" void begin_at(unsigned block) { host::first_block = block; }\n')
    # In a namespace, since g++ 16 refuses to put the shared memory of inline functions in one section with the rest.
    kernels = f"namespace {{\n{source}\n}}"
    text = f"#define LIMIT_SECONDS {LIMIT_SECONDS}\n{HEADER.read_text()}\n{kernels}\n{''.join(wrappers)}"
    command = compiler()
    assert command is not None
    # Shifts by too much, signed numbers that overflow and indexes beyond an array's bounds trap, as nothing on a device
    # would; so do wide reads of addresses that are not aligned to them, as on a device.
    traps = "shift-exponent,signed-integer-overflow,bounds,alignment"
    sanitize = [f"-fsanitize={traps}", "-fsanitize-undefined-trap-on-error"]
    command = [*command, "-std=c++17", "-O1", "-fPIC", "-shared", "-w", *sanitize]

    def make(library: Path) -> None:
        code = library.with_suffix(".cpp")
        code.write_text(text)
        done = subprocess.run([*command, "-o", str(library), str(code)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return cached_file([*command, text], ".so", make)


ALIGNMENT = 16  # of the widest access
CANARY = 0xC5
CANARIES = bytes([CANARY]) * ALIGNMENT
PAGE = mmap.PAGESIZE

_libc = ctypes.CDLL(None)
_mapped: list[mmap.mmap] = []
_free: dict[int, list[int]] = defaultdict(list)  # addresses of memory to be used again, by its pages
_one_at_a_time = Lock()  # the fibres and the guarded memory are the process's


def guarded_pages(pages: int) -> int:
    """The address of `pages` pages between two that cannot be touched."""
    if not _free[pages]:
        _mapped.append(mmap.mmap(-1, (pages + 2) * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        start = ctypes.addressof(ctypes.c_char.from_buffer(_mapped[-1]))
        for guard in (start, start + (pages + 1) * PAGE):
            assert _libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(PAGE), 0) == 0
        return start + PAGE
    return _free[pages].pop()


# Operations of all 32 lanes, but for the definition of one that all files share.
WHOLE_WARPS = re.compile(
    r"_sync\((~0u|0xFFFFFFFFu), (?!value, \(threadIdx)|merged_lanes\(\w+, \[\]\(u64|= ~?least_of_lanes"
)


class HostLauncher:
    """A `Launcher` on the host. `launches` counts what was run, by kernel; `devices` are those that ran something.

    Blocks count from `first_block`, so that a part of a grid may be run that is too large for the host.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._files: dict[str, tuple[Any, dict[str, list[Parameter]]]] = {}
        self._whole: dict[str, bool] = {}
        self.launches: dict[str, int] = defaultdict(int)
        self.devices: set[int] = set()
        self.first_block = 0

    def load(self, file: str) -> tuple[Any, dict[str, list[Parameter]]]:
        if file not in self._files:
            source = expanded_source(file, self._folder)
            self._files[file] = ctypes.CDLL(str(build(source))), signatures(source)
            self._whole[file] = self._folder is None and WHOLE_WARPS.search(source) is not None
        return self._files[file]

    def _takes_whole_warps(self, file: str, kernel: str) -> bool:
        """Whether a file of the library has operations of all 32 lanes, which other warps must not reach."""
        return kernel != "intersect_spread" and self._whole[file]

    def __call__(self, file: str, kernel: str, blocks: tuple[int, int], threads: int, *arguments: Any) -> None:
        library, kernels = self.load(file)
        parameters = kernels[kernel]
        assert len(arguments) == len(parameters), f"{kernel} takes {len(parameters)} arguments, not {len(arguments)}"
        assert 1 <= threads <= 256, f"{kernel} is started with {threads} threads"
        assert threads % 32 == 0 or not self._takes_whole_warps(file, kernel), f"{kernel}: {threads} threads"
        for parameter, value in zip(parameters, arguments, strict=True):
            assert isinstance(value, DeviceArray) == parameter.pointer, f"{kernel}: {parameter.name}"
            assert parameter.pointer or isinstance(value, np.generic), f"{kernel}: {parameter.name} has no width"
            assert not parameter.pointer or value.number == current_device(), f"{kernel}: {parameter.name}"
            assert value.dtype == parameter.dtype, f"{kernel}: {parameter.name} is {value.dtype}"
            assert not parameter.pointer or value.flags.c_contiguous, f"{kernel}: {parameter.name} is not contiguous"
        function = getattr(library, f"run_{kernel}")
        function.restype = ctypes.c_char_p
        self.launches[kernel] += 1
        self.devices.add(current_device())
        given = list(zip(parameters, arguments, strict=True))
        with _one_at_a_time:
            library.begin_at(self.first_block)
            results = {order: self._run(function, blocks, threads, given, order) for order in ORDERS}
        for index, first in results[next(iter(ORDERS))].items():
            if (kernel, parameters[index].name) not in VARIES:
                for order, others in results.items():
                    assert first == others[index], f"{kernel}: {parameters[index].name} differs with {order} threads"
            host = arguments[index].host
            host[...] = np.frombuffer(first, host.dtype).reshape(host.shape)

    def _run(
        self, function: Any, blocks: tuple[int, int], threads: int, given: list[tuple[Parameter, Any]], order: str
    ) -> dict[int, bytes]:
        """Run once; returns the arrays that may have changed, by argument."""
        slots = (ctypes.c_uint64 * len(given))()
        taken, written = [], []
        for index, (parameter, value) in enumerate(given):
            if not parameter.pointer:
                slots[index] = int(value)
                continue
            nbytes, slots[index] = value.host.nbytes, value.host.ctypes.data
            if parameter.constant and nbytes >= IN_PLACE:
                continue
            pages = max(-(-nbytes // PAGE), 1)
            start, spare = guarded_pages(pages), pages * PAGE - nbytes
            taken.append((pages, start))
            if order != "descending":  # the end meets the forbidden page; otherwise the beginning does
                # Written arrays come from the backend, hence aligned; arrays that are only read may begin anywhere.
                start += spare if parameter.constant else spare // ALIGNMENT * ALIGNMENT
                spare %= ALIGNMENT
            ctypes.memmove(start, slots[index], nbytes)
            slots[index] = start
            if not parameter.constant:
                behind = min(spare, ALIGNMENT - 1)
                written.append((index, start, nbytes, behind))
                ctypes.memset(start + nbytes, CANARY, behind)
        first = ctypes.addressof(slots)
        pointers = (ctypes.c_void_p * len(given))(*range(first, first + 8 * len(given), 8))
        seed = zlib.crc32(repr((blocks, threads, order)).encode())
        failure = function(pointers, *blocks, threads, ORDERS[order], ctypes.c_uint64(seed))
        results = {}
        for index, start, nbytes, behind in written:
            results[index] = ctypes.string_at(start, nbytes)
            found = ctypes.string_at(start + nbytes, behind)
            assert found == CANARIES[:behind], f"{function.__name__} wrote behind {given[index][0].name}"
        for pages, start in taken:
            _free[pages].append(start)
        assert failure is None, f"{function.__name__} with {order} threads: {failure.decode()}"
        return results
