"""candidates: pairs as 64-bit keys, sorted and reduced a span at a time, so that repeats never pile up."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Buckets
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.errors import BackendError
from gpulsh.ragged import first_of_runs

MAX_MEMBERS = 2**32  # distinct ids in buckets; a key holds two of their numbers


def candidates(machine: Machine, buckets: Buckets, first: tuple[int, int] | None = None) -> Array:
    """Memory beside the buckets: 16 bytes a distinct pair twice, and about 24 a pair of one span."""
    xp, geometry = machine.arrays, machine.geometry
    sizes = xp.diff(buckets.offset)
    ends = xp.cumsum(sizes * (sizes - 1) // 2)
    total = machine.number(ends[-1]) if len(buckets) else 0
    members, names = _numbered(machine, buckets.ids)
    if first is not None and names is not None:  # numbers ascend with the ids
        bounds = xp.searchsorted(names, xp.asarray(np.array(first, np.int64)))
        low, high = machine.numbers(bounds[0], bounds[1])
        first = low, high
    runs: list[Array] = [xp.empty(0, np.uint64)]
    for start in range(0, total, geometry.sort_span):
        stop = min(start + geometry.sort_span, total)
        span = xp.empty(stop - start, np.uint64)
        machine.run(
            *("candidates", "candidates", stop - start, geometry.threads),
            *(members, buckets.offset, np.int64(len(buckets)), ends, np.int64(start), np.int64(stop), span),
        )
        runs.append(_distinct(span if first is None else _begun(span, *first)))
        while len(runs) > 1 and 2 * len(runs[-1]) > len(runs[-2]):  # so that a key is merged a few times only
            last = runs.pop()
            runs[-1] = _merged(machine, runs[-1], last)
    keys = runs[0]
    for run in runs[1:]:
        keys = _merged(machine, keys, run)
    pairs = xp.empty((len(keys), 2), np.int64)
    pairs[:, 0] = keys >> np.uint64(32)
    keys &= np.uint64(0xFFFFFFFF)
    pairs[:, 1] = keys
    return pairs if names is None else names[pairs]


def _numbered(machine: Machine, ids: Array) -> tuple[Array, Array | None]:
    """uint32 numbers in the order of the ids, and the int64 ids they stand for; None where they are the ids."""
    xp = machine.arrays
    if len(ids) == 0 or machine.number(ids.max()) < 2**32:
        return ids.astype(np.uint32), None
    names = xp.sort(ids)
    names = names[first_of_runs(names)]
    if len(names) > MAX_MEMBERS:
        raise BackendError(f"{len(names)} documents are in buckets, {MAX_MEMBERS} fit on a device; give fewer at once")
    return xp.searchsorted(names, ids).astype(np.uint32), names


def _begun(keys: Array, start: int, stop: int) -> Array:
    """Those of pairs whose first number lies in [start, stop)."""
    number = keys >> np.uint64(32)
    return keys[(number >= np.uint64(max(start, 0))) & (number < np.uint64(max(stop, 0)))]


def _distinct(keys: Array) -> Array:
    """The keys ascending, each once, without those of an id with itself; sorts in place."""
    keys.sort()
    fresh = first_of_runs(keys)
    fresh &= (keys >> np.uint64(32)) != (keys & np.uint64(0xFFFFFFFF))  # an id may stand twice in a bucket
    return keys[fresh]


def _merged(machine: Machine, some: Array, others: Array) -> Array:
    if len(some) == 0:
        return others
    return _distinct(machine.arrays.concatenate((some, others)))
