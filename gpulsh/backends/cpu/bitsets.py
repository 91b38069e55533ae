"""intersect where rows meet in many pairs each: they become bit sets, a bit for each value that two of them hold.

Of near-copies of one page each value is in hundreds of rows, and is compared in tens of thousands of pairs. A bitmap in
which every value has a bit of its own bounds an overlap by exactly that overlap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.cpu.bitmaps import overlap_bounds
from gpulsh.backends.cpu.chunks import Threads
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.protocol import GOLDEN

PAIRS_OF_A_ROW = 16  # from which it pays to number its values
FEWEST_PAIRS = 2048
LEAST_BITS, MOST_BITS = 10, 17  # of the table of distinct values, which stays in the second-level cache
LONGEST_PROBE = 64  # so many values in one place are none that were hashed
WORDS_OF_A_VECTOR = 8

_U = np.uint64
_GOLDEN, _ONE, _LOW = _U(GOLDEN), _U(1), _U(63)


@kernel
def _numbered(values, offset, rows, known, number):
    """Fill the table `known` [2^b] and how `number` [2^b] names the values of `rows`; how many stand in several.

    A value that stands in one has number -1. The result is -1 where half the table is not enough.
    """
    bits, slots = 0, known.size
    while (1 << bits) < slots:
        bits += 1
    shift, last = _U(64 - bits), _U(slots - 1)
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
    bits = 0
    while (1 << bits) < known.size:
        bits += 1
    shift, last = _U(64 - bits), _U(known.size - 1)
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


def shared_by_bits(
    pairs: NDArray[np.int64], fingerprints: Fingerprints, threads: Threads
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of those pairs [m, 2] of rows for which bits are the shorter way, and the sizes of their intersections.

    What is held for it is no more than half of what `fingerprints` take, or a table of 1.5 MB.
    """
    none = np.empty(0, np.int64)
    if len(pairs) < FEWEST_PAIRS:
        return none, none
    meets = np.bincount(pairs.reshape(-1), minlength=len(fingerprints)) >= PAIRS_OF_A_ROW
    chosen = np.flatnonzero((meets[pairs[:, 0]] & meets[pairs[:, 1]]) & (pairs[:, 0] != pairs[:, 1]))
    rows = np.flatnonzero(meets)
    if len(chosen) < max(PAIRS_OF_A_ROW // 2 * len(rows), FEWEST_PAIRS):
        return none, none
    values, offset = fingerprints.values, fingerprints.offset
    held = int((offset[rows + 1] - offset[rows]).sum())
    bits = int(np.clip(held.bit_length() - 2, LEAST_BITS, MOST_BITS))
    known, number = np.empty(1 << bits, np.uint64), np.empty(1 << bits, np.int32)
    shared = _numbered(values, offset, rows, known, number)
    words = -(-max(shared, 1) // (64 * WORDS_OF_A_VECTOR)) * WORDS_OF_A_VECTOR
    if shared < 0 or 2 * len(rows) * words > held:
        return none, none
    sets, sizes = np.zeros((len(rows), words), np.uint64), np.empty(len(rows), np.int64)
    _bit_sets(values, offset, rows, known, number, sets, sizes)
    place = np.cumsum(meets) - 1
    return chosen, overlap_bounds(threads, place[pairs.take(chosen, axis=0)], sets, sizes)
