"""A set sketch on threads: rows are folded in chunks of about as many shingles each."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cpu.chunks import Threads, by_weight
from gpulsh.backends.protocol import SketchFold

CHUNK_SHINGLES = 1 << 16


class ThreadedSketch:
    """A `SketchFold` of one thread, by `threads`."""

    def __init__(self, sketch: SketchFold, threads: Threads) -> None:
        self._sketch, self._threads = sketch, threads
        self.empty, self.merge, self.finish = sketch.empty, sketch.merge, sketch.finish

    def fold(self, fingerprints: Fingerprints) -> Array:
        """A state of as many rows."""
        rows = fingerprints.moved(np.ascontiguousarray)
        state = self._sketch.empty(len(rows))

        def work(start: int, stop: int) -> None:
            state[start:stop] = self._sketch.fold(rows.slice(start, stop))

        self._threads.map(work, by_weight(rows.offset, CHUNK_SHINGLES))
        return state
