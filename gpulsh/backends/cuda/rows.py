"""Rows of fingerprints: labelled, unique, winnow, frequencies, prefixes, intersect, bitmaps, overlap_bounds, simhash.

unique: a block sorts a row that fits its shared memory; the array module's radix sorts take longer rows, a span at a
time. winnow: a thread per fingerprint, which looks for a smaller one around it. prefixes: a histogram per row in shared
memory; longer rows as in unique. intersect: a warp per pair, the larger row in shared memory; longer rows are spread
over blocks. bitmaps, overlap_bounds: an atomic exclusive-or each, then a thread per pair. simhash: a lane per two bits;
atomic additions join the sums of warps, and then their signs are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.hashing import mix64
from gpulsh.backends.protocol import GOLDEN
from gpulsh.ragged import counts_by_row, first_of_runs, offsets, own_values, row_of


def labelled(machine: Machine, fingerprints: Fingerprints) -> Fingerprints:
    """Extra memory: about 60 bytes per fingerprint, for two sorts by the array module."""
    values, offset = own_values(fingerprints), fingerprints.offset - fingerprints.offset[:1]
    places = np.arange(len(values), dtype=np.int64, like=values)
    row = row_of(offset, places)
    order = np.argsort(values, kind="stable")
    order = order[np.argsort(row[order], kind="stable")]
    values, row = values[order], row[order]
    begins = first_of_runs(values) | first_of_runs(row)
    label = (places - np.flatnonzero(begins)[np.cumsum(begins) - 1]).astype(np.uint64)
    found = np.empty_like(values)
    found[order] = np.where(label > 0, mix64(values + label * np.uint64(GOLDEN)), values)
    return Fingerprints(found, offset)


def unique(machine: Machine, fingerprints: Fingerprints) -> Fingerprints:
    """Extra memory: 16 bytes per fingerprint, about 60 for each of one span of long rows."""
    xp, geometry = machine.arrays, machine.geometry
    offset, rows = fingerprints.offset, len(fingerprints)
    loose = xp.empty(machine.number(offset[-1] - offset[0]), np.uint64)
    counts = xp.empty(rows, np.int64)
    given = fingerprints.values, offset, geometry.row_limit, loose, counts
    machine.run("unique", rows, *given, per="block")
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
    return pack_rows(machine, loose, offset, counts)


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


def pack_rows(machine: Machine, loose: Array, offset: Array, counts: Array) -> Fingerprints:
    """The first `counts` values of each row in `loose`, end to end; a row begins at `offset` less the first of them."""
    before, items = offsets(counts), machine.geometry.search_items
    total = machine.number(before[-1])
    if total == len(loose):
        return Fingerprints(loose, before)
    values = machine.arrays.empty(total, np.uint64)
    machine.run("pack_rows", total, loose, offset, before, len(counts), items, values, items=items)
    return Fingerprints(values, before)


def winnow(machine: Machine, fingerprints: Fingerprints, size: int) -> Array:
    xp, items, offset = machine.arrays, machine.geometry.search_items, fingerprints.offset
    total = machine.number(offset[-1] - offset[0])
    chosen = xp.empty(total, np.uint8)
    machine.run("winnow", total, fingerprints.values, offset, len(fingerprints), size, items, chosen, items=items)
    return xp.flatnonzero(chosen) + offset[:1]


def frequencies(machine: Machine, fingerprints: Fingerprints, counts: Array) -> Array:
    xp, slots = machine.arrays, len(counts)
    start, stop = machine.numbers(fingerprints.offset[0], fingerprints.offset[-1])
    words = xp.zeros(slots // 4, np.uint32)  # the kernel adds to whole words
    words.view(np.uint8)[:] = counts
    machine.run("frequencies", stop - start, fingerprints.values[start:stop], stop - start, _bits(slots), words)
    return words.view(np.uint8)


def prefixes(
    machine: Machine, fingerprints: Fingerprints, counts: Array, lengths: Array, rare: int = 0
) -> Fingerprints:
    """Extra memory: 16 bytes per fingerprint, about 60 for each of one span of long rows."""
    xp, geometry = machine.arrays, machine.geometry
    offset, rows, bits = fingerprints.offset, len(fingerprints), _bits(len(counts))
    if rare > 0:
        values = fingerprints.values[machine.number(offset[0]) : machine.number(offset[-1])]
        lengths = xp.maximum(lengths, counts_by_row(counts[_slots(values, bits)] < rare, offset - offset[:1]))
    loose = xp.empty(machine.number(offset[-1] - offset[0]), np.uint64)
    chosen = xp.empty(rows, np.int64)
    given = fingerprints.values, offset, counts, bits, lengths, geometry.row_limit, loose, chosen
    machine.run("prefixes", rows, *given, per="block")
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
    return pack_rows(machine, loose, offset, chosen)


def _bits(slots: int) -> int:
    return slots.bit_length() - 1


def _slots(values: Array, bits: int) -> Array:
    return (values >> np.uint64(64 - bits)).astype(np.int64)


def intersect(machine: Machine, pairs: Array, fingerprints: Fingerprints) -> tuple[Array, Array]:
    """Extra memory: 16 bytes per pair, the result, and about 60 for a pair with a long row."""
    xp, count, longest = machine.arrays, len(pairs), machine.geometry.row_limit
    both, either = xp.empty(count, np.int64), xp.empty(count, np.int64)
    if count == 0:
        return both, either
    given = fingerprints.values, fingerprints.offset, pairs, count, longest, both, either
    machine.run("intersect", count, *given, kernel="intersect_rows", per="warp")
    sizes = xp.diff(fingerprints.offset)
    if machine.number(sizes.max()) > longest:
        is_long = sizes > longest
        long = xp.flatnonzero(is_long[pairs[:, 0]] | is_long[pairs[:, 1]])
        some, items, hits = pairs[long], machine.geometry.search_items, xp.zeros(len(long), np.uint64)
        left, right = sizes[some[:, 0]], sizes[some[:, 1]]
        ends = xp.cumsum(xp.minimum(left, right))
        total = machine.number(ends[-1]) if len(long) else 0
        spread = fingerprints.values, fingerprints.offset, some, len(long), ends, total, items, hits
        machine.run("intersect", total, *spread, kernel="intersect_spread", items=items)
        shared = hits.view(np.int64)
        both[long], either[long] = shared, left + right - shared
    return both, either


def bitmaps(machine: Machine, fingerprints: Fingerprints, words: int = 16) -> Array:
    documents, offset, items = len(fingerprints), fingerprints.offset, machine.geometry.search_items
    bits = machine.arrays.zeros((documents, words), np.uint64)
    total = machine.number(offset[-1] - offset[0])
    machine.run("bitmaps", total, fingerprints.values, offset, documents, items, words, bits, items=items)
    return bits


def overlap_bounds(machine: Machine, pairs: Array, bitmaps: Array, sizes: Array) -> Array:
    count = len(pairs)
    bounds = machine.arrays.empty(count, np.int64)
    machine.run("overlap_bounds", count, pairs, count, bitmaps, bitmaps.shape[1], sizes, bounds)
    return bounds


def simhash(machine: Machine, fingerprints: Fingerprints, keys: Array, weights: Array | None = None) -> Array:
    """Extra memory: 512 bytes per word of a row."""
    xp, span, count, documents = machine.arrays, machine.geometry.span, len(keys), len(fingerprints)
    sums, bits = xp.zeros((documents, count, 64), np.int64), xp.empty((documents, count), np.uint64)
    total = machine.number(fingerprints.offset[-1] - fingerprints.offset[0])
    weighted, kernel = ((), "simhash") if weights is None else ((weights,), "simhash_weighted")
    given = fingerprints.values, *weighted, fingerprints.offset, documents, xp.asarray(keys), span, sums
    machine.run("simhash", total, *given, kernel=kernel, per="span", rows=count)
    machine.run("simhash", documents * count, sums, documents * count, bits, kernel="simhash_signs", per="warp")
    return bits
