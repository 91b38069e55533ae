"""The input of a case, its device, size and time, and its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.gpu.timing import Times, TimingLauncher, by_events
from gpulsh.arrays import TextBatch
from gpulsh.backends.cuda import CudaBackend, Shared
from gpulsh.backends.cuda.launcher import DeviceLauncher


@dataclass
class Found:
    """The result of a case."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)  # what was compared, and found equal, before the clock ran
    not_measured: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)  # single numbers that other cases and the picture use


@dataclass
class Bench:
    """The device, sizes and time of one run.

    `scale` 1.0 is meant for a device of the size of an H200: inputs of some hundred MB, 10^8 pairs.
    """

    cupy: Any
    work: Path  # a folder on a local disk for made corpora
    scale: float = 1.0
    rounds: int = 15
    say: Callable[[str], None] = print
    found: dict[str, Found] = field(default_factory=dict)  # of the cases before
    until: float = float("inf")  # time.monotonic() at which the running case should end

    def count(self, full: float, least: int = 1) -> int:
        """`full` things at scale 1."""
        return max(int(full * self.scale), least)

    @property
    def left(self) -> float:
        """Seconds the running case has."""
        return self.until - time.monotonic()

    @cached_property
    def launcher(self) -> TimingLauncher:
        return TimingLauncher(self.cupy.cuda, DeviceLauncher(self.cupy))

    @cached_property
    def backend(self) -> CudaBackend:
        """The operations, their launches watched."""
        return CudaBackend(Shared(self.cupy, self.launcher))

    def text(self, batch: TextBatch) -> TextBatch:
        """A batch in device memory."""
        return TextBatch(self.cupy.asarray(batch.values), self.cupy.asarray(batch.offset))

    def figure(self, name: str) -> float | None:
        """A number that an earlier case of this run found."""
        return next((found.figures[name] for found in self.found.values() if name in found.figures), None)

    def measure(self, calls: Sequence[Callable[[], Any]], limit: float = 3.0) -> tuple[Times, dict[str, Any]]:
        """Times by events; and the kernels' own of one more round, as the events around launches take time too."""
        times = by_events(self.cupy, calls, self.rounds, limit)
        self.launcher.watching = True
        calls[0]()
        self.launcher.watching = False
        return times, self.launcher.take()

    def free(self) -> None:
        """Give the pool's memory back between inputs of different sizes."""
        self.cupy.get_default_memory_pool().free_all_blocks()
