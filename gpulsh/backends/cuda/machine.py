"""The first argument of every operation: one device, how work is cut for it, and its memory between operations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import ModuleType
from typing import Literal
from weakref import proxy

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.cuda.launcher import LANES, STRIP, Argument, Geometry, Launcher, converters
from gpulsh.backends.cuda.memory import MAX_PINNED, MEMORY, free_bytes, max_text_sizes, text_sizes, wait, wait_for
from gpulsh.backends.cuda.staging import Staging
from gpulsh.backends.hashing import public_words
from gpulsh.backends.protocol import Keys, Sizes
from gpulsh.backends.unicode_table import unicode_table
from gpulsh.errors import BackendError, DeviceMemoryError, GpulshError
from gpulsh.params import Reading
from gpulsh.ragged import row_of

KEPT = 8  # keys, and sketches: small, and used again and again
MAX_BLOCKS = (2**31 - 1, 65535)
# Messages of errors besides CuPy's own OutOfMemoryError: of a sort without memory to work in; of the runtime and the
# driver, which need memory to load a kernel or to make an event or a stream.
NO_MEMORY = ("std::bad_alloc", "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY")


Tables = dict[tuple[int, Reading], tuple[Array, Array]]  # both stages of the Unicode table by device and reading


@dataclass(eq=False)
class Machine:
    """One device. Machines of a process may share `tables`."""

    arrays: ModuleType  # cupy, or its stand-in in tests
    launch: Launcher
    geometry: Geometry
    device: int = 0
    budget: tuple[int, int] = MEMORY, 1  # bytes of the host that a run may use, and the devices that share them
    tables: Tables = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.staging = Staging(self.arrays, min(max_text_sizes(*self.budget).batch, MAX_PINNED))
        # Several threads may share a machine. The caches do not hold it, or its memory would wait for a collection.
        machine = proxy(self)
        self.sketch = lru_cache(KEPT)(lambda make, family: wait_for(machine.arrays, make(machine, family)))
        self.keys = lru_cache(KEPT)(partial(_keys, self.arrays))

    @contextmanager
    def use_device(self) -> Iterator[None]:
        """Work on this device; raises DeviceMemoryError if its memory does not suffice."""
        with self.arrays.cuda.Device(self.device):
            try:
                yield
            except (MemoryError, RuntimeError) as error:
                of_pool = isinstance(error, self.arrays.cuda.memory.OutOfMemoryError)
                out_of_memory = of_pool or any(name in str(error) for name in NO_MEMORY)
                if not out_of_memory or isinstance(error, GpulshError):  # our own errors have their messages already
                    raise
                # Without its traceback: the frames hold the arrays of the attempt. From Python 3.12 on they form a
                # cycle with this frame, which only a collection would end.
                raise DeviceMemoryError(
                    f"the memory of CUDA device {self.device} does not suffice ({error}); free some of it, or use"
                    " --backend cpu"
                ) from error.with_traceback(None)

    def run(
        self,
        file: str,
        work: int,
        *given: Argument,
        kernel: str = "",
        per: Literal["thread", "strip", "warp", "span", "block"] = "thread",
        items: int = 1,
        rows: int = 1,
    ) -> None:
        """Start `kernel`, by default named as its file, for `work` items, `rows` times.

        A thread takes `items` of them or a strip of bytes, a warp one or a span of consecutive ones, or a block one.
        Nothing is started without work. Numbers among the arguments get the types of the kernel's parameters.
        """
        kernel, cut = kernel or file, self.geometry
        threads, each = {
            "thread": (cut.threads, cut.threads * items),
            "strip": (cut.text_threads, cut.text_threads * STRIP),
            "warp": (cut.minhash_threads, cut.minhash_threads // LANES),
            "span": (cut.minhash_threads, cut.minhash_threads // LANES * cut.span),
            "block": (cut.row_threads, 1),
        }[per]
        blocks = -(-work // each)
        if blocks > MAX_BLOCKS[0] or rows > MAX_BLOCKS[1]:
            raise BackendError(f"{kernel} would need {blocks} x {rows} blocks; give a smaller batch")
        if blocks > 0:
            taken = zip(converters(file, kernel, self.arrays), given, strict=True)
            self.launch(file, kernel, (blocks, rows), threads, *(convert(value) for convert, value in taken))

    def sizes(self) -> Sizes:
        with self.use_device():
            return text_sizes(free_bytes(self.arrays), self.geometry.text_bytes, *self.budget)

    def table(self, reading: Reading) -> tuple[Array, Array]:
        """Both stages of the Unicode table of a reading."""
        key = self.device, reading
        if key not in self.tables:
            stage1, stage2 = map(self.arrays.asarray, unicode_table(reading))
            self.tables.setdefault(key, wait_for(self.arrays, (stage1, stage2)))  # threads share one
        return self.tables[key]

    def release(self) -> None:
        """Return pinned memory to CuPy's pool, and forget secrets."""
        self.staging.release()
        self.keys.cache_clear()

    def number(self, array: Array) -> int:
        """The value of an array of one element, once it is computed."""
        return self.numbers(array)[0]

    def numbers(self, *arrays: Array) -> list[int]:
        """The values of arrays of one element each, once all are computed."""
        wait(self.arrays)
        return list(map(int, arrays))

    def row_of(self, offset: Array, start: int, stop: int) -> Array:
        """int64 [stop - start]: the row of each position from `start` on."""
        return row_of(offset, self.arrays.arange(start, stop, dtype=np.int64))


def _keys(arrays: ModuleType, keys: Keys) -> Array:
    """All words of a secret; or the public keys of near places, of a token's and then of a shingle's."""
    return wait_for(arrays, arrays.asarray(public_words() if keys is None else keys.words))
