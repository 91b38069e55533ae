"""Waiting for a stream, asleep: CuPy's own waiting, which reading a number does too, keeps a core busy all the while.

That core has files to decode and texts to copy for the next batches. CUDA wakes up who waits for an event that was made
to block.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from gpulsh.arrays import Array, Values

Made = TypeVar("Made")


def wait(arrays: ModuleType, stream: Any = None) -> None:
    """Return when `stream`, or the current one, has done all that it was asked for until now."""
    event = arrays.cuda.Event(block=True, disable_timing=True)
    event.record(arrays.cuda.get_current_stream() if stream is None else stream)
    event.synchronize()


def on_host(arrays: ModuleType, array: Array) -> Values:
    """A NumPy array of what one of any device holds, when it is computed; one of the host as it is."""
    if not hasattr(array, "get"):
        return np.asarray(array)
    with array.device:
        wait(arrays)
        return np.asarray(array.get(order="A"))  # as it lies


def done(arrays: ModuleType, made: Made) -> Made:
    """What was made of arrays on the device, when they are there: who uses it later may use other streams."""
    wait(arrays)
    return made
