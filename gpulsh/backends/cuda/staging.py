"""Text to device memory through small page-locked slots.

The bus runs at its full rate only from page-locked memory, and texts are elsewhere. A few threads copy them into slots,
each into the next one that the device has read. A slot is so small that it is still in the processor's cache when the
device reads it: main memory carries the text once. A large buffer would be written to main memory and read from it
again, which takes longer than the bus.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from queue import Empty, SimpleQueue
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, TextBatch
from gpulsh.backends.cuda.memory import MAX_PINNED, on_device
from gpulsh.backends.parallel import processors
from gpulsh.ragged import TextParts, offsets

SLOT = 8 << 20  # bytes
FILLERS = 8  # threads; together they fill slots faster than the bus empties them
TO_DEVICE = 1  # cudaMemcpyHostToDevice

Bytes: TypeAlias = NDArray[np.uint8]
_log = logging.getLogger("gpulsh")


class Slot(NamedTuple):
    """A piece of page-locked memory, and the event after which the device has read it."""

    buffer: Bytes
    pointer: int
    is_read: Any


class Staging:
    """The way of texts to one device, which joins text in parts; `most` bounds the bytes of its slots. Thread-safe."""

    def __init__(self, arrays: ModuleType, most: int = MAX_PINNED) -> None:
        self.most = most
        self._arrays = arrays
        self._slots, self._refused = 0, False  # whether the driver has no memory to pin
        self._free: SimpleQueue[Slot] = SimpleQueue()  # in the order of filling
        self._making = Lock()

    def on_device(self, batch: TextBatch) -> TextBatch:
        """The batch in memory of the current device, copied on the current stream if it is elsewhere."""
        if isinstance(batch, TextParts):
            sources, offset = batch.pieces(), batch.offset
        elif isinstance(batch.values, np.ndarray):
            first, last = int(batch.offset[0]), int(batch.offset[-1])
            sources, offset = [batch.values[first:last]], batch.offset - first
        else:
            return self._from_device(batch)
        text, there = self._arrays.empty(int(offset[-1]), np.uint8), self._arrays.asarray(offset)
        stream, device = self._arrays.cuda.get_current_stream(), self._arrays.cuda.runtime.getDevice()
        if len(sources) == 1 and self._is_pinned(sources[0]):
            text.set(sources[0], stream=stream)
            return TextBatch(text, there)

        groups = list(_groups(sources, min(SLOT, self.most)))
        starts = offsets([sum(map(len, group)) for group in groups])[:-1].tolist()
        rest = iter(list(zip(groups, starts, strict=True)))  # the fillers share it
        copy = self._arrays.cuda.runtime.memcpyAsync

        def send() -> None:
            with self._arrays.cuda.Device(device):
                for group, start in rest:
                    slot = self._take()
                    try:
                        size = _fill(slot, group)
                        copy(text.data.ptr + start, slot.pointer, size, TO_DEVICE, stream.ptr)
                    finally:
                        try:
                            slot.is_read.record(stream)
                        finally:  # also where the device fails: `release` waits for every slot
                            self._free.put(slot)

        # The stream of the caller's own thread (CUPY_CUDA_PER_THREAD_DEFAULT_STREAM) is another stream in a filler.
        of_thread = stream.ptr == self._arrays.cuda.runtime.streamPerThread
        fillers = 1 if of_thread else min(len(groups), FILLERS)
        if fillers < 2:
            send()
        else:
            sending = [_fillers().submit(send) for _ in range(fillers)]
            wait(sending)  # for all, also where one fails: they write to `text`
            for one in sending:
                one.result()
        return TextBatch(text, there)

    def release(self) -> None:
        """Return the slots to CuPy's pool, once nothing is copied from them any more. No text may be on its way."""
        with self._making:
            while self._slots:
                slot = self._free.get()
                self._slots -= 1
                slot.is_read.synchronize()
            self._refused = False

    def _from_device(self, batch: TextBatch) -> TextBatch:
        device = batch.values.device
        if device.id == self._arrays.cuda.runtime.getDevice():
            return batch
        with device:
            first, last = int(batch.offset[0]), int(batch.offset[-1])  # copies no more than these bytes of the column
            text, offset = batch.values[first:last], batch.offset - np.int64(first)
        return TextBatch(on_device(self._arrays, text), on_device(self._arrays, offset))

    def _take(self) -> Slot:
        """A slot that the device has read, for this thread alone."""
        try:
            slot = self._free.get_nowait()
        except Empty:
            with self._making:
                if self._slots < max(self.most // SLOT, 1):
                    slot = self._make_slot()
                    self._slots += 1
                    return slot
            slot = self._free.get()
        try:
            slot.is_read.synchronize()
        except BaseException:
            self._free.put(slot)
            raise
        return slot

    def _make_slot(self) -> Slot:
        cuda, size = self._arrays.cuda, min(SLOT, self.most)
        memory: Any = None
        if not self._refused:
            try:
                memory = cuda.alloc_pinned_memory(size)
            except cuda.runtime.CUDARuntimeError as error:
                _log.warning("the driver pins no %d bytes of host memory (%s); text is copied slower", size, error)
                self._refused = True
        buffer = np.empty(size, np.uint8) if memory is None else np.frombuffer(memory, np.uint8, size)
        return Slot(buffer, buffer.ctypes.data, cuda.Event(block=True, disable_timing=True))

    def _is_pinned(self, array: Array) -> bool:
        """Whether the driver can copy from the array itself."""
        runtime = self._arrays.cuda.runtime
        return len(array) > 0 and runtime.pointerGetAttributes(array.ctypes.data).type == runtime.memoryTypeHost


def _fill(slot: Slot, sources: list[Bytes]) -> int:
    """Copy the bytes of all sources to the slot, end to end; returns how many."""
    return len(np.concatenate(sources, out=slot.buffer[: sum(map(len, sources))]))


def _groups(sources: Iterable[Bytes], most: int) -> Iterator[list[Bytes]]:
    """All bytes in order, `most` together; longer sources are cut."""
    group: list[Bytes] = []
    room = most
    for source in sources:
        while len(source) > room:
            yield [*group, source[:room]]
            group, source, room = [], source[room:], most
        if len(source):
            group.append(source)
            room -= len(source)
    if group:
        yield group


@cache
def _fillers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(processors(), FILLERS), thread_name_prefix="gpulsh-copy")
