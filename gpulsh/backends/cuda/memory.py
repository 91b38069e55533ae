"""Device memory: how much there is, waiting for it, and arrays on their way into it and out of it.

CuPy's own waiting, which reading a number does too, keeps a core busy all the while. That core has files to decode and
texts to copy for the next batches. `wait` sleeps instead: CUDA wakes a thread for an event that was made to block.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from gpulsh.arrays import DEVICE_MEMORY, Array, TextBatch, Values, dlpack_device, held
from gpulsh.backends.buffer import DeviceBuffer
from gpulsh.backends.parallel import processors
from gpulsh.backends.protocol import Sizes
from gpulsh.errors import BackendError

# Bytes of device memory for each byte of text in the worst case, one-byte tokens. `sign` holds the text, 8 bytes of
# token sums and 8 of fingerprints where these are not fused; `shingle_sets` also what two stable sorts need beside
# their input. Ordinary text needs about a fifth. No bit depends on these figures: a batch that does not fit is halved.
SIGN_FACTOR = 20
TILE_FACTOR = 240  # two tiles are held where a component is larger than one
USED = 0.8  # of the free memory: allocators round up, and others use the device, too
SMALLEST = 1 << 20
RESIDENT = 0.4  # of the memory free at the start may hold the digests of documents signed so far
HELD = 0.25  # the same for their texts; those that met others are copied before these are released

LEAST_PINNED = 1 << 20  # bytes of a buffer
MOST_PINNED = 256 << 20  # a longer text goes through the buffer in parts: the host cannot use pinned memory otherwise
COPIED_AT_ONCE = 4 << 20  # bytes a thread moves into the buffer; one thread alone is slower than the bus

Made = TypeVar("Made")
_log = logging.getLogger("gpulsh")


def free_bytes(arrays: ModuleType) -> int:
    """Bytes of the current device that the array module can hand out: free ones and those its pool keeps."""
    free, _ = arrays.cuda.runtime.memGetInfo()
    return int(free) + int(arrays.get_default_memory_pool().free_bytes())


def text_sizes(free: int, lanes: int, most: int) -> Sizes:
    """How much text to take at once, at most `most`, where `lanes` batches or tiles share `free` bytes."""

    def size(factor: int) -> int:
        return min(max(int(free * USED) // (factor * lanes), SMALLEST), most)

    tile = size(TILE_FACTOR)
    return Sizes(batch=size(SIGN_FACTOR), tile=tile, largest_tile=tile, readers=processors())


def wait(arrays: ModuleType, stream: Any = None) -> None:
    """Return when `stream`, or the current one, has finished its work so far."""
    event = arrays.cuda.Event(block=True, disable_timing=True)
    event.record(arrays.cuda.get_current_stream() if stream is None else stream)
    event.synchronize()


def done(arrays: ModuleType, made: Made) -> Made:
    """`made`, once its arrays are computed: later users may be on other streams."""
    wait(arrays)
    return made


def on_host(arrays: ModuleType, array: Array) -> Values:
    """A NumPy array of an array of any device, once it is computed; a host array as it is."""
    if not hasattr(array, "get"):
        return np.asarray(array)
    with array.device:
        wait(arrays)
        return np.asarray(array.get(order="A"))  # in its own order


def on_device(xp: ModuleType, array: Array) -> Array:
    """`array` as one of `xp` on the current device, contiguous, safe to use on the current stream.

    Torch, Numba, JAX and cuDF arrays are copied only if they have to be. Kernels take pointers and know no strides.
    DLPack comes before the CUDA array interface: its producer makes the stream wait, and torch's arrays name no stream
    in the interface. Raises BackendError if the array is on a device that this process does not see.
    """
    array = held(array)
    if isinstance(array, np.ndarray):
        return xp.asarray(np.asarray(array, order="C"))  # CuPy would keep Fortran's order
    if isinstance(array, xp.ndarray):
        return _contiguous(xp, array)
    if dlpack_device(array) in DEVICE_MEMORY:
        _check_visible(xp, int(array.__dlpack_device__()[1]))
        return _contiguous(xp, xp.from_dlpack(array))
    if hasattr(array, "__cuda_array_interface__"):
        return _contiguous(xp, _of_interface(xp, array))
    return xp.asarray(array)


def _of_interface(xp: ModuleType, array: Array) -> Array:
    """An array with the CUDA array interface, which does not name the device: the driver knows it."""
    interface = array.__cuda_array_interface__
    pointer, _ = interface["data"]
    if 0 in interface["shape"]:  # its pointer may be null, which belongs to no device
        return xp.empty(interface["shape"], np.dtype(interface["typestr"]))
    device = int(xp.cuda.runtime.pointerGetAttributes(pointer).device)
    _check_visible(xp, device)
    with xp.cuda.Device(device):  # on any other CuPy would copy it, and could not where it has strides
        if isinstance(array, DeviceBuffer) and array.event:
            xp.cuda.runtime.streamWaitEvent(xp.cuda.get_current_stream().ptr, array.event)
        return xp.asarray(array)


def _contiguous(xp: ModuleType, array: Array) -> Array:
    """An array of `xp` on the current device, copied if it is on another one or has strides."""
    if array.device.id == xp.cuda.runtime.getDevice():
        return xp.ascontiguousarray(array)
    with array.device:
        there = xp.ascontiguousarray(array)
        wait(xp)  # other devices know nothing of this one's streams
    here = xp.asarray(there)
    wait(xp)  # before the other device may reuse `there`
    return here


def _check_visible(xp: ModuleType, device: int) -> None:
    count = xp.cuda.runtime.getDeviceCount()
    if not 0 <= device < count:
        raise BackendError(
            f"an array is on CUDA device {device}; this process sees {count}, numbered from 0; copy it to one of"
            " them, or to the host"
        )


class Staging:
    """Text to device memory through one pinned buffer: only from pinned memory does the bus run at its full rate.

    The first text makes the buffer; a larger text replaces it.
    """

    def __init__(self, arrays: ModuleType) -> None:
        self._arrays = arrays
        self._pinned = np.empty(0, np.uint8)
        self._reader: Any = None  # the stream that copies from the buffer
        self._refused = False  # the driver has no memory to pin: it copies from the text itself, more slowly
        self._filling = Lock()  # for threads that share an Index

    def on_device(self, batch: TextBatch) -> TextBatch:
        """The batch in memory of the current device, copied on the current stream if it is elsewhere."""
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

    def release(self) -> None:
        """Return the buffer to CuPy's pool, once nothing is copied from it any more."""
        with self._filling:
            if self._reader is not None:
                wait(self._arrays, self._reader)
            self._reader, self._pinned, self._refused = None, np.empty(0, np.uint8), False

    def _from_device(self, batch: TextBatch) -> TextBatch:
        device = batch.values.device
        if device.id == self._arrays.cuda.runtime.getDevice():
            return batch
        with device:
            first, last = int(batch.offset[0]), int(batch.offset[-1])  # copies no more than these bytes of the column
            text, offset = batch.values[first:last], batch.offset - np.int64(first)
        return TextBatch(_contiguous(self._arrays, text), _contiguous(self._arrays, offset))

    def _filled(self, source: Array) -> Array:
        """The buffer with the text in it, once the text before has been copied from it; without a buffer, the text."""
        if self._reader is not None:
            wait(self._arrays, self._reader)
        if len(source) > len(self._pinned) and not self._refused:
            self._pinned = np.empty(0, np.uint8)  # released first: two at once may be too much
            # CuPy's pool rounds up to a power of two, and reuses only the same size.
            size = max(LEAST_PINNED, 1 << (len(source) - 1).bit_length())
            try:
                self._pinned = np.frombuffer(self._arrays.cuda.alloc_pinned_memory(size), np.uint8, size)
            except self._arrays.cuda.runtime.CUDARuntimeError as error:
                _log.warning("the driver pins no %d bytes of host memory (%s); text is copied slower", size, error)
                self._refused = True
        if self._refused:
            return source

        def copy(start: int) -> None:
            part = source[start : start + COPIED_AT_ONCE]
            self._pinned[start : start + len(part)] = part

        list(_copiers().map(copy, range(0, len(source), COPIED_AT_ONCE)))
        return self._pinned[: len(source)]

    def _is_pinned(self, array: Array) -> bool:
        """Whether the driver can copy from the array itself."""
        runtime = self._arrays.cuda.runtime
        return len(array) > 0 and runtime.pointerGetAttributes(array.ctypes.data).type == runtime.memoryTypeHost


@cache
def _copiers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(processors(), thread_name_prefix="gpulsh-copy")
