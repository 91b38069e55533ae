"""Pairs of rows: intersect, bitmaps and overlap_bounds.

- intersect compares sorted rows eight values by eight, all 64 comparisons at once. A much longer row is searched for
  the values of the other: a page may be compared with thousands of quotations. Rows that are in many pairs become bit
  sets instead, with a bit for each value that occurs in at least two of them. In near-copies of one page, each value is
  in hundreds of rows and is compared in tens of thousands of pairs. If every value has its own bit, the bound of two
  bitmaps is their exact overlap.
- bitmaps flips a bit per fingerprint; overlap_bounds is a population count per word of a pair.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from gpulsh.arrays import Fingerprints, Numbers, Words
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.threads import Threads, ranges_of_size
from gpulsh.backends.cpu.vectors import I8, I32, I64, LANES, leading_zeros, llvm, load, popcount
from gpulsh.backends.protocol import GOLDEN
from gpulsh.ragged import row_ranges

CHUNK_PAIRS = 2048
SEARCH_PAYS = 64  # values of one row for each of the other from which a search takes less time
BOUNDED_PAIRS = 1 << 15  # pairs
CHUNK_SHINGLES = 1 << 18  # of bitmaps
PAIRS_OF_A_ROW = 16  # from which numbering its values pays
MIN_PAIRS = 2048
MIN_BITS, MAX_BITS = 10, 17  # of the table of distinct values, which stays in the second-level cache
LONGEST_PROBE = 64  # more values in one place are no hashes
WORDS_OF_A_VECTOR = 8

_U = np.uint64
_GOLDEN, _ONE, _LOW = _U(GOLDEN), _U(1), _U(63)


@llvm(types.int64(types.int64, types.int64))
def _matches(builder: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    """How many of the 8 values at address `left` are among the 8 at `right`; values are distinct on each side."""
    sides = [load(builder, address) for address in (left, right)]
    found = builder.icmp_unsigned("==", sides[0], sides[1])
    for turn in range(1, LANES):
        places = ir.Constant(ir.VectorType(I32, LANES), [(i + turn) % LANES for i in range(LANES)])
        turned = builder.shuffle_vector(sides[1], sides[1], places)
        found = builder.or_(found, builder.icmp_unsigned("==", sides[0], turned))
    count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(I8, [I8]), "llvm.ctpop.i8")
    return builder.zext(builder.call(count, [builder.bitcast(found, I8)]), I64)


@kernel
def _intersections(pairs, values, address, offset, out):
    for pair in range(pairs.shape[0]):
        i, i_end = offset[pairs[pair, 0]], offset[pairs[pair, 0] + 1]
        j, j_end = offset[pairs[pair, 1]], offset[pairs[pair, 1] + 1]
        if i_end - i > j_end - j:
            i, i_end, j, j_end = j, j_end, i, i_end
        found = np.int64(0)
        while i < i_end and (i_end - i) * SEARCH_PAYS < j_end - j:
            value, above = values[i], j_end
            while j < above:
                middle = (j + above) >> 1
                if values[middle] < value:
                    j = middle + 1
                else:
                    above = middle
            found += j < j_end and values[j] == value
            i += 1
        while i + LANES <= i_end and j + LANES <= j_end:
            found += _matches(address + 8 * i, address + 8 * j)
            last_i, last_j = values[i + LANES - 1], values[j + LANES - 1]
            i += LANES * (last_i <= last_j)
            j += LANES * (last_j <= last_i)
        while i < i_end and j < j_end:
            a, b = values[i], values[j]
            found += a == b
            i += a <= b
            j += b <= a
        out[pair] = found


def intersect(threads: Threads, pairs: Numbers, fingerprints: Fingerprints) -> tuple[Numbers, Numbers]:
    pairs = np.ascontiguousarray(pairs)
    rows = fingerprints.moved(np.ascontiguousarray)
    sizes = rows.lengths
    chosen, shared = shared_by_bits(pairs, rows, threads)
    if len(chosen):
        both = np.empty(len(pairs), np.int64)
        both[chosen] = shared
        left = np.ones(len(pairs), bool)
        left[chosen] = False
        both[left] = _compared(pairs.compress(left, axis=0), rows, threads)
    else:
        both = _compared(pairs, rows, threads)
    return both, sizes[pairs[:, 0]] + sizes[pairs[:, 1]] - both


def _compared(pairs: Numbers, rows: Fingerprints, threads: Threads) -> Numbers:
    both, (values, offset) = np.empty(len(pairs), np.int64), (rows.values, rows.offset)
    threads.map(
        lambda start, stop: _intersections(pairs[start:stop], values, values.ctypes.data, offset, both[start:stop]),
        ranges_of_size(len(pairs), CHUNK_PAIRS),
    )
    return both


@kernel
def _numbered(values, offset, rows, known, number):
    """Fill the table `known` [2^b] and the `number` [2^b] of each value of `rows`; how many are in several rows.

    A value of one row has number -1. The result is -1 if half the table is not enough.
    """
    slots, last = known.size, _U(known.size - 1)
    shift = leading_zeros(last)
    number[:] = 0
    distinct = 0
    for row in rows:
        for value in values[offset[row] : offset[row + 1]]:
            slot = (value * _GOLDEN) >> shift
            probes = 0
            while number[slot] != 0 and known[slot] != value:
                slot = (slot + _ONE) & last
                probes += 1
                if probes > LONGEST_PROBE:
                    return -1
            distinct += number[slot] == 0
            if 2 * distinct > slots:
                return -1
            known[slot] = value
            number[slot] = min(number[slot] + 1, 2)
    shared = 0
    for place in range(slots):
        times = number[place]
        number[place] = shared if times == 2 else -1
        shared += times == 2
    return shared


@kernel
def _bit_sets(values, offset, rows, known, number, sets, sizes):
    """The bits of `rows` in `sets` [rows, words], all zero before, and how many they are."""
    last = _U(known.size - 1)
    shift = leading_zeros(last)
    for place in range(rows.size):
        row, here, size = rows[place], sets[place], 0
        for value in values[offset[row] : offset[row + 1]]:
            slot = (value * _GOLDEN) >> shift
            while known[slot] != value:
                slot = (slot + _ONE) & last
            bit = number[slot]
            if bit >= 0:
                here[bit >> 6] |= _ONE << (_U(bit) & _LOW)
                size += 1
        sizes[place] = size


def shared_by_bits(pairs: Numbers, fingerprints: Fingerprints, threads: Threads) -> tuple[Numbers, Numbers]:
    """The places of the `pairs` [m, 2] for which bits are faster, and the sizes of their intersections.

    It holds at most half of the memory of `fingerprints`, or a table of 1.5 MB.
    """
    none = np.empty(0, np.int64)
    if len(pairs) < MIN_PAIRS:
        return none, none
    meets = np.bincount(pairs.reshape(-1), minlength=len(fingerprints)) >= PAIRS_OF_A_ROW
    chosen = np.flatnonzero((meets[pairs[:, 0]] & meets[pairs[:, 1]]) & (pairs[:, 0] != pairs[:, 1]))
    rows = np.flatnonzero(meets)
    if len(chosen) < max(PAIRS_OF_A_ROW // 2 * len(rows), MIN_PAIRS):
        return none, none
    values, offset = fingerprints.values, fingerprints.offset
    held = int((offset[rows + 1] - offset[rows]).sum())
    bits = int(np.clip(held.bit_length() - 2, MIN_BITS, MAX_BITS))
    known, number = np.empty(1 << bits, np.uint64), np.empty(1 << bits, np.int32)
    shared = _numbered(values, offset, rows, known, number)
    words = -(-max(shared, 1) // (64 * WORDS_OF_A_VECTOR)) * WORDS_OF_A_VECTOR
    if shared < 0 or 2 * len(rows) * words > held:
        return none, none
    sets, sizes = np.zeros((len(rows), words), np.uint64), np.empty(len(rows), np.int64)
    _bit_sets(values, offset, rows, known, number, sets, sizes)
    place = np.cumsum(meets) - 1
    return chosen, overlap_bounds(threads, place[pairs.take(chosen, axis=0)], sets, sizes)


@kernel
def _bitmaps(values, offset, shift, out):
    for row in range(offset.size - 1):
        bits = out[row]
        bits[:] = _U(0)
        for value in values[offset[row] : offset[row + 1]]:
            bit = value >> shift
            bits[np.int64(bit >> _U(6))] ^= _ONE << (bit & _LOW)


@kernel
def _overlap_bounds(pairs, bitmaps, sizes, out):
    for pair in range(pairs.shape[0]):
        i, j = pairs[pair, 0], pairs[pair, 1]
        left, right = bitmaps[i], bitmaps[j]
        apart = np.int64(0)
        for word in range(bitmaps.shape[1]):
            apart += popcount(left[word] ^ right[word])
        out[pair] = min(sizes[i], sizes[j], (sizes[i] + sizes[j] - apart) >> 1)


def bitmaps(threads: Threads, fingerprints: Fingerprints, words: int = 16) -> Words:
    rows = fingerprints.moved(np.ascontiguousarray)
    out, shift = np.empty((len(rows), words), np.uint64), _U(65 - (64 * words).bit_length())
    threads.map(
        lambda start, stop: _bitmaps(rows.values, rows.offset[start : stop + 1], shift, out[start:stop]),
        row_ranges(rows.offset, CHUNK_SHINGLES),
    )
    return out


def overlap_bounds(threads: Threads, pairs: Numbers, bitmaps: Words, sizes: Numbers) -> Numbers:
    pairs, bitmaps, sizes = np.ascontiguousarray(pairs), np.ascontiguousarray(bitmaps), np.ascontiguousarray(sizes)
    bounds = np.empty(len(pairs), np.int64)
    threads.map(
        lambda start, stop: _overlap_bounds(pairs[start:stop], bitmaps, sizes, bounds[start:stop]),
        ranges_of_size(len(pairs), BOUNDED_PAIRS),
    )
    return bounds
