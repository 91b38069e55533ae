"""Device memory: how much there is, waiting for it, and arrays on their way into it and out of it.

CuPy's own waiting, which reading a number does too, keeps a core busy all the while. That core has files to decode and
texts to copy for the next batches. `wait` sleeps instead: CUDA wakes a thread for an event that was made to block.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import DEVICE_MEMORY, Array, TextBatch, Values, dlpack_device, held
from gpulsh.backends.buffer import DeviceBuffer
from gpulsh.backends.parallel import processors
from gpulsh.backends.protocol import Sizes
from gpulsh.errors import BackendError
from gpulsh.ragged import TextParts

# Bytes of device memory for each byte of text. `sign` holds the text, and in the worst case, one-byte tokens, 8 bytes
# of token sums and 8 of fingerprints where these are not fused. `shingle_sets` needs also what two stable sorts take
# beside their input, 240 in the worst case and about 48 for ordinary text: larger tiles wait less for the host. No bit
# depends on these figures: what does not fit is halved.
SIGN_FACTOR = 20
TILE_FACTOR = 80
USED = 0.8  # of the free memory: allocators round up, and others use the device, too
SMALLEST = 1 << 20
RESIDENT = 0.4  # of the memory free at the start may hold the digests of documents signed so far
HELD = 0.25  # the same for their texts; those that met others are copied before these are released

LANES = 3  # a device: one fills, one copies, one computes
TEXT_BYTES = 256 << 20  # of a batch or tile, at most: more hides no more latency
MEMORY = 16 << 30  # default bytes of the host that a call may use: batches of 256 MiB
HOST_SHARE = 8
LEAST_PINNED = 1 << 20  # bytes of a buffer
MOST_PINNED = 256 << 20  # a longer text goes through the buffer in parts: the host cannot use pinned memory otherwise
COPIED_AT_ONCE = 8 << 20  # bytes a thread moves into the buffer; one thread alone is slower than the bus

Bytes: TypeAlias = NDArray[np.uint8]
Made = TypeVar("Made")
_log = logging.getLogger("gpulsh")


def free_bytes(arrays: ModuleType) -> int:
    """Bytes of the current device that the array module can hand out: free ones and those its pool keeps."""
    free, _ = arrays.cuda.runtime.memGetInfo()
    return int(free) + int(arrays.get_default_memory_pool().free_bytes())


def text_sizes(free: int, lanes: int, most: int, memory: int = MEMORY, devices: int = 1) -> Sizes:
    """How much text to take at once, at most `most`, where `lanes` batches or tiles share `free` bytes of a device.

    On the host, the texts of all `devices` and their pinned copies take an eighth of `memory` bytes, and what is read
    ahead another eighth.
    """
    share = memory // HOST_SHARE
    # A batch and its pinned copy for each lane; two more are being made. CuPy pins a power of two.
    host = 1 << max((share // (2 * lanes * devices + 2)).bit_length() - 1, 0)

    def size(factor: int) -> int:
        return min(max(min(int(free * USED) // (factor * lanes), host), SMALLEST), most)

    batch, tile = size(SIGN_FACTOR), size(TILE_FACTOR)
    return Sizes(
        batch=batch,
        tile=tile,
        largest_tile=tile,
        readers=processors(),
        ahead=share,
        pinned=pinned_size(batch) * lanes * devices,
        device=int(free * USED),
    )


def most_sizes(memory: int, devices: int) -> Sizes:
    """`text_sizes` for devices that have memory enough."""
    return text_sizes(1 << 50, LANES, TEXT_BYTES, memory, devices)


def pinned_size(size: int) -> int:
    """Bytes that CuPy pins for so many: it rounds up to a power of two, and reuses only the same size."""
    return max(LEAST_PINNED, 1 << (size - 1).bit_length())


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

    The first text makes the buffer; a larger text replaces it. Text in parts is joined there, and nowhere before.
    """

    def __init__(self, arrays: ModuleType) -> None:
        self.most = MOST_PINNED  # bytes of the buffer
        self._arrays = arrays
        self._pinned = np.empty(0, np.uint8)
        self._reader: Any = None  # the stream that copies from the buffer
        self._refused = False  # the driver has no memory to pin: it copies from the text itself, more slowly
        self._filling = Lock()  # for threads that share an Index

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
        stream = self._arrays.cuda.get_current_stream()
        if len(sources) == 1 and self._is_pinned(sources[0]):
            text.set(sources[0], stream=stream)
            return TextBatch(text, there)
        start = 0
        for group in _groups(sources, self.most):
            with self._filling:
                filled = self._filled(group)
                text[start : start + len(filled)].set(filled, stream=stream)
                self._reader = stream
            start += len(filled)
        return TextBatch(text, there)

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

    def _filled(self, sources: list[Bytes]) -> Bytes:
        """The buffer with the bytes in it, once those before have been copied from it; without a buffer, the bytes."""
        if self._reader is not None:
            wait(self._arrays, self._reader)
        total = sum(map(len, sources))
        if total > len(self._pinned) and not self._refused:
            self._pinned = np.empty(0, np.uint8)  # released first: two at once may be too much
            size = pinned_size(total)
            try:
                self._pinned = np.frombuffer(self._arrays.cuda.alloc_pinned_memory(size), np.uint8, size)
            except self._arrays.cuda.runtime.CUDARuntimeError as error:
                _log.warning("the driver pins no %d bytes of host memory (%s); text is copied slower", size, error)
                self._refused = True
        if self._refused:
            return sources[0] if len(sources) == 1 else np.concatenate(sources)
        buffer, groups = self._pinned[:total], list(_groups(sources, COPIED_AT_ONCE))
        ends = np.cumsum([sum(map(len, group)) for group in groups]).tolist()

        def copy(group: list[Bytes], end: int) -> None:
            np.concatenate(group, out=buffer[end - sum(map(len, group)) : end])

        list(_copiers().map(copy, groups, ends))
        return buffer

    def _is_pinned(self, array: Array) -> bool:
        """Whether the driver can copy from the array itself."""
        runtime = self._arrays.cuda.runtime
        return len(array) > 0 and runtime.pointerGetAttributes(array.ctypes.data).type == runtime.memoryTypeHost


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
def _copiers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(processors(), thread_name_prefix="gpulsh-copy")
