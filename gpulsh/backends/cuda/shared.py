"""What the backends of a process have in common, however many calls make one: lanes, and the Unicode table.

A call that made its own would wait for streams, page-locked memory and device memory to be made, each time. What they
hold when nobody works with them is CuPy's to give back: `free_all_blocks` of its pools, of device and of pinned memory.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from types import ModuleType
from typing import Generic

from gpulsh.backends.cuda.lanes import Lane, LaneSets, Operations
from gpulsh.backends.cuda.launcher import Geometry, Launcher, Machine
from gpulsh.backends.cuda.tokens import Table
from gpulsh.backends.cuda.waiting import wait
from gpulsh.backends.unicode_table import unicode_table
from gpulsh.params import Reading


class Shared(Generic[Operations]):
    """Devices of an array module and a launcher; `operations` gives those of a lane of a machine. Safe for threads."""

    def __init__(
        self,
        arrays: ModuleType,
        launcher: Launcher,
        geometry: Geometry,
        operations: Callable[[Shared[Operations], Machine], Operations],
    ) -> None:
        self._arrays, self._launcher, self._geometry = arrays, launcher, geometry
        self._operations = operations
        self._tables: dict[tuple[int, Reading], Table] = {}
        self._changing = Lock()
        self.lanes = LaneSets(self._lane)

    def cut_by(self, geometry: Geometry) -> Shared[Operations]:
        """Share the devices, cut the work in another way, and have lanes of one's own."""
        return Shared(self._arrays, self._launcher, geometry, self._operations)

    @property
    def arrays(self) -> ModuleType:
        """The array module."""
        return self._arrays

    def machine(self, device: int) -> Machine:
        """A device."""
        return Machine(self._arrays, self._launcher, self._geometry, device)

    def table(self, device: int, reading: Reading) -> Table:
        """The Unicode table on a device, the current one."""
        with self._changing:
            if (device, reading) not in self._tables:
                stage1, stage2 = map(self._arrays.asarray, unicode_table(reading))
                self._tables[device, reading] = Table(stage1, stage2, reading.plain)
                wait(self._arrays)  # later calls may use other streams
            return self._tables[device, reading]

    def _lane(self, device: int) -> Lane[Operations]:
        machine = self.machine(device)
        return Lane(machine, self._operations(self, machine))
