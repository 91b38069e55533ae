"""Bytes of texts. gather: a tile of the result a block, so that a long text does not delay short ones.

sha1: a thread a text.
"""

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


def sha1(machine: Machine, text: TextBatch) -> Array:
    heads = machine.arrays.empty(len(text), np.uint64)
    machine.run(
        *("sha1", "sha1", len(text), machine.geometry.threads),
        *(text.values, text.offset, np.int64(len(text)), heads),
    )
    return heads
