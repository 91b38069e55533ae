"""The operations on CUDA, each on the right device, stream and memory; the other files do the work.

`pipelined_map` works in lanes: a lane is a device, a stream and page-locked memory, and has one item of work at a time.
While one lane computes, the next copies its text to the device, so that bus and multiprocessors are busy together. Each
of several devices has its own lanes. A lane returns a result when its stream has finished.

Each caller takes a whole set of lanes: one call may read its results while another call runs inside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from types import ModuleType
from typing import Any

from gpulsh.arrays import Array, TextBatch
from gpulsh.backends.composed import add_operations
from gpulsh.backends.cuda import buckets, rows, sign, sketches, texts
from gpulsh.backends.cuda.device import import_cupy, visible_devices, why_unavailable
from gpulsh.backends.cuda.launcher import DeviceLauncher, Geometry, Launcher
from gpulsh.backends.cuda.machine import Machine, Tables
from gpulsh.backends.cuda.memory import (
    HELD,
    LANES,
    MAX_PINNED,
    MEMORY,
    RESIDENT,
    copy_array,
    free_bytes,
    on_device,
    on_host,
    wait,
    wait_for,
)
from gpulsh.backends.parallel import pipelined_map
from gpulsh.backends.protocol import Backend, Item, Result, made_on_device
from gpulsh.errors import BackendError, DeviceMemoryError


class CudaBackend(Machine, Backend):
    """Kernels on CUDA devices. Arrays in and out are CuPy's, on the first device and the caller's current stream.

    `devices` are their numbers; None takes all that are visible, the current one first. They share the items of
    `pipelined_map`; every other operation runs on the first. `memory` is the bytes of the host that the run may use;
    texts are handed over in parts of it. Streams, lanes and tables are `shared` and outlive a backend.

    Raises BackendError if CUDA, or one of the devices, does not work.
    """

    name = "cuda"

    def __init__(
        self, shared: Shared | None = None, *, devices: Sequence[int] | None = None, memory: int = MEMORY
    ) -> None:
        if shared is None and (reason := why_unavailable()) is not None:
            raise BackendError(f"CUDA does not work here: {reason}; use --backend cpu, or 'auto'")
        self._shared = shared = shared or _device()
        self._devices = visible_devices(shared.arrays, devices)
        budget = memory, len(self._devices)
        super().__init__(shared.arrays, shared.launcher, shared.geometry, self._devices[0], budget, shared.tables)
        self._stream: Any = None  # of a lane, made for its first work
        self._room: dict[float, int] = {}  # bytes that `keep` and `hold` may still leave on the device, by their share

    def asarray(self, array: Array) -> Array:
        with self.use_device():
            return on_device(self.arrays, array)

    def asnumpy(self, array: Array) -> Array:
        return on_host(self.arrays, array)

    def pipelined_map(self, items: Iterable[Item], work: Callable[[Backend, Item], Result]) -> Iterator[Result]:
        with self._shared.lanes(self._devices) as lanes:
            for lane in lanes:
                lane.budget, lane.staging.most = self.budget, min(self.sizes().batch, MAX_PINNED)
            try:
                # Lanes take an item when its device memory is computed, because their streams would not wait for it.
                ready = made_on_device(self, map(partial(wait_for, self.arrays), items))
                yield from pipelined_map(ready, [partial(lane._work, work) for lane in lanes])
            finally:
                for lane in lanes:
                    with lane.use_device():
                        lane.release()

    def keep(self, *arrays: Array) -> Sequence[Array]:
        kept = self._resident(RESIDENT, *arrays)
        return list(map(self.asnumpy, arrays)) if kept is None else kept

    def stage(self, text: TextBatch) -> TextBatch | None:
        try:
            with self.use_device():
                return self.staging.on_device(text)
        except DeviceMemoryError:
            return None

    def hold(self, text: TextBatch) -> TextBatch | None:
        kept = self._resident(HELD, text.values, text.offset)
        return None if kept is None else TextBatch(*kept)

    def _resident(self, share: float, *arrays: Array) -> list[Array] | None:
        """Copies that stay on this device; None if that `share` of its memory is full."""
        try:
            with self.use_device():
                if not self._room:
                    free = free_bytes(self.arrays)
                    self._room = {share: int(share * free) for share in (RESIDENT, HELD)}
                room = self._room[share] = self._room.get(share, 0) - sum(array.nbytes for array in arrays)
                if room >= 0:
                    # Copied even on the same device: the original is part of a lane's memory, which has to become
                    # whole again for the next batch.
                    kept = [copy_array(self.arrays, array) for array in arrays]
                    wait(self.arrays)  # before a lane may reuse the original
                    return kept
        except DeviceMemoryError:
            self._room[share] = 0
        return None

    def _work(self, work: Callable[[Backend, Item], Result], item: Item) -> Result:
        """`work` of an item on the stream of this lane."""
        with self.use_device():
            if self._stream is None:
                self._stream = self.arrays.cuda.Stream(non_blocking=True)
            with self._stream:
                try:
                    return work(self, item)
                finally:  # even a failed item is released only when nothing reads it any more
                    wait(self.arrays, self._stream)


add_operations(CudaBackend, buckets, rows, sign, sketches, texts)


class Shared:
    """State that all backends of a process share, however many calls make one: lanes, and the Unicode tables.

    `arrays` is CuPy, and `launcher` starts kernels on its devices; tests replace both, and the `geometry`.

    A call that made its own would wait each time for streams, page-locked memory and device memory. Lanes that nobody
    uses leave their memory to CuPy's pools, which `free_all_blocks` empties. Safe for threads.
    """

    def __init__(self, arrays: ModuleType, launcher: Launcher, geometry: Geometry | None = None) -> None:
        self.arrays, self.launcher, self.geometry = arrays, launcher, geometry or Geometry()
        self.tables: Tables = {}
        # A stream has its own memory in CuPy's pool, which other streams cannot use: new streams would be new memory.
        self._free: dict[int, list[list[CudaBackend]]] = defaultdict(list)

    @contextmanager
    def lanes(self, devices: Sequence[int]) -> Iterator[list[CudaBackend]]:
        """A set of lanes of each of `devices`, end to end, for this caller alone."""
        sets = [self._lane_set(device) for device in devices]
        try:
            yield [lane for lanes in sets for lane in lanes]
        finally:
            for device, lanes in zip(devices, sets, strict=True):
                self._free[device].append(lanes)

    def _lane_set(self, device: int) -> list[CudaBackend]:
        with suppress(IndexError):
            return self._free[device].pop()
        return [CudaBackend(self, devices=[device]) for _ in range(LANES)]


@cache
def _device() -> Shared:
    """The shared state of this process: kernels are loaded and lanes made once, not once a call."""
    cupy = import_cupy()
    return Shared(cupy, DeviceLauncher(cupy))
