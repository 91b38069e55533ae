"""Device memory: its amount, waiting for it, and the transfer of arrays into and out of it.

CuPy's own waiting, which reading a number does too, keeps a core busy all the while. That core has files to decode and
texts to copy for the next batches. `wait` sleeps instead: CUDA wakes a thread for an event that was made to block.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from gpulsh.arrays import DEVICE_MEMORY, Array, Values, adopt_array, dlpack_device
from gpulsh.backends.parallel import processors
from gpulsh.backends.protocol import DeviceBuffer, Sizes
from gpulsh.errors import BackendError

# Bytes of device memory for each byte of text. `sign` holds the text, and in the worst case, one-byte tokens, 8 bytes
# of token sums and 8 of fingerprints where these are not fused. `shingle_sets` needs also what two stable sorts take
# beside their input, 240 in the worst case and about 48 for ordinary text: larger tiles wait less for the host. No bit
# depends on these figures: what does not fit is halved.
SIGN_FACTOR = 20
TILE_FACTOR = 80
USED = 0.8  # of the free memory: allocators round up, and others use the device, too
SMALLEST = 1 << 20
RESIDENT = 0.4  # of the memory free at the start may hold the digests of documents signed so far
HELD = 0.25  # the same for their texts; texts in candidate pairs are copied before these are released

LANES = 3  # per device: one fills, one copies, one computes
TEXT_BYTES = 256 << 20  # of a batch or tile, at most: more hides no more latency
RESIDENT_BATCHES = 4  # times larger are batches of texts on the device: the host starts fewer kernels
MEMORY = 16 << 30  # default bytes of the host that a call may use: batches of 256 MiB
HOST_SHARE = 8
MAX_PINNED = 64 << 20  # bytes of a lane: the slots of `staging`

Made = TypeVar("Made")


def free_bytes(arrays: ModuleType) -> int:
    """Bytes of the current device that the array module can hand out: free ones and those its pool keeps."""
    free, _ = arrays.cuda.runtime.memGetInfo()
    return int(free) + int(arrays.get_default_memory_pool().free_bytes())


def text_sizes(free: int, most: int, memory: int = MEMORY, devices: int = 1) -> Sizes:
    """How much text to take at once, at most `most`, where LANES batches or tiles share `free` bytes of a device.

    On the host, the texts of all `devices` and their pinned copies take an eighth of `memory` bytes, and what is read
    ahead another eighth.
    """
    share = memory // HOST_SHARE
    # A batch for each lane, its pinned memory, and two batches that are being made.
    lanes_of_all = LANES * devices
    host = max(share // (2 * lanes_of_all + 2), (share - MAX_PINNED * lanes_of_all) // (lanes_of_all + 2))

    def size(factor: int, host: int, most: int) -> int:
        return min(max(min(int(free * USED) // (factor * LANES), host), SMALLEST), most)

    batch, tile = size(SIGN_FACTOR, host, most), size(TILE_FACTOR, host, most)
    resident = size(SIGN_FACTOR, free, RESIDENT_BATCHES * most)
    return Sizes(
        batch=batch,
        tile=tile,
        largest_tile=tile,
        readers=processors(),
        ahead=share,
        pinned=min(batch, MAX_PINNED) * lanes_of_all,
        device=int(free * USED),
        only=2 * tile if devices == 1 else 0,  # not more: two tiles meet where a component is larger than one
        resident=resident if devices == 1 else 0,
    )


def max_text_sizes(memory: int, devices: int) -> Sizes:
    """`text_sizes` for devices that have memory enough."""
    return text_sizes(1 << 50, TEXT_BYTES, memory, devices)


def wait(arrays: ModuleType, stream: Any = None) -> None:
    """Return when `stream`, or the current one, has finished its work so far."""
    event = arrays.cuda.Event(block=True, disable_timing=True)
    event.record(arrays.cuda.get_current_stream() if stream is None else stream)
    event.synchronize()


def wait_for(arrays: ModuleType, made: Made) -> Made:
    """`made`, once its arrays are computed: later users may be on other streams."""
    wait(arrays)
    return made


def copy_array(arrays: ModuleType, array: Array) -> Array:
    """A copy on the current device, in the same order. CuPy copies bytes one by one, CUDA many at once."""
    if array.dtype != np.uint8 or array.device.id != arrays.cuda.runtime.getDevice():
        return array.copy(order="K")
    copy = arrays.empty(array.shape, np.uint8)
    arrays.copyto(copy, array)
    return copy


def device_of(array: Array) -> AbstractContextManager[object]:
    """Inside, the array may be sliced and read, on any device; it does nothing for a host array."""
    return array.device if hasattr(array, "get") else nullcontext()


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
    array = adopt_array(array)
    if isinstance(array, np.ndarray):
        return xp.asarray(np.asarray(array, order="C"))  # CuPy would keep Fortran's order
    if isinstance(array, xp.ndarray):
        return _contiguous(xp, array)
    if dlpack_device(array) in DEVICE_MEMORY:
        _check_visible(xp, int(array.__dlpack_device__()[1]))
        return _contiguous(xp, xp.from_dlpack(array))
    if hasattr(array, "__cuda_array_interface__"):
        return _contiguous(xp, _from_interface(xp, array))
    return xp.asarray(array)


def _from_interface(xp: ModuleType, array: Array) -> Array:
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
