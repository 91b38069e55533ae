"""The NVIDIA compilers, which need neither a device nor a driver: the NVRTC wheels through ctypes, otherwise nvcc.

NVRTC comes first because it is what compiles the kernels where they run. Both hand out the machine code and ptxas's own
account of what each kernel takes. `disassembly.py` reads the machine code, `figures.py` records both.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
import tempfile
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from gpulsh.backends.cuda.launcher import OPTIONS
from tests.kernels.built import built

ARCHITECTURES = (70, 75, 80, 86, 89, 90, 100, 120)


class Usage(NamedTuple):
    """What one kernel takes on one architecture."""

    registers: int
    shared: int  # bytes, static
    stack: int
    spills: int  # bytes stored and loaded


class Compiled(NamedTuple):
    """One file's machine code for one architecture."""

    usage: dict[str, Usage]  # by kernel
    cubin: bytes
    version: str  # of the compiler: another one may choose other registers and instructions


class Compiler:
    """One NVRTC library, or nvcc."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = None if path.name == "nvcc" else ctypes.CDLL(str(path))
        self.architectures = self._nvrtc_architectures() if self._library else _nvcc_architectures(path)

    def __str__(self) -> str:
        return self.path.name

    def compile(self, source: str, architecture: int) -> Compiled:
        """An AssertionError with the log where it does not compile."""
        state = self.path.stat()
        given = [str(self.path), str((state.st_size, state.st_mtime_ns)), *OPTIONS, str(architecture), source]

        def make(path: Path) -> None:
            log, cubin = (self._nvrtc if self._library else self._nvcc)(source, architecture)
            path.write_bytes(log.encode() + b"\0" + cubin)

        told, _, cubin = built(given, ".cubin", make).read_bytes().partition(b"\0")
        named = re.search(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)", cubin)
        return Compiled(_usage(told.decode()), cubin, named[1].decode() if named else self.version)

    @cached_property
    def version(self) -> str:
        """As it tells it: newer ones write more of it into the code."""
        if self._library is None:
            said = subprocess.run([str(self.path), "--version"], capture_output=True, text=True, check=True).stdout
            return said.rpartition(", V")[2].split()[0]
        major, minor = ctypes.c_int(), ctypes.c_int()
        assert self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0
        return f"{major.value}.{minor.value}"

    def _nvrtc_architectures(self) -> set[int]:
        count = ctypes.c_int()
        assert self._library and self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)) == 0
        found = (ctypes.c_int * count.value)()
        assert self._library.nvrtcGetSupportedArchs(found) == 0
        return set(found)

    def _nvrtc(self, source: str, architecture: int) -> tuple[str, bytes]:
        library = self._library
        assert library is not None
        program = ctypes.c_void_p()
        assert library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
        options = [f"--gpu-architecture=sm_{architecture}", *OPTIONS, "--ptxas-options=-v"]
        given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        status = library.nvrtcCompileProgram(program, len(options), given)
        size = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        text = log.value.decode()
        cubin = b""
        if status == 0:
            assert library.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
            code = ctypes.create_string_buffer(size.value)
            assert library.nvrtcGetCUBIN(program, code) == 0
            cubin = code.raw
        library.nvrtcDestroyProgram(ctypes.byref(program))
        assert status == 0, text
        return text, cubin

    def _nvcc(self, source: str, architecture: int) -> tuple[str, bytes]:
        with tempfile.TemporaryDirectory() as folder:
            code = Path(folder) / "kernel.cu"
            code.write_text(source)
            command = [str(self.path), *OPTIONS, "-cubin", f"-arch=sm_{architecture}", "--ptxas-options=-v"]
            done = subprocess.run(
                [*command, "-o", f"{code}bin", str(code)], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stderr, Path(f"{code}bin").read_bytes()


@cache
def compilers() -> list[Compiler]:
    """Every NVRTC that is installed, the newest first; nvcc where there is none and it is on the path."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in spec.submodule_search_locations or []] if spec else []
    libraries = {path.name: path for folder in folders for path in folder.glob("*/lib/libnvrtc.so.*")}
    found = [libraries[name] for name in sorted(libraries, key=lambda name: -int(name.rpartition(".")[2]))]
    nvcc = shutil.which("nvcc")
    if not found and nvcc:
        found = [Path(nvcc)]
    return [Compiler(path) for path in found]


def compiler_for(architecture: int) -> Compiler | None:
    """The newest compiler that knows an architecture."""
    return next((compiler for compiler in compilers() if architecture in compiler.architectures), None)


def _nvcc_architectures(path: Path) -> set[int]:
    done = subprocess.run([str(path), "--list-gpu-code"], capture_output=True, text=True, check=True)
    return {int(number) for number in re.findall(r"^sm_(\d+)$", done.stdout, re.MULTILINE)}


def _usage(log: str) -> dict[str, Usage]:
    found = {}
    for part in log.split("Compiling entry function '")[1:]:
        numbers = [
            sum(map(int, re.findall(pattern, part)))
            for pattern in (
                r"Used (\d+) registers",
                r"(\d+) bytes smem",
                r"(\d+) bytes stack frame",
                r"(\d+) bytes spill (?:stores|loads)",
            )
        ]
        found[part.split("'")[0]] = Usage(*numbers)
    return found
