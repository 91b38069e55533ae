"""unique: a block sorts a row that fits its shared memory; the array module's radix sorts take longer rows.

Longer rows are gathered a span at a time. `prefixes` gathers them in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.ragged import first_of_runs


def unique(machine: Machine, fingerprints: Fingerprints) -> Fingerprints:
    """Extra memory: 16 bytes a fingerprint, about 60 for each of one span of long rows."""
    xp, geometry = machine.arrays, machine.geometry
    offset, rows = fingerprints.offset, len(fingerprints)
    loose = xp.empty(machine.number(offset[-1] - offset[0]), np.uint64)
    counts = xp.empty(rows, np.int64)
    machine.run(
        *("unique", "unique", rows, 1),
        *(fingerprints.values, offset, np.int32(geometry.row_limit), loose, counts),
        threads=geometry.row_threads,
    )
    for long in long_rows(machine, fingerprints):
        if len(long.rows) == 1:
            long.values.sort()
            values = long.values
        else:
            order = xp.argsort(long.values, kind="stable")
            order = order[xp.argsort(long.row[order], kind="stable")]  # a pass for each byte of the row's number
            values = long.values[order]
        keep = first_of_runs(values) | first_of_runs(long.row)
        put(machine, long, keep, values, offset[:1], loose, counts)
    return packed(machine, loose, offset, counts)


def kept_rows(machine: Machine, values: Array, offset: Array, keep: Array) -> Fingerprints:
    """The flagged `values`, in the rows that `offset` cuts them into."""
    before = machine.exclusive(keep)
    return Fingerprints(values[keep], before[offset - offset[0]])


@dataclass(frozen=True)
class LongRows:
    """Some rows, end to end."""

    rows: Array  # int64 [rows], ascending
    start: Array  # int64 [rows]: their places in the whole array
    offset: Array  # int64 [rows + 1], from 0 on
    values: Array  # uint64 [offset[rows]]
    row: Array  # the row of each value, in the smallest type


def long_rows(machine: Machine, fingerprints: Fingerprints) -> Iterator[LongRows]:
    """The rows above the geometry's `row_limit`, up to `sort_span` fingerprints at a time, or one row."""
    xp, geometry = machine.arrays, machine.geometry
    sizes = xp.diff(fingerprints.offset)
    every = xp.flatnonzero(sizes > geometry.row_limit)
    if len(every) == 0:
        return
    ends = machine.exclusive(sizes[every])
    first = 0
    while first < len(every):
        room = ends[first : first + 1] + np.int64(geometry.sort_span)
        stop = max(machine.number(xp.searchsorted(ends, room, side="right")[0]) - 1, first + 1)
        rows = every[first:stop]
        start = fingerprints.offset[rows]
        offset = machine.exclusive(sizes[rows])
        row = machine.row_of(offset, 0, machine.number(offset[-1]))
        values = fingerprints.values[xp.arange(len(row), dtype=np.int64) + (start - offset[:-1])[row]]
        smallest = np.uint8 if len(rows) <= 2**8 else np.uint16 if len(rows) <= 2**16 else np.uint32
        yield LongRows(rows, start, offset, values, row.astype(smallest))
        first = stop


def put(
    machine: Machine, long: LongRows, keep: Array, values: Array, begin: Array, loose: Array, counts: Array
) -> None:
    """The flagged `values` of each row to its place in `loose`, which begins at `begin` [1]; how many to `counts`."""
    xp = machine.arrays
    offset = machine.exclusive(keep)[long.offset]
    row = long.row[keep]
    kept = values[keep]
    loose[xp.arange(len(kept), dtype=np.int64) + (long.start - begin - offset[:-1])[row]] = kept
    counts[long.rows] = xp.diff(offset)


def packed(machine: Machine, loose: Array, offset: Array, counts: Array) -> Fingerprints:
    """The first `counts` values of each row in `loose`, end to end; a row begins at `offset` less the first of them."""
    xp, geometry = machine.arrays, machine.geometry
    before = machine.exclusive(counts)
    total = machine.number(before[-1])
    if total == len(loose):
        return Fingerprints(loose, before)
    values = xp.empty(total, np.uint64)
    machine.run(
        *("pack_rows", "pack_rows", total, geometry.threads * geometry.search_items),
        *(loose, offset, before, np.int64(len(counts)), np.int32(geometry.search_items), values),
    )
    return Fingerprints(values, before)
