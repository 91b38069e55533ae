"""Work in lanes: a lane is a device, a stream and a pinned buffer, and has one item of work at a time.

While one lane computes, the next copies its text to the device and a third fills its pinned buffer, so that bus and
multiprocessors are busy together; with several devices each has its own lanes. A result is handed on when its stream
has finished with it.

Who works in lanes has a whole set of them alone: results of one `each` may be read while another runs inside it, and
two that shared a pinned buffer would overwrite one another's text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.waiting import wait

LANES = 3  # a device: one fills, one copies, one computes


class Lent(Protocol):
    """What a lane works with."""

    def give_back(self) -> None:
        """Let go of what belongs to the work that is done: its text, its secrets."""


Operations = TypeVar("Operations", bound=Lent)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Lane(Generic[Operations]):
    """`operations` of one device on a stream of their own, which is made when the first work comes."""

    def __init__(self, machine: Machine, operations: Operations) -> None:
        self._machine, self._operations = machine, operations
        self._stream: Any = None

    def does(self, work: Callable[[Operations, Item], Result]) -> Callable[[Item], Result]:
        """`work` as what this lane does with an item."""

        def run(item: Item) -> Result:
            with self._machine.here():
                if self._stream is None:
                    self._stream = self._machine.arrays.cuda.Stream(non_blocking=True)
                with self._stream:
                    try:
                        return work(self._operations, item)
                    finally:  # a failed item, too, is let go only when nothing reads it any more
                        wait(self._machine.arrays, self._stream)

        return run

    def give_back(self) -> None:
        """Nobody works in it any more."""
        with self._machine.here():
            self._operations.give_back()


class LaneSets(Generic[Operations]):
    """The lanes of devices, as many times as they are taken at once; those given back are used again.

    A stream has memory of its own in CuPy's pool, which another stream cannot have: new streams would be new memory.
    """

    def __init__(self, make: Callable[[int], Lane[Operations]]) -> None:
        self._make = make  # a lane of a device
        self._free: dict[int, list[list[Lane[Operations]]]] = defaultdict(list)
        self._changing = Lock()

    @contextmanager
    def taken(self, devices: Sequence[int]) -> Iterator[list[Lane[Operations]]]:
        """A set of each of `devices` that nobody else has meanwhile, end to end."""
        sets = [self._set(device) for device in devices]
        try:
            yield [lane for lanes in sets for lane in lanes]
        finally:
            for device, lanes in zip(devices, sets, strict=True):
                for lane in lanes:
                    lane.give_back()
                with self._changing:
                    self._free[device].append(lanes)

    def _set(self, device: int) -> list[Lane[Operations]]:
        with self._changing:
            if self._free[device]:
                return self._free[device].pop()
        return [self._make(device) for _ in range(LANES)]
