"""Text from host to device memory through a pinned buffer, which alone the bus empties at its full rate."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np

from gpulsh.arrays import Array, TextBatch
from gpulsh.backends.cuda.waiting import wait
from gpulsh.backends.parallel import processors

LEAST_PINNED = 1 << 20  # bytes of a buffer
MOST_PINNED = 256 << 20  # which a longer text goes through part by part: what is pinned the host has for nothing else
COPIED_AT_ONCE = 4 << 20  # bytes a thread moves into the buffer; one thread alone is slower than the bus

_log = logging.getLogger("gpulsh")


class Staging:
    """One pinned buffer, made when the first text comes and replaced by a larger one as texts ask for it."""

    def __init__(self, arrays: ModuleType) -> None:
        self._arrays = arrays
        self._pinned = np.empty(0, np.uint8)
        self._reader: Any = None  # the stream that copies from the buffer
        self._refused = False  # the driver has no memory to pin: it copies from the text as it lies, if slowly
        self._filling = Lock()  # for threads that share an Index

    def on_device(self, batch: TextBatch) -> TextBatch:
        """The batch in memory of the current device, copied on the current stream; as it is where it lies there."""
        if not isinstance(batch.values, np.ndarray):
            return self._from_device(batch)
        first, last = int(batch.offset[0]), int(batch.offset[-1])
        source, bounds = batch.values[first:last], batch.offset - first
        text, offset = self._arrays.empty(last - first, np.uint8), self._arrays.asarray(bounds)
        stream = self._arrays.cuda.get_current_stream()
        if self._is_pinned(source):
            text.set(source, stream=stream)
            return TextBatch(text, offset)
        for start in range(0, len(source), MOST_PINNED):
            part = source[start : start + MOST_PINNED]
            with self._filling:
                text[start : start + len(part)].set(self._filled(part), stream=stream)
                self._reader = stream
        return TextBatch(text, offset)

    def give_back(self) -> None:
        """Hand the buffer to CuPy's pool, once nothing is copied from it any more."""
        with self._filling:
            if self._reader is not None:
                wait(self._arrays, self._reader)
            self._reader, self._pinned, self._refused = None, np.empty(0, np.uint8), False

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
        """The buffer with the text in it, once the text before has been copied from it; without one, the text."""
        if self._reader is not None:
            wait(self._arrays, self._reader)
        if len(source) > len(self._pinned):
            self._make_room(pinned_size(len(source)))
        if self._refused:
            return source

        def copy(start: int) -> None:
            part = source[start : start + COPIED_AT_ONCE]
            self._pinned[start : start + len(part)] = part

        list(_copiers().map(copy, range(0, len(source), COPIED_AT_ONCE)))
        return self._pinned[: len(source)]

    def _make_room(self, size: int) -> None:
        """A buffer of that size, unless the driver refused one since `give_back`."""
        self._pinned = np.empty(0, np.uint8)  # given back first: two at once may be too much
        if self._refused:
            return
        try:
            self._pinned = np.frombuffer(self._arrays.cuda.alloc_pinned_memory(size), np.uint8, size)
        except self._arrays.cuda.runtime.CUDARuntimeError as error:
            _log.warning("the driver pins no %d bytes of host memory (%s); text is copied slower", size, error)
            self._refused = True

    def _is_pinned(self, array: Array) -> bool:
        """Whether the driver can copy from the array as it lies."""
        runtime = self._arrays.cuda.runtime
        return len(array) > 0 and runtime.pointerGetAttributes(array.ctypes.data).type == runtime.memoryTypeHost


def pinned_size(size: int) -> int:
    """How large a buffer for `size` bytes is: CuPy's pool rounds up to a power of two, and reuses only the very same.

    >>> [pinned_size(size) >> 20 for size in (1, 5 << 20, 200 << 20, MOST_PINNED)]
    [1, 8, 256, 256]
    """
    return max(LEAST_PINNED, 1 << (size - 1).bit_length())


@cache
def _copiers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(processors(), thread_name_prefix="gpulsh-copy")
