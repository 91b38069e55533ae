"""components."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.cuda.launcher import Machine


def components(machine: Machine, count: int, pairs: Array) -> Array:
    xp, threads = machine.arrays, machine.geometry.threads
    parent = xp.arange(count, dtype=np.uint64)
    labels = xp.empty(count, np.int64)
    edges = len(pairs)
    machine.run("components", "components_hook", edges, threads, xp.ascontiguousarray(pairs), np.int64(edges), parent)
    machine.run("components", "components_label", count, threads, parent, np.int64(count), labels)
    return labels
