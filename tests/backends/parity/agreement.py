"""Compare backends: the same operation of the same arguments gives the reference's result, bit for bit."""

import hashlib
import mmap
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from gpulsh.arrays import Array, Buckets, Rows, WeightedFingerprints
from gpulsh.backends.cuda.device import import_cupy
from gpulsh.backends.protocol import Backend
from gpulsh.backends.reference import ReferenceBackend
from tests.kernels.cuts import WHERE, cuda_backend, on_device
from tests.kernels.device_arrays import DeviceArray
from tests.support.rows import same

REFERENCE = ReferenceBackend()
Operation = str | Callable[..., Any]  # the name of a backend's, or a function of a backend and the rest
_expected: dict[bytes, Any] = {}


def agree(ops: Backend, operation: Operation, *given: Any) -> Any:
    """The reference's result of an operation; fails if the result of `ops` differs."""
    wanted = expected(operation, *given)
    same(_result(ops, operation, *(moved(ops, one) for one in given)), wanted, ops.asnumpy)
    return wanted


def expected(operation: Operation, *given: Any) -> Any:
    """The reference's result; it is computed once for all backends, because plain Python is slow."""
    asked = hashlib.sha256(pickle.dumps((operation, given))).digest()
    if asked not in _expected:  # copies, since counts may be used again
        copies = [one.copy() if isinstance(one, np.ndarray) else one for one in given]
        _expected[asked] = _result(REFERENCE, operation, *copies)
    return _expected[asked]


def _result(ops: Backend, operation: Operation, *given: Any) -> Any:
    return getattr(ops, operation)(*given) if isinstance(operation, str) else operation(ops, *given)


def forget() -> None:
    _expected.clear()


def moved(ops: Backend, value: Any) -> Any:
    """Copy the arrays of an operation's argument to the memory of `ops`."""
    if isinstance(value, np.ndarray):
        return ops.asarray(value)
    if isinstance(value, Buckets):
        return Buckets(ops.asarray(value.ids), ops.asarray(value.offset))
    return value.moved(ops.asarray) if isinstance(value, Rows | WeightedFingerprints) else value


def fewer(ops: Backend, many: int, few: int) -> int:
    """`many` cases on the CPU, `few` for kernels, whose threads are fibres on the host."""
    return few if ops.name == "cuda" else many


def far_array(ops: Backend, first: int, values: Array) -> Array:
    """An array of the backend's with `values` from element `first` on, and 16 zeros in front of everything.

    Sparse memory on the host; a device holds all of it.
    """
    length = first + len(values) + 1024
    if ops.name == "cuda" and not isinstance(ops.asarray(values[:0]), DeviceArray):
        return _on_device(first, values, length)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE, which Python names from 3.13 on
    host = np.frombuffer(mmap.mmap(-1, length * values.itemsize, flags), values.dtype)
    host[first : first + len(values)] = values
    return DeviceArray(host) if ops.name == "cuda" else host


def _on_device(first: int, values: Array, length: int) -> Array:
    cupy = import_cupy()
    cupy.get_default_memory_pool().free_all_blocks()
    needed = 2 * length * values.itemsize  # arrays made of it take less
    if needed > cupy.cuda.runtime.memGetInfo()[0]:
        pytest.skip(f"too little device memory: {needed / 2**30:.1f} GiB are needed")
    array = cupy.empty(length, values.dtype)
    array[:16] = 0
    array[first : first + len(values)] = cupy.asarray(values)
    return array


# --- the backends under test, each in several cuts of its work

# Threads, and the bounds on bytes and on all else that is done at once: none, and some that cut everything; and one in
# which each document is a giant, whose pieces have so many bytes.
CPU = {"cpu-whole": (1, None), "cpu-small": (5, (300, 7)), "cpu-ones": (2, (1, 20)), "cpu-giants": (1, (9, 1000))}
HOST = [where for where in WHERE if not on_device(where)]
DEVICE = [where for where in WHERE if on_device(where)]
# Examples are judged in these, in all by ./ci/soak. `test_any.py` draws from all: small cuts find what whole ones hide.
SOME = ["cpu-whole", "host-small", *DEVICE]
PIECES = ["host-pieces"]
EVERY = [*CPU, *WHERE, *PIECES]


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
                patch.setattr(f"gpulsh.backends.cpu.shingle.{name}", size)
        yield CpuBackend(threads)


def param(cut: str) -> object:
    """The cut as a parameter of a test, with the marks of what it needs."""
    marks = [pytest.mark.device] if on_device(cut) else []
    return pytest.param(cut, marks=[] if cut in CPU else [pytest.mark.kernels, *marks])


EXAMPLES = list(map(param, EVERY if os.environ.get("GPULSH_EVERY_CUT") else SOME))
