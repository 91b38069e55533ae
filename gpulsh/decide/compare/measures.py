"""How similar compared documents are: what `verify` and `measure` name, of pairs of rows of fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare.readable import row_sizes
from gpulsh.lsh.share import share
from gpulsh.method import Method
from gpulsh.params import Family
from gpulsh.sketch.agreement import estimates

# How similar pairs [m, 2] of rows of fingerprints are, which come whole or in ranges of values: float64 [m], NaN where
# that is not known.
Measure = Callable[[Numbers, Iterable[Fingerprints], Backend], NDArray[np.float64]]


def exact(rows: Numbers, parts: Iterable[Fingerprints], ops: Backend) -> NDArray[np.float64]:
    """Exact Jaccard."""
    both, either = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    pairs = ops.asarray(rows)
    for part in parts:
        shared, together = ops.intersect(pairs, part)
        both, either = both + ops.asnumpy(shared), either + ops.asnumpy(together)
    found: NDArray[np.float64] = share(both, either)
    return found


def contained(rows: Numbers, parts: Iterable[Fingerprints], ops: Backend) -> NDArray[np.float64]:
    """How much of the second document of each pair the first one contains."""
    both, whole = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    pairs = ops.asarray(rows)
    for part in parts:
        both = both + ops.asnumpy(ops.intersect(pairs, part)[0])
        whole = whole + row_sizes(part, ops)[rows[:, 1]]
    found: NDArray[np.float64] = share(both, whole)
    return found


def estimated(family: Family) -> Measure:
    """The share of equal signature values."""

    def measure(rows: Numbers, parts: Iterable[Fingerprints], ops: Backend) -> NDArray[np.float64]:
        sketch = ops.set_sketch(family)
        signatures = sketch.finish(reduce(sketch.merge, map(sketch.fold, parts)))
        return ops.asnumpy(estimates(signatures, ops.asarray(rows)))  # type: ignore[no-any-return]

    return measure


def unmeasured(rows: Numbers, parts: Iterable[Fingerprints], ops: Backend) -> NDArray[np.float64]:
    """NaN: every compared pair counts, none is measured."""
    return np.full(len(rows), np.nan)


def measure_of(method: Method) -> Measure:
    """What `verify` and `measure` name."""
    if method.verify == "exact":
        return contained if method.measure == "containment" else exact
    return estimated(method.family) if method.verify == "signature" else unmeasured
