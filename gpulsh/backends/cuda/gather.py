"""gather: a tile of the result a block, so that one long text does not hold up the short ones."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, TextBatch
from gpulsh.backends.cuda.launcher import Machine

WORD_BYTES = 4  # as in the kernel


def gather(machine: Machine, values: Array, begin: Array, end: Array) -> TextBatch:
    xp, items = machine.arrays, machine.geometry.search_items
    offset = machine.exclusive(end - begin)
    total = machine.number(offset[-1])
    gathered = xp.empty(total, np.uint8)
    machine.run(
        *("gather", "gather", total, machine.geometry.threads * items * WORD_BYTES),
        *(values, xp.ascontiguousarray(begin), offset, np.int64(len(begin)), np.int32(items), gathered),
    )
    return TextBatch(gathered, offset)
