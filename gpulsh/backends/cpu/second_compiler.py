"""A second process that compiles kernels on a first run, because Numba compiles one at a time in a process.

It compiles the kernels that a run needs after signing, while the run itself compiles the kernels that sign. The folder
of compiled kernels hands them over. Without such a folder, or a second processor, there is no second process. A kernel
that this process needs earlier is compiled here as well.
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

# The other process imports from the same places.
_CODE = f"import sys; sys.path[:] = sys.argv[1:]; from {__name__} import compile_late; compile_late()"


@contextmanager
def second_compiler() -> Iterator[None]:
    """Inside, the first kernel to be compiled starts the process; it ends with the context."""
    started: list[Popen[bytes]] = []
    command = [sys.executable, "-c", _CODE, *sys.path]

    def start() -> None:
        if not started:
            with suppress(OSError):
                started.append(Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL))

    python = Path(sys.executable or "").name.startswith("python")  # not a program that embeds Python
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
    """Call the kernels after signing, in the order of a run. Kernels that only many pairs need come last."""
    ops, pairs = CpuBackend(threads=1), np.array([[0, 1]])
    ops.candidates(ops.collisions(np.zeros(2, np.uint64), np.arange(2)))
    ops.components(2, pairs)
    sets = ops.unique(Fingerprints(np.zeros(2, np.uint64), np.arange(3)))
    ops.intersect(pairs, sets)
    ops.overlap_bounds(pairs, ops.bitmaps(sets), sets.lengths)
