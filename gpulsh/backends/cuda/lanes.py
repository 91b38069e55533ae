"""Work in lanes: a lane is a device, a stream and a pinned buffer, and has one item of work at a time.

While one lane computes, the next copies its text to the device and a third fills its pinned buffer, so that bus and
multiprocessors are busy together; with several devices each has its own lanes. A result is handed on when its stream
has finished with it.

Who works in lanes has a whole set of them alone: results of one `each` may be read while another runs inside it, and
two that shared a pinned buffer would overwrite one another's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Generic, TypeVar

from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.waiting import wait

LANES = 3  # a device: one fills, one copies, one computes

Operations = TypeVar("Operations")
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


class LaneSets(Generic[Operations]):
    """The lanes of all devices, as many times as they are taken at once; those given back are used again."""

    def __init__(self, make: Callable[[], list[Lane[Operations]]]) -> None:
        self._make = make
        self._free: list[list[Lane[Operations]]] = []
        self._changing = Lock()

    @contextmanager
    def taken(self) -> Iterator[list[Lane[Operations]]]:
        """A set that nobody else has meanwhile."""
        with self._changing:
            lanes = self._free.pop() if self._free else None
        lanes = lanes or self._make()
        try:
            yield lanes
        finally:
            with self._changing:
                self._free.append(lanes)
