"""frequencies and prefixes."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.unique import kept_rows


def frequencies(machine: Machine, fingerprints: Fingerprints, counts: Array) -> Array:
    xp, slots = machine.arrays, len(counts)
    start, stop = int(fingerprints.offset[0]), int(fingerprints.offset[-1])
    words = xp.zeros(max(slots // 4, 1), np.uint32)  # the kernel adds to whole words; 1 or 2 slots fill none
    words.view(np.uint8)[:slots] = counts
    machine.run(
        *("frequencies", "frequencies", stop - start, machine.geometry.threads),
        *(fingerprints.values[start:stop], np.int64(stop - start), np.int32(_bits(slots)), words),
    )
    return words.view(np.uint8)[:slots]


def prefixes(machine: Machine, fingerprints: Fingerprints, counts: Array, lengths: Array) -> Fingerprints:
    xp, offset = machine.arrays, fingerprints.offset
    start, stop = int(offset[0]), int(offset[-1])
    if start == stop:
        return Fingerprints(xp.empty(0, np.uint64), xp.zeros(len(fingerprints) + 1, np.int64))
    values = fingerprints.values[start:stop]
    bits = _bits(len(counts))
    slots = (values >> np.uint64(64 - bits)).astype(np.int64) if bits else xp.zeros(stop - start, np.int64)
    count = counts[slots].astype(np.int64)
    rows = machine.row_of(offset, start, stop)
    # Rows ascend by value, so a stable sort by (row, count) is one by (row, count, value), and rows keep their places.
    order = xp.argsort(rows * 256 + count, kind="stable")
    place = xp.arange(start, stop, dtype=np.int64) - offset[rows]
    keep = xp.zeros(stop - start, bool)
    keep[order] = place < lengths[rows]
    return kept_rows(machine, values, offset, keep & (count > 1))


def _bits(slots: int) -> int:
    return slots.bit_length() - 1
