"""Rows of fingerprints: unique, winnow, frequencies, prefixes, intersect, bitmaps, overlap_bounds, simhash.

unique: a block sorts a row that fits its shared memory; the array module's radix sorts take longer rows, a span at a
time. winnow: a thread a fingerprint, which looks around for a lesser one. prefixes: a histogram a row in shared memory;
longer rows as in unique. intersect: a warp a pair, the larger row in shared memory; longer rows are spread over blocks.
bitmaps, overlap_bounds: an atomic exclusive-or each, then a thread per pair. simhash: a lane two bits, whose
sums over a warp's fingerprints meet by atomic additions; then their signs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import LANES
from gpulsh.backends.cuda.machine import Machine
from gpulsh.ragged import counted, first_of_runs, offsets


def unique(machine: Machine, fingerprints: Fingerprints) -> Fingerprints:
    """Extra memory: 16 bytes per fingerprint, about 60 for each of one span of long rows."""
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


@dataclass(frozen=True)
class LongRows:
    """Rows that one block of threads cannot sort, end to end."""

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
    ends = offsets(sizes[every])
    first = 0
    while first < len(every):
        room = ends[first : first + 1] + np.int64(geometry.sort_span)
        stop = max(machine.number(xp.searchsorted(ends, room, side="right")[0]) - 1, first + 1)
        rows = every[first:stop]
        start = fingerprints.offset[rows]
        offset = offsets(sizes[rows])
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
    offset = offsets(keep)[long.offset]
    row = long.row[keep]
    kept = values[keep]
    loose[xp.arange(len(kept), dtype=np.int64) + (long.start - begin - offset[:-1])[row]] = kept
    counts[long.rows] = xp.diff(offset)


def packed(machine: Machine, loose: Array, offset: Array, counts: Array) -> Fingerprints:
    """The first `counts` values of each row in `loose`, end to end; a row begins at `offset` less the first of them."""
    xp, geometry = machine.arrays, machine.geometry
    before = offsets(counts)
    total = machine.number(before[-1])
    if total == len(loose):
        return Fingerprints(loose, before)
    values = xp.empty(total, np.uint64)
    machine.run(
        *("pack_rows", "pack_rows", total, geometry.threads * geometry.search_items),
        *(loose, offset, before, np.int64(len(counts)), np.int32(geometry.search_items), values),
    )
    return Fingerprints(values, before)


def winnow(machine: Machine, fingerprints: Fingerprints, size: int) -> Array:
    xp, geometry = machine.arrays, machine.geometry
    total = machine.number(fingerprints.offset[-1] - fingerprints.offset[0])
    chosen = xp.empty(total, np.uint8)
    machine.run(
        *("winnow", "winnow", total, geometry.threads * geometry.search_items),
        *(fingerprints.values, fingerprints.offset, np.int64(len(fingerprints)), np.int64(size)),
        *(np.int32(geometry.search_items), chosen),
    )
    return xp.flatnonzero(chosen) + fingerprints.offset[:1]


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


def prefixes(
    machine: Machine, fingerprints: Fingerprints, counts: Array, lengths: Array, rare: int = 0
) -> Fingerprints:
    """Extra memory: 16 bytes per fingerprint, about 60 for each of one span of long rows."""
    xp, geometry = machine.arrays, machine.geometry
    offset, rows, bits = fingerprints.offset, len(fingerprints), _bits(len(counts))
    if rare > 0:
        values = fingerprints.values[machine.number(offset[0]) : machine.number(offset[-1])]
        lengths = xp.maximum(lengths, counted(counts[_slots(values, bits)] < rare, offset - offset[:1]))
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
        count = counts[_slots(long.values, bits)]
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


def _slots(values: Array, bits: int) -> Array:
    return (values >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros_like(values, np.int64)


def intersect(machine: Machine, pairs: Array, fingerprints: Fingerprints) -> tuple[Array, Array]:
    """Extra memory: 16 bytes per pair, the result, and about 60 for a pair with a long row."""
    xp, geometry = machine.arrays, machine.geometry
    pairs = xp.ascontiguousarray(pairs)
    count = len(pairs)
    both, either = xp.empty(count, np.int64), xp.empty(count, np.int64)
    if count == 0:
        return both, either
    machine.run(
        *("intersect", "intersect_rows", count, geometry.row_threads // 32),
        *(fingerprints.values, fingerprints.offset, pairs, np.int64(count), np.int64(geometry.row_limit)),
        *(both, either),
        threads=geometry.row_threads,
    )
    sizes = xp.diff(fingerprints.offset)
    if machine.number(sizes.max()) > geometry.row_limit:
        is_long = sizes > geometry.row_limit
        long = xp.flatnonzero(is_long[pairs[:, 0]] | is_long[pairs[:, 1]])
        both[long], either[long] = _spread(machine, pairs[long], sizes, fingerprints)
    return both, either


def _spread(machine: Machine, pairs: Array, sizes: Array, fingerprints: Fingerprints) -> tuple[Array, Array]:
    """Intersect pairs, the work of each spread over blocks."""
    xp, geometry = machine.arrays, machine.geometry
    count = len(pairs)
    both = xp.zeros(count, np.uint64)
    left, right = sizes[pairs[:, 0]], sizes[pairs[:, 1]]
    ends = xp.cumsum(xp.minimum(left, right))
    total = machine.number(ends[-1]) if count else 0
    machine.run(
        *("intersect", "intersect_spread", total, geometry.threads * geometry.search_items),
        *(fingerprints.values, fingerprints.offset, pairs, np.int64(count)),
        *(ends, np.int64(total), np.int32(geometry.search_items), both),
    )
    sames = both.view(np.int64)
    return sames, left + right - sames


def bitmaps(machine: Machine, fingerprints: Fingerprints, words: int = 16) -> Array:
    geometry, documents = machine.geometry, len(fingerprints)
    bits = machine.arrays.zeros((documents, words), np.uint64)
    total = machine.number(fingerprints.offset[-1] - fingerprints.offset[0])
    machine.run(
        *("bitmaps", "bitmaps", total, geometry.threads * geometry.search_items),
        *(fingerprints.values, fingerprints.offset, np.int64(documents), np.int32(geometry.search_items)),
        *(np.int32(words), bits),
    )
    return bits


def overlap_bounds(machine: Machine, pairs: Array, bitmaps: Array, sizes: Array) -> Array:
    xp, count = machine.arrays, len(pairs)
    bounds = xp.empty(count, np.int64)
    machine.run(
        *("overlap_bounds", "overlap_bounds", count, machine.geometry.threads),
        *(xp.ascontiguousarray(pairs), np.int64(count), xp.ascontiguousarray(bitmaps), np.int32(bitmaps.shape[1])),
        *(xp.ascontiguousarray(sizes), bounds),
    )
    return bounds


def simhash(machine: Machine, fingerprints: Fingerprints, keys: Array, weights: Array | None = None) -> Array:
    """Extra memory: 512 bytes per word of a row."""
    xp, geometry = machine.arrays, machine.geometry
    count, documents, warps = len(keys), len(fingerprints), geometry.minhash_threads // LANES
    sums, bits = xp.zeros((documents, count, 64), np.int64), xp.empty((documents, count), np.uint64)
    total = machine.number(fingerprints.offset[-1] - fingerprints.offset[0])
    rows = fingerprints.values, *(() if weights is None else (weights,)), fingerprints.offset, np.int64(documents)
    machine.run(
        *("simhash", "simhash" if weights is None else "simhash_weighted", total, geometry.span * warps),
        *(*rows, xp.asarray(keys), np.int32(geometry.span), sums),
        threads=geometry.minhash_threads,
        rows=count,
    )
    machine.run(
        *("simhash", "simhash_signs", documents * count, warps, sums, np.int64(documents * count), bits),
        threads=geometry.minhash_threads,
    )
    return bits
