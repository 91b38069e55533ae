"""Memory of the kernels: what may be held at once, what is used again, and what goes back to the system."""

from __future__ import annotations

import math
import threading
from mmap import mmap

import numpy as np
from numpy.typing import NDArray

from gpulsh.errors import DeviceMemoryError

OWN_PAGES = 1 << 16  # elements


def own_pages(count: int) -> NDArray[np.uint64]:
    """A uint64 [count] whose memory, where it is much, returns to the operating system when it is freed.

    Arrays of ever other sizes leave an allocator with holes that the next does not fit into.
    """
    if count < OWN_PAGES:
        return np.empty(count, np.uint64)
    return np.frombuffer(mmap(-1, 8 * count), np.uint64)


class Room:
    """How many fingerprints a result may still have; threads share it."""

    def __init__(self, most: float = math.inf) -> None:
        self._most = self._left = most
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """So many more are held from now on, less where it is below 0.

        DeviceMemoryError where they are too many: who asks for several documents, or a part, then asks for less.
        """
        with self._lock:
            self._left -= count
            if self._left < 0:
                raise DeviceMemoryError(f"more than {self._most} fingerprints at once do not fit; give more memory")


class Scratch(threading.local):
    """Buffers a thread uses again from chunk to chunk, because fresh pages cost more than the work done in them."""

    KEPT = 1 << 20  # elements; a longer buffer is for long chunks, and is let go

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.uint64]] = {}

    def take(self, name: str, count: int) -> NDArray[np.uint64]:
        """An uninitialised uint64 [count] that is valid until this thread takes `name` again."""
        if count > self.KEPT:
            return np.empty(count, np.uint64)
        held = self._buffers.get(name)
        if held is None or len(held) < count:  # a first taking may be of nothing
            held = self._buffers[name] = np.empty(max(count, 1 << 16), np.uint64)
        return held[:count]
