"""Arrays of other libraries on this backend's device: torch, Numba, JAX, cuDF."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from gpulsh.arrays import DEVICE_MEMORY, Array, dlpack_device, held
from gpulsh.backends.buffer import DeviceBuffer
from gpulsh.backends.cuda.waiting import wait
from gpulsh.errors import BackendError


def on_device(xp: ModuleType, array: Array) -> Array:
    """`array` as one of `xp` on the current device, contiguous, safe to use on the current stream.

    It is not copied where it lies so: kernels are given pointers and know nothing of strides. DLPack comes before the
    CUDA array interface: its producer is told the stream to make wait, while torch's arrays name no stream in the
    latter.

    Raises BackendError where it lies on a device that this process does not see.
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
    """What speaks the CUDA array interface, which does not say on which device: the driver knows."""
    told = array.__cuda_array_interface__
    pointer, _ = told["data"]
    if 0 in told["shape"]:  # its pointer may be null, which belongs to no device
        return xp.empty(told["shape"], np.dtype(told["typestr"]))
    device = int(xp.cuda.runtime.pointerGetAttributes(pointer).device)
    _check_visible(xp, device)
    with xp.cuda.Device(device):  # on any other CuPy would copy it, and could not where it has strides
        if isinstance(array, DeviceBuffer) and array.event:
            xp.cuda.runtime.streamWaitEvent(xp.cuda.get_current_stream().ptr, array.event)
        return xp.asarray(array)


def _contiguous(xp: ModuleType, array: Array) -> Array:
    """An array of `xp` on the current device, copied where it lies on another one or has strides."""
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
            f"an array lies on CUDA device {device}; this process sees {count}, numbered from 0; copy it to one of"
            " them, or to the host"
        )
