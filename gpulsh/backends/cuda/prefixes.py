"""frequencies and prefixes: a histogram a row in shared memory; longer rows by sorts of the array module."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.unique import long_rows, packed, put


def frequencies(machine: Machine, fingerprints: Fingerprints, counts: Array) -> Array:
    xp, slots = machine.arrays, len(counts)
    start, stop = machine.numbers(fingerprints.offset[0], fingerprints.offset[-1])
    words = xp.zeros(max(slots // 4, 1), np.uint32)  # the kernel adds to whole words; 1 or 2 slots fill none
    words.view(np.uint8)[:slots] = counts
    machine.run(
        *("frequencies", "frequencies", stop - start, machine.geometry.threads),
        *(fingerprints.values[start:stop], np.int64(stop - start), np.int32(_bits(slots)), words),
    )
    return words.view(np.uint8)[:slots]


def prefixes(machine: Machine, fingerprints: Fingerprints, counts: Array, lengths: Array) -> Fingerprints:
    """Extra memory: 16 bytes a fingerprint, about 60 for each of one span of long rows."""
    xp, geometry = machine.arrays, machine.geometry
    offset, rows, bits = fingerprints.offset, len(fingerprints), _bits(len(counts))
    loose = xp.empty(machine.number(offset[-1] - offset[0]), np.uint64)
    chosen = xp.empty(rows, np.int64)
    machine.run(
        *("prefixes", "prefixes", rows, 1),
        *(fingerprints.values, offset, xp.ascontiguousarray(counts), np.int32(bits)),
        *(xp.ascontiguousarray(lengths), np.int32(geometry.row_limit), loose, chosen),
        threads=geometry.row_threads,
    )
    for long in long_rows(machine, fingerprints):
        size = len(long.values)
        slots = (long.values >> np.uint64(64 - bits)).astype(np.int64) if bits else xp.zeros(size, np.int64)
        count = counts[slots]
        # Rows ascend by value, so stable sorts by count, then by row, are one by (row, count, value), and rows keep
        # their places.
        order = xp.argsort(count, kind="stable")
        order = order[xp.argsort(long.row[order], kind="stable")]
        place = xp.arange(size, dtype=np.int64) - long.offset[long.row]
        keep = xp.zeros(size, bool)
        keep[order] = place < lengths[long.rows][long.row]
        put(machine, long, keep & (count > 1), long.values, offset[:1], loose, chosen)
    return packed(machine, loose, offset, chosen)


def _bits(slots: int) -> int:
    return slots.bit_length() - 1
