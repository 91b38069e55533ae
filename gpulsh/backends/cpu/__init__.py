"""The operations in Numba: kernels without the GIL. A thread takes one chunk of rows, which stays in its cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from subprocess import DEVNULL, Popen

import numpy as np

from gpulsh.arrays import Fingerprints
from gpulsh.backends.compiling import COMPILING
from gpulsh.backends.composed import add_operations
from gpulsh.backends.cpu import buckets, intersect, passages, rows, shingle, simhash, texts, weighted
from gpulsh.backends.cpu.sketches import sketch_of
from gpulsh.backends.cpu.threads import MEMORY, Threads, ranges_of_size
from gpulsh.backends.kernel_cache import kernel_cache
from gpulsh.backends.parallel import is_python, pipelined_map, processors, python_command
from gpulsh.backends.protocol import Backend, Item, Result, Sizes, SketchFold
from gpulsh.params import Family

PIPELINED = 2  # items at work at once
MANY = 4  # items a thread, from which each is work for one thread: to share one among many takes Python's time
SIZES = Sizes(batch=16 << 20, tile=2 << 20, largest_tile=64 << 20, whole=512 << 20)  # at most


class CpuBackend(Threads, Backend):
    """Numba kernels on `threads` threads; None uses every processor this process may run on.

    `memory` is the bytes that the run may use; texts are handed over in parts of it.
    """

    name = "cpu"

    components = staticmethod(buckets.components)
    frequencies = staticmethod(rows.frequencies)
    gather = staticmethod(texts.gather)

    def __init__(self, threads: int | None = None, memory: int = MEMORY) -> None:
        super().__init__(threads or processors(), memory)

    def sizes(self) -> Sizes:
        most, memory = SIZES, self.memory
        batch, largest_tile = min(most.batch, memory >> 7), min(most.largest_tile, memory >> 5)
        return Sizes(batch, most.tile, largest_tile, most.readers, min(most.whole, memory >> 4) if most.whole else None)

    def set_sketch(self, family: Family) -> SketchFold:
        return sketch_of(family).with_threads(self)

    def pipelined_map(self, items: Iterable[Item], work: Callable[[Backend, Item], Result]) -> Iterator[Result]:
        if self.count == 1 or (isinstance(items, Sequence) and len(items) < 2):
            return map(partial(work, self), items)  # `map` holds no item while the next one is made
        if isinstance(items, Sequence) and len(items) >= MANY * self.count:
            return iter(self.parallel_map(items, work))

        def in_lane(item: Item) -> Result:
            with self.lane() as lane:
                return work(lane, item)

        # While the threads work at two items, the next is decoded; threads that one leaves idle help the other.
        return pipelined_map(items, [in_lane] * PIPELINED)

    def parallel_map(self, items: Sequence[Item], work: Callable[[Backend, Item], Result]) -> Iterable[Result]:
        one = self.single_threaded()
        return self.map(lambda place, _: work(one, items[place]), ranges_of_size(len(items), 1))

    def shared_by(self, tasks: int) -> CpuBackend:
        return self if tasks < self.count else self.single_threaded()


add_operations(CpuBackend, buckets, intersect, passages, rows, shingle, simhash, texts, weighted)


@contextmanager
def second_compiler() -> Iterator[None]:
    """Inside, the first kernel to be compiled starts a process that compiles others; it ends with the context.

    Numba compiles one kernel at a time in a process. The other one compiles the kernels that a run needs after signing,
    while the run itself compiles those that sign. The folder of compiled kernels hands them over. Without such a
    folder, or a second processor, there is no second process. A kernel that this process needs earlier is compiled here
    as well.
    """
    started: list[Popen[bytes]] = []
    command = python_command(f"from {__name__} import compile_late; compile_late()")

    def start() -> None:
        if not started:
            with suppress(OSError):
                started.append(Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL))

    if kernel_cache().folder is None or processors() < 2 or not is_python():
        yield
        return
    with COMPILING.listen(start):
        try:
            yield
        finally:
            for process in started:
                process.kill()
                process.wait()


def compile_late() -> None:
    """Call the kernels after signing, in the order of a run. Kernels that only many pairs need come last."""
    ops, pairs = CpuBackend(threads=1), np.array([[0, 1]])
    ops.candidates(ops.collisions(np.zeros(2, np.uint64), np.arange(2)))
    ops.components(2, pairs)
    sets = ops.unique(Fingerprints(np.zeros(2, np.uint64), np.arange(3)))
    ops.intersect(pairs, sets)
    ops.overlap_bounds(pairs, ops.bitmaps(sets), sets.lengths)
