"""The backends under test, each in several cuts of its work."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpulsh.backends.protocol import Backend
from tests.kernels.cuts import WHERE, cuda_backend, on_device

# Threads, and the bounds on bytes and on all else that is done at once: none, and some that cut everything; and one in
# which each document is a giant, whose pieces have so many bytes.
CPU = {"cpu-whole": (1, None), "cpu-small": (5, (300, 7)), "cpu-ones": (2, (1, 20)), "cpu-giants": (1, (9, 1000))}
HOST = [where for where in WHERE if not on_device(where)]
DEVICE = [where for where in WHERE if on_device(where)]
# Examples are judged in these, in all by ./ci/soak. `test_any` draws from all: small cuts find what whole ones hide.
SOME = ["cpu-whole", "host-small", *DEVICE]
EVERY = [*CPU, *WHERE]


@contextmanager
def backend(cut: str) -> Iterator[Backend]:
    """The backend of a cut, as long as the context lasts."""
    if cut not in CPU:
        yield cuda_backend(cut)
        return
    from gpulsh.backends.cpu import CpuBackend  # not where Numba is missing, as it may where a device is
    from tests.support.bounds import set_bounds

    threads, bounds = CPU[cut]
    with pytest.MonkeyPatch.context() as patch:
        if bounds:
            set_bounds(patch, *bounds)
            patch.setattr("gpulsh.backends.cpu.buckets.PARTITION_BITS", 4)
        if cut == "cpu-giants":
            for name, size in (("GIANT_BYTES", 0), ("PIECE_BYTES", 9), ("LONGEST_CHUNK", 1)):
                patch.setattr(f"gpulsh.backends.cpu.passes.{name}", size)
        yield CpuBackend(threads)


def marked(cut: str) -> object:
    """The cut as a parameter of a test, with the marks of what it needs."""
    marks = [pytest.mark.device] if on_device(cut) else []
    return pytest.param(cut, marks=[] if cut in CPU else [pytest.mark.kernels, *marks])


EXAMPLES = list(map(marked, EVERY if os.environ.get("GPULSH_EVERY_CUT") else SOME))
