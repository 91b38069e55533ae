"""components: lock-free union-find over all edges at once, then each id climbs to its root; no rounds."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.cuda.launcher import Machine


def components(machine: Machine, count: int, pairs: Array) -> Array:
    """Memory beside the pairs: 8 bytes an id, the forest that becomes the labels."""
    xp, threads = machine.arrays, machine.geometry.threads
    parent = xp.arange(count, dtype=np.uint64)
    edges = len(pairs)
    machine.run("components", "components_hook", edges, threads, xp.ascontiguousarray(pairs), np.int64(edges), parent)
    machine.run("components", "components_label", count, threads, np.int64(count), parent)
    return parent.view(np.int64)
