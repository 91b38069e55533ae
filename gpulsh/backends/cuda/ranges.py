"""collisions on several devices: each sorts one range of the digests, and ranges follow one another in the result."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gpulsh.arrays import Array, Buckets
from gpulsh.backends.cuda.collisions import collisions
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.waiting import wait


def collisions_by_range(machines: Sequence[Machine], digests: Array, ids: Array) -> Buckets:
    """`collisions` of arrays on the first device, which keeps the first range and gets the others' buckets back."""
    first, xp = machines[0], machines[0].arrays
    count = len(machines)
    range_of = digests // np.uint64(-(-(2**64) // count))
    parts = [(digests[range_of == np.uint64(i)], ids[range_of == np.uint64(i)]) for i in range(count)]
    wait(xp)  # other devices know nothing of this one's streams

    def on(machine: Machine, part: tuple[Array, Array]) -> Buckets:
        with machine.here():
            moved = [machine.arrays.asarray(array) for array in part]
            found = collisions(machine, *moved)
            wait(machine.arrays)
            return found

    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(on, machines, parts))
    with first.here():
        members = [xp.asarray(buckets.ids) for buckets in found]
        offsets = [xp.asarray(buckets.offset) for buckets in found]
        starts = np.cumsum([0, *map(len, members)])
        moved = [offset[1:] + np.int64(start) for offset, start in zip(offsets, starts, strict=False)]
        joined = Buckets(xp.concatenate(members), xp.concatenate([offsets[0][:1], *moved]))
        wait(xp)  # before the other devices' arrays are given back
    return joined
