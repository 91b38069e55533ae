"""A second process that compiles kernels on a first run, because Numba compiles one at a time in a process.

It compiles what a run needs behind signing while the run itself compiles what signs, and hands it over by the folder of
compiled kernels. Without such a folder, or a second processor, there is none. A kernel that this process needs earlier
is compiled here as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, Popen

import numpy as np

from gpulsh.arrays import Fingerprints
from gpulsh.backends.compiling import COMPILING
from gpulsh.backends.cpu.backend import CpuBackend
from gpulsh.backends.kernel_cache import kernel_cache
from gpulsh.backends.parallel import processors

# What is imported there is what would be imported here.
_CODE = f"import sys; sys.path[:] = sys.argv[1:]; from {__name__} import compile_late; compile_late()"


@contextmanager
def second_compiler() -> Iterator[None]:
    """Inside, it is started when a first kernel is to be compiled; it ends with the context."""
    started: list[Popen[bytes]] = []
    command = [sys.executable, "-c", _CODE, *sys.path]

    def start() -> None:
        if not started:
            with suppress(OSError):
                started.append(Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL))

    python = Path(sys.executable or "").name.startswith("python")  # and no program that Python is built into
    if kernel_cache().folder is None or processors() < 2 or not python:
        yield
        return
    with COMPILING.listening(start):
        try:
            yield
        finally:
            for process in started:
                process.kill()
                process.wait()


def compile_late() -> None:
    """Call what needs the kernels behind signing, in the order of a run; last what it needs for many pairs only."""
    ops, pairs = CpuBackend(threads=1), np.array([[0, 1]])
    ops.candidates(ops.collisions(np.zeros(2, np.uint64), np.arange(2)))
    ops.components(2, pairs)
    sets = ops.unique(Fingerprints(np.zeros(2, np.uint64), np.arange(3)))
    ops.intersect(pairs, sets)
    ops.overlap_bounds(pairs, ops.bitmaps(sets), sets.lengths)
