"""Text from host to device memory through a pinned buffer, which alone the bus empties at its full rate."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from gpulsh.arrays import Array, TextBatch
from gpulsh.backends.cuda.waiting import wait
from gpulsh.backends.processors import processors

LEAST_PINNED = 1 << 20  # bytes of a buffer
COARSE = 256 << 20  # bytes up to which a buffer's size is a power of two, then a multiple of this
COPIED_AT_ONCE = 4 << 20  # bytes a thread moves into the buffer; one thread alone is slower than the bus


class Staging:
    """One pinned buffer, made when the first text comes and replaced by a larger one as texts ask for it."""

    def __init__(self, arrays: ModuleType) -> None:
        self._arrays = arrays
        self._pinned = np.empty(0, np.uint8)
        self._reader: Any = None  # the stream that copies from the buffer

    def on_device(self, batch: TextBatch) -> TextBatch:
        """The batch in memory of the current device, copied on the current stream; as it is where it lies there."""
        if not isinstance(batch.values, np.ndarray):
            return self._from_device(batch)
        first, last = int(batch.offset[0]), int(batch.offset[-1])
        source, bounds = batch.values[first:last], batch.offset - first
        if not self._is_pinned(source):
            source = self._filled(source)
        text, offset = self._arrays.empty(last - first, np.uint8), self._arrays.asarray(bounds)
        self._reader = self._arrays.cuda.get_current_stream()
        text.set(source, stream=self._reader)
        return TextBatch(text, offset)

    def give_back(self) -> None:
        """Hand the buffer to CuPy's pool, once nothing is copied from it any more."""
        if self._reader is not None:
            wait(self._arrays, self._reader)
        self._reader, self._pinned = None, np.empty(0, np.uint8)

    def _from_device(self, batch: TextBatch) -> TextBatch:
        device = batch.values.device
        if device.id == self._arrays.cuda.runtime.getDevice():
            return batch
        with device:
            first, last = int(batch.offset[0]), int(batch.offset[-1])  # a view does not drag its whole column along
            text, offset = batch.values[first:last], batch.offset - np.int64(first)
            wait(self._arrays)  # of which other devices know nothing
        moved = TextBatch(self._arrays.asarray(text), self._arrays.asarray(offset))
        wait(self._arrays)  # before the other device may reuse `offset`
        return moved

    def _filled(self, source: Array) -> Array:
        """The buffer with the text in it, once the text before has been copied from it."""
        if self._reader is not None:
            wait(self._arrays, self._reader)
        if len(source) > len(self._pinned):
            self._pinned = np.empty(0, np.uint8)  # given back first: two at once may be too much
            size = pinned_size(len(source))
            self._pinned = np.frombuffer(self._arrays.cuda.alloc_pinned_memory(size), np.uint8, size)

        def copy(start: int) -> None:
            part = source[start : start + COPIED_AT_ONCE]
            self._pinned[start : start + len(part)] = part

        list(_copiers().map(copy, range(0, len(source), COPIED_AT_ONCE)))
        return self._pinned[: len(source)]

    def _is_pinned(self, array: Array) -> bool:
        """Whether the driver can copy from the array as it lies."""
        runtime = self._arrays.cuda.runtime
        return len(array) > 0 and runtime.pointerGetAttributes(array.ctypes.data).type == runtime.memoryTypeHost


def pinned_size(size: int) -> int:
    """How large a buffer for `size` bytes is: of few sizes, as CuPy's pool hands out again only what has the very same.

    >>> [pinned_size(size) >> 20 for size in (1, 5 << 20, 200 << 20, 257 << 20)]
    [1, 8, 256, 512]
    """
    return max(LEAST_PINNED, 1 << (size - 1).bit_length()) if size <= COARSE else -(-size // COARSE) * COARSE


@cache
def _copiers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(processors(), thread_name_prefix="gpulsh-copy")
