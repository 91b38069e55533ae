"""Set sketches. A file is imported when its sketch is first used, because importing it makes kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from functools import lru_cache
from importlib import import_module

import numpy as np

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends.cpu.threads import Threads
from gpulsh.backends.hashing import FUNCTIONS
from gpulsh.params import Family
from gpulsh.ragged import row_ranges

CHUNK_SHINGLES = 1 << 16  # a thread takes so many at a time
# Files of several sketches; another sketch has a file of its own name.
FILES = {
    **dict.fromkeys(FUNCTIONS, "functions"),
    **dict.fromkeys(("fast_similarity", "one_permutation", "splitmix_rounds"), "bins"),
}


@lru_cache(maxsize=16)  # each batch of a run needs the same one
def sketch_of(family: Family) -> Minima:
    """The sketch of a family, on the caller's thread."""
    module = import_module(f"{__name__}.{FILES.get(family.sketch, family.sketch)}")
    found: Minima = module.SKETCHES[family.sketch](family)
    return found


class Minima(ABC):
    """A minimum per column: states merge by the lesser value, and all ones mean no value."""

    threads = Threads(1)

    def __init__(self, family: Family) -> None:
        self.columns, self.dtype = family.num_perm, np.dtype(family.value_type)

    def empty(self, rows: int) -> Values:
        return np.full((rows, self.columns), np.iinfo(self.dtype).max, self.dtype)

    def with_threads(self, threads: Threads) -> Minima:
        """This sketch, folded by threads in chunks of about as many shingles each."""
        other = copy(self)
        other.threads = threads
        return other

    def fold(self, fingerprints: Fingerprints) -> Values:
        rows = fingerprints.moved(np.ascontiguousarray)
        minima = np.empty((len(rows), self.columns), self.dtype)

        def work(start: int, stop: int) -> None:
            self.fold_into(rows.slice(start, stop), minima[start:stop])

        self.threads.map(work, row_ranges(rows.offset, CHUNK_SHINGLES))
        return minima

    @abstractmethod
    def fold_into(self, fingerprints: Fingerprints, minima: Values) -> None:
        """Overwrite `minima` with the state of every row of contiguous fingerprints."""

    def merge(self, state: Values, other: Values) -> Values:
        return np.minimum(state, other, out=state)

    def finish(self, state: Values) -> Values:
        return state
