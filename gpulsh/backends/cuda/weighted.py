"""Weighted rows. occurrences: radix sorts of the array module; weighted_overlap: a thread per pair.

weighted_minhash: a block per row; kleinberg_tardos: a thread per function of a row.
"""

from __future__ import annotations

import math

import numpy as np

from gpulsh.arrays import Array, Fingerprints, WeightedFingerprints
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.darts import Streams, logarithms
from gpulsh.backends.protocol import NO_DIGEST, NO_VALUE
from gpulsh.ragged import first_of_runs


def occurrences(machine: Machine, fingerprints: Fingerprints) -> WeightedFingerprints:
    """Extra memory: about 60 bytes per fingerprint."""
    xp, offset = machine.arrays, fingerprints.offset
    start, stop = machine.number(offset[0]), machine.number(offset[-1])
    values, row = fingerprints.values[start:stop], machine.row_of(offset, start, stop)
    order = xp.argsort(values, kind="stable")
    order = order[xp.argsort(row[order], kind="stable")]
    values, row = values[order], row[order]
    begin = xp.flatnonzero(first_of_runs(values) | first_of_runs(row))
    weight = xp.diff(xp.concatenate((begin, xp.full(1, len(values), begin.dtype)))).astype(np.float64)
    return WeightedFingerprints(values[begin], weight, xp.searchsorted(begin, offset - offset[0]).astype(np.int64))


def weighted_overlap(machine: Machine, pairs: Array, rows: WeightedFingerprints) -> tuple[Array, Array]:
    xp, count = machine.arrays, len(pairs)
    least, greatest = xp.empty(count, np.float64), xp.empty(count, np.float64)
    machine.run(
        *("weighted_overlap", "weighted_overlap", count, machine.geometry.threads),
        *(xp.ascontiguousarray(pairs), np.int64(count), rows.values, rows.weight, rows.offset, least, greatest),
    )
    return least, greatest


def weighted_minhash(machine: Machine, rows: WeightedFingerprints, num_perm: int, seed: int) -> Array:
    """Extra memory: 8 bytes per value of a signature."""
    xp = machine.arrays
    least = xp.full((len(rows), num_perm), np.uint64(NO_DIGEST), np.uint64)
    machine.run(
        *("weighted_minhash", "weighted_minhash", len(rows), 1),
        *(rows.values, xp.ascontiguousarray(rows.weight).view(np.uint64), rows.offset),
        *(*Streams.of("weighted_minhash", seed), xp.asarray(logarithms())),
        *(np.int64(math.ceil(num_perm * (math.log(num_perm) + 3))), np.int32(num_perm), least),
        threads=machine.geometry.row_threads,
    )
    return (least & np.uint64(NO_VALUE)).astype(np.uint32)


def kleinberg_tardos(machine: Machine, rows: Array, num_perm: int, seed: int) -> Array:
    xp, (count, columns) = machine.arrays, rows.shape
    signatures = xp.full((count, num_perm), np.uint32(NO_VALUE), np.uint32)
    if columns == 0:
        return signatures
    bits = xp.ascontiguousarray(rows).view(np.uint64)  # ascend as the numbers do
    total = count * num_perm
    machine.run(
        *("kleinberg_tardos", "kleinberg_tardos", total, machine.geometry.threads),
        *(bits, xp.ascontiguousarray(bits.max(axis=1)), np.int64(columns)),
        *(*Streams.of("kleinberg_tardos", seed), xp.asarray(logarithms())),
        *(np.int32(num_perm), np.int64(total), signatures),
    )
    return signatures
