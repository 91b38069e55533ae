"""Memory of the kernels: a limit for results, scratch buffers, and large arrays that return to the system."""

from __future__ import annotations

import math
import threading
from mmap import mmap

import numpy as np
from numpy.typing import NDArray

from gpulsh.errors import DeviceMemoryError

OWN_PAGES = 1 << 16  # elements


def own_pages(count: int) -> NDArray[np.uint64]:
    """A uint64 [count]; large ones return their memory to the operating system when freed.

    Arrays of many sizes leave an allocator with holes that the next array does not fit into.
    """
    if count < OWN_PAGES:
        return np.empty(count, np.uint64)
    return np.frombuffer(mmap(-1, 8 * count), np.uint64)


class Room:
    """The number of fingerprints that a result may still hold; threads share it."""

    def __init__(self, most: float = math.inf) -> None:
        self._most = self._left = most
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """Hold `count` more fingerprints, or fewer if it is negative.

        Raises DeviceMemoryError if they are too many; the caller then takes fewer documents, or smaller parts.
        """
        with self._lock:
            self._left -= count
            if self._left < 0:
                raise DeviceMemoryError(f"more than {self._most} fingerprints at once do not fit; give more memory")


class Scratch(threading.local):
    """Buffers that a thread reuses from chunk to chunk, because fresh pages cost more than the work done in them."""

    KEPT = 1 << 20  # elements; a longer buffer is for long chunks, and is not kept

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.uint64]] = {}

    def take(self, name: str, count: int) -> NDArray[np.uint64]:
        """An uninitialised uint64 [count] that is valid until this thread takes `name` again."""
        if count > self.KEPT:
            return np.empty(count, np.uint64)
        held = self._buffers.get(name)
        if held is None or len(held) < count:  # the first count may be 0
            held = self._buffers[name] = np.empty(max(count, 1 << 16), np.uint64)
        return held[:count]
