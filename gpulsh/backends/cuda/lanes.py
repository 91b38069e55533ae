"""Text to digests in lanes: a lane is a device, a stream and a pinned buffer, and signs one batch at a time.

While one lane computes, the next copies its text to the device and a third fills its pinned buffer, so that bus and
multiprocessors are busy together; with several devices each has its own lanes. A lane hands a batch on when its stream
has finished with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gpulsh.arrays import Array, Signed, TextBatch
from gpulsh.backends.cuda.launcher import Machine

LANES = 3  # a device: one fills, one copies, one computes
COPIED_AT_ONCE = 4 << 20  # bytes a thread moves into a pinned buffer; one thread alone is slower than the bus

Sign = Callable[[TextBatch], Signed]

_log = logging.getLogger("gpulsh")


class Lane:
    """Signs batches from host or device memory. Its stream and buffers are made when the first comes."""

    def __init__(self, machine: Machine, prepare: Callable[[], tuple[Sign, Sign]], copiers: ThreadPoolExecutor) -> None:
        """`prepare`, on the lane's stream, gives what signs a batch on the device, and one document on the host."""
        self._machine, self._prepare, self._copiers = machine, prepare, copiers
        self._stream: Any = None
        self._pinned = np.empty(0, np.uint8)

    def __call__(self, batch: TextBatch) -> list[Signed]:
        """The batch, in as many parts as it had to be cut into."""
        with self._machine.here():
            if self._stream is None:
                self._stream = self._machine.arrays.cuda.Stream(non_blocking=True)
                with self._stream:
                    self._sign, self._sign_alone = self._prepare()
            with self._stream:
                return list(self._signed(batch))

    def _signed(self, batch: TextBatch) -> Iterator[Signed]:
        signed = self._signed_whole(batch)
        if signed is not None:
            yield signed
            return
        self._machine.arrays.get_default_memory_pool().free_all_blocks()
        size = int(batch.offset[-1]) - int(batch.offset[0])
        if len(batch) == 1:
            _log.warning("device memory does not hold a document of %d bytes at once; it is signed in pieces", size)
            yield self._sign_alone(batch)
            return
        _log.warning("device memory does not hold a batch of %d bytes; it is halved", size)
        middle = _middle(batch)
        yield from self._signed(batch.slice(0, middle))
        yield from self._signed(batch.slice(middle, len(batch)))

    def _signed_whole(self, batch: TextBatch) -> Signed | None:
        """None where device memory does not suffice; then nothing of the attempt is held any more."""
        try:
            signed = self._sign(self._on_device(batch))
            self._stream.synchronize()
        except self._machine.arrays.cuda.memory.OutOfMemoryError:
            return None
        return signed

    def _on_device(self, batch: TextBatch) -> TextBatch:
        """The batch in device memory: as it is, or through the pinned buffer."""
        if not isinstance(batch.values, np.ndarray):
            return batch
        xp = self._machine.arrays
        first, last = int(batch.offset[0]), int(batch.offset[-1])
        size, bounds = last - first, (len(batch) + 1) * 8
        room = -(-size // 8) * 8  # offsets stand behind the text, at a multiple of their size
        if room + bounds > len(self._pinned):
            self._pinned = np.empty(0, np.uint8)  # given back first: two at once may be too much
            self._pinned = _pinned(xp, room + bounds)
        source = batch.values[first:last]
        if _is_pinned(xp, source):
            room = 0
        else:
            self._fill(source)
        self._pinned[room : room + bounds].view(np.int64)[:] = batch.offset - first
        text, offset = xp.empty(size, np.uint8), xp.empty(len(batch) + 1, np.int64)
        text.set(source if room == 0 else self._pinned[:size], stream=self._stream)
        offset.set(self._pinned[room : room + bounds].view(np.int64), stream=self._stream)
        return TextBatch(text, offset)

    def _fill(self, source: Array) -> None:
        def copy(start: int) -> None:
            part = source[start : start + COPIED_AT_ONCE]
            self._pinned[start : start + len(part)] = part

        list(self._copiers.map(copy, range(0, len(source), COPIED_AT_ONCE)))


def _middle(batch: TextBatch) -> int:
    """The document at which a batch of two or more falls into halves of about equal bytes, neither without any."""
    offset = batch.offset.get() if hasattr(batch.offset, "get") else batch.offset
    half = int(np.searchsorted(offset, (int(offset[0]) + int(offset[-1])) // 2, side="right")) - 1
    return min(max(half, 1), len(batch) - 1)


def _pinned(arrays: Any, size: int) -> Array:
    return np.frombuffer(arrays.cuda.alloc_pinned_memory(size), np.uint8, size)


def _is_pinned(arrays: Any, array: Array) -> bool:
    """Whether the driver can copy from the array as it lies."""
    if len(array) == 0:
        return False
    runtime = arrays.cuda.runtime
    return bool(runtime.pointerGetAttributes(array.ctypes.data).type == runtime.memoryTypeHost)
