"""Arrays of other libraries on this backend's device: torch, Numba, JAX, cuDF."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulsh.arrays import DEVICE_MEMORY, Array, dlpack_device, held
from gpulsh.backends.buffer import DeviceBuffer


def on_device(xp: Any, array: Array) -> Array:
    """`array` as one of `xp`, not copied where it lies on the device, safe to use on the current stream.

    DLPack comes before the CUDA array interface: its producer is told the stream to make wait, while torch's arrays
    name no stream in the latter.
    """
    array = held(array)
    if isinstance(array, (np.ndarray, xp.ndarray)):
        return xp.asarray(array)
    if dlpack_device(array) in DEVICE_MEMORY:
        return xp.from_dlpack(array)
    if isinstance(array, DeviceBuffer):
        if array.size == 0:  # its pointer may be null, which belongs to no device
            return xp.zeros(0, np.uint8)
        if array.event:
            xp.cuda.runtime.streamWaitEvent(xp.cuda.get_current_stream().ptr, array.event)
    return xp.asarray(array)
