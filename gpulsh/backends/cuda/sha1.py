"""sha1: a thread a text."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, TextBatch
from gpulsh.backends.cuda.launcher import Machine


def sha1(machine: Machine, text: TextBatch) -> Array:
    heads = machine.arrays.empty(len(text), np.uint64)
    machine.run(
        *("sha1", "sha1", len(text), machine.geometry.threads),
        *(text.values, text.offset, np.int64(len(text)), heads),
    )
    return heads
