"""Large texts one at a time: what a memory budget allows a document is not there once for every lane.

A lane has a batch, another lane the next, and a reader makes a third: that is little, unless a batch is one document of
a fifth of the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import TypeVar

from gpulsh.arrays import TextBatch
from gpulsh.backends.protocol import Backend

Result = TypeVar("Result")
LARGE_BATCHES = 4  # a batch is large that has so many times the bytes that batches are to have

Work = Callable[[Backend, TextBatch], Result]


def each_large_alone(ops: Backend, batches: Iterable[TextBatch], work: Work[Result]) -> Iterator[Result]:
    """`ops.each(batches, work)`, but behind a large batch none is asked for until the work on it has ended."""
    if isinstance(batches, Sequence) and len(batches) < 2:
        return ops.each(batches, work)
    alone = Lock()  # held from when a large batch is made until the work on it ends, by whichever threads these are on
    large = set[int]()
    most = LARGE_BATCHES * ops.sizes().batch

    def in_turn() -> Iterator[TextBatch]:
        waiting = iter(batches)
        while True:
            with alone:
                batch = next(waiting, None)
            if batch is None:
                return
            if int(batch.offset[-1] - batch.offset[0]) > most:
                alone.acquire()
                large.add(id(batch))
            yield batch
            del batch  # before the next one is made

    def work_alone(lane: Backend, batch: TextBatch) -> Result:
        try:
            return work(lane, batch)
        finally:
            if id(batch) in large:
                large.remove(id(batch))
                alone.release()

    return ops.each(in_turn(), work_alone)
