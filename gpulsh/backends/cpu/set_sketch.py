"""A set sketch on threads: rows are folded in chunks of about as many shingles each."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cpu.chunks import Threads, by_weight
from gpulsh.backends.cpu.sketches.minima import Minima

CHUNK_SHINGLES = 1 << 16


class ThreadedSketch:
    """A `SketchFold` of one thread, by `threads`."""

    def __init__(self, sketch: Minima, threads: Threads) -> None:
        self._sketch, self._threads = sketch, threads
        self.empty, self.merge, self.finish = sketch.empty, sketch.merge, sketch.finish

    def fold(self, fingerprints: Fingerprints) -> Array:
        """A state of as many rows."""
        rows = fingerprints.moved(np.ascontiguousarray)
        state = np.empty((len(rows), self._sketch.columns), self._sketch.dtype)

        def work(start: int, stop: int) -> None:
            self._sketch.fold_into(rows.slice(start, stop), state[start:stop])

        self._threads.map(work, by_weight(rows.offset, CHUNK_SHINGLES))
        return state
