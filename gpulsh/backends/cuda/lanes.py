"""Work in lanes: a lane is a device, a stream and a pinned buffer, and has one item of work at a time.

While one lane computes, the next copies its text to the device and a third fills its pinned buffer, so that bus and
multiprocessors are busy together. Each of several devices has its own lanes. A lane hands on a result when its stream
has finished.

Each caller takes a whole set of lanes. One call may read its results while another call runs inside it, and two that
shared a pinned buffer would overwrite each other's text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from types import ModuleType
from typing import Generic, TypeVar

from gpulsh.backends.cuda.launcher import Geometry, Launcher, Machine
from gpulsh.backends.cuda.memory import wait
from gpulsh.backends.cuda.tokens import Table
from gpulsh.backends.unicode_table import unicode_table
from gpulsh.params import Reading

LANES = 3  # a device: one fills, one copies, one computes

Lane = TypeVar("Lane")


class Shared(Generic[Lane]):
    """State that all backends of a process share, however many calls make one: lanes, and the Unicode tables.

    A call that made its own would wait each time for streams, page-locked memory and device memory. Lanes that nobody
    uses leave their memory to CuPy's pools, which `free_all_blocks` empties. `make_lane` makes a lane of a device. Safe
    for threads.
    """

    def __init__(
        self,
        arrays: ModuleType,
        launcher: Launcher,
        geometry: Geometry,
        make_lane: Callable[[Shared[Lane], int], Lane],
    ) -> None:
        self.arrays = arrays
        self._launcher, self._geometry, self._make_lane = launcher, geometry, make_lane
        self._tables: dict[tuple[int, Reading], Table] = {}
        # A stream has its own memory in CuPy's pool, which other streams cannot use: new streams would be new memory.
        self._free: dict[int, list[list[Lane]]] = defaultdict(list)
        self._changing = Lock()

    def cut_by(self, geometry: Geometry) -> Shared[Lane]:
        """The same devices with another cut of the work, and lanes of its own."""
        return Shared(self.arrays, self._launcher, geometry, self._make_lane)

    def machine(self, device: int) -> Machine:
        """A device."""
        return Machine(self.arrays, self._launcher, self._geometry, device)

    def table(self, device: int, reading: Reading) -> Table:
        """The Unicode table on a device, the current one."""
        with self._changing:
            if (device, reading) not in self._tables:
                stage1, stage2 = map(self.arrays.asarray, unicode_table(reading))
                self._tables[device, reading] = Table(stage1, stage2, reading.plain)
                wait(self.arrays)  # later calls may use other streams
            return self._tables[device, reading]

    @contextmanager
    def lanes(self, devices: Sequence[int]) -> Iterator[list[Lane]]:
        """A set of lanes of each of `devices`, end to end, that nobody else has meanwhile."""
        sets = [self._lane_set(device) for device in devices]
        try:
            yield [lane for lanes in sets for lane in lanes]
        finally:
            with self._changing:
                for device, lanes in zip(devices, sets, strict=True):
                    self._free[device].append(lanes)

    def _lane_set(self, device: int) -> list[Lane]:
        with self._changing:
            if self._free[device]:
                return self._free[device].pop()
        return [self._make_lane(self, device) for _ in range(LANES)]
