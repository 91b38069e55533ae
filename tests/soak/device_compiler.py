"""NVIDIA's runtime compiler from its wheels, which needs neither a device nor a driver, and the listing of its code."""

import ctypes
import importlib.util
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpulsh.backends.cuda.launcher import OPTIONS
from tests.kernels.host import cached_file

ARCHITECTURES = (70, 75, 80, 86, 89, 90, 100, 120)


class Usage(NamedTuple):
    """The resources of one kernel on one architecture, as ptxas reports them."""

    registers: int
    shared: int  # bytes, static
    spills: int  # bytes of stack, and bytes stored and loaded


class Compiled(NamedTuple):
    usage: dict[str, Usage]  # by kernel
    cubin: bytes
    version: str  # of the compiler: another one may choose other registers and instructions


class Compiler:
    def __init__(self, path: Path) -> None:
        self.path, self._library = path, ctypes.CDLL(str(path))
        count, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        assert self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)) == 0
        found = (ctypes.c_int * count.value)()
        assert self._library.nvrtcGetSupportedArchs(found) == 0
        self.architectures = set(found)
        assert self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0
        self._version = f"{major.value}.{minor.value}"

    def compile(self, source: str, architecture: int) -> Compiled:
        """Raises an AssertionError with the log if it does not compile."""
        state = self.path.stat()
        given = [str(self.path), str((state.st_size, state.st_mtime_ns)), *OPTIONS, str(architecture), source]

        def make(path: Path) -> None:
            log, cubin = self._compile(source, architecture)
            path.write_bytes(log + b"\0" + cubin)

        log, _, cubin = cached_file(given, ".cubin", make).read_bytes().partition(b"\0")
        named = re.search(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)", cubin)
        return Compiled(_usage(log.decode()), cubin, named[1].decode() if named else self._version)

    def _compile(self, source: str, architecture: int) -> tuple[bytes, bytes]:
        library, program, size = self._library, ctypes.c_void_p(), ctypes.c_size_t()
        assert library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
        options = [f"--gpu-architecture=sm_{architecture}", *OPTIONS, "--ptxas-options=-v"]
        given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        status = library.nvrtcCompileProgram(program, len(options), given)
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        cubin = ctypes.create_string_buffer(0)
        if status == 0:
            assert library.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
            cubin = ctypes.create_string_buffer(size.value)
            assert library.nvrtcGetCUBIN(program, cubin) == 0
        library.nvrtcDestroyProgram(ctypes.byref(program))
        assert status == 0, log.value.decode()
        return log.value, cubin.raw


@cache
def compilers() -> list[Compiler]:
    libraries = {path.name: path for path in _of_package("nvidia", "*/lib/libnvrtc.so.*")}
    names = sorted(libraries, key=lambda name: -int(name.rpartition(".")[2]))
    return [Compiler(libraries[name]) for name in names]


def compiler_for(architecture: int) -> Compiler | None:
    return next((compiler for compiler in compilers() if architecture in compiler.architectures), None)


@cache
def listing(cubin: bytes) -> str:
    """The instructions of machine code, as nvdisasm prints them; a LookupError says why there are none."""
    found = [Path(path) for path in [shutil.which("nvdisasm")] if path] + _of_package("nvidia", "*/bin/nvdisasm")
    refusals = []
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "kernel.cubin"
        code.write_bytes(cubin)
        for path in found:
            done = subprocess.run([str(path), "--print-code", str(code)], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return done.stdout
            refusals.append(done.stderr.strip())
    raise LookupError("; ".join(refusals) or "no disassembler: the nvidia-cuda-nvdisasm wheel brings one")


def _of_package(name: str, pattern: str) -> list[Path]:
    spec = importlib.util.find_spec(name)
    folders = spec.submodule_search_locations or [] if spec else []
    return [path for folder in folders for path in sorted(Path(folder).glob(pattern))]


def _usage(log: str) -> dict[str, Usage]:
    patterns = r"Used (\d+) registers", r"(\d+) bytes smem", r"(\d+) bytes (?:stack frame|spill stores|spill loads)"
    found = {}
    for part in log.split("Compiling entry function '")[1:]:
        numbers = [sum(map(int, re.findall(pattern, part))) for pattern in patterns]
        found[part.split("'")[0]] = Usage(*numbers)
    return found
