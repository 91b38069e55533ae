"""Rows of fingerprints: labelled, unique, frequencies, prefixes.

labelled: a hash table counts a row's fingerprints. Its places are secret, so no text can be written to share a few.

unique: fingerprints are uniform, so one distribution into as many cells as a row has values almost sorts it. The set
of a very large document is the union of the sets of its pieces.

prefixes: a count of counts finds a row's rarest shingles without a sort.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.backends.cpu.kernel import kernel, subroutine
from gpulsh.backends.cpu.threads import Threads
from gpulsh.backends.cpu.vectors import leading_zeros, mix64, prefetch
from gpulsh.backends.protocol import GOLDEN
from gpulsh.ragged import own_values, row_ranges, total_size

CHUNK_SHINGLES = 1 << 16
CELL = 24  # a longer cell is sorted by comparison: repeats of few shingles, or values that are no hashes
AHEAD = 64  # shingles whose slots are prefetched

_U = np.uint64
_TWO, _GOLDEN = np.uint8(2), _U(GOLDEN)
_SALT = _U(secrets.randbits(64))


@kernel
def _label_rows(values, offset, salt, known, counts, out):
    """For the longest row of n values, `known` uint64 and `counts` uint32 have two to four times as many places."""
    for row in range(offset.size - 1):
        begin, end = offset[row], offset[row + 1]
        shift = leading_zeros(_U(max(end - begin, 1))) - _U(1)  # more than twice as many places as values
        last = (1 << (64 - np.int64(shift))) - 1
        counts[: last + 1] = 0
        for i in range(begin, end):
            value = values[i]
            place = np.int64(mix64(value ^ salt) >> shift)
            while counts[place] > 0 and known[place] != value:
                place = (place + 1) & last
            known[place] = value
            out[i] = mix64(value + _U(counts[place]) * _GOLDEN) if counts[place] > 0 else value
            counts[place] += 1


def _labelled_rows(rows: Fingerprints) -> Fingerprints:
    offset, room = rows.offset - rows.offset[0], 2 << int(rows.lengths.max(initial=1)).bit_length()
    values = own_values(rows)
    out = np.empty_like(values)
    _label_rows(values, offset, _SALT, np.empty(room, np.uint64), np.empty(room, np.uint32), out)
    return Fingerprints(out, offset)


def labelled(threads: Threads, fingerprints: Fingerprints) -> Fingerprints:
    rows = fingerprints.moved(np.ascontiguousarray)
    return threads.rows(
        lambda start, stop: _labelled_rows(rows.slice(start, stop)), row_ranges(rows.offset, CHUNK_SHINGLES)
    )


@subroutine
def sort(values):
    """In place, by Shell's method: np.sort would take longer to compile than all the rest here."""
    gap = 1
    while gap < values.size // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, values.size):
            value, j = values[i], i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap //= 3


@kernel
def _unique_rows(values, offset, cells, room, out, ends):
    """Of the longest row of n values, `cells` int64 has room for 2n + 2 and `room` uint64 for n + 1."""
    room[0] = _U(0)  # a sentinel: no value is less
    placed = room[1:]
    written = 0
    for row in range(offset.size - 1):
        source = values[offset[row] : offset[row + 1]]
        count = source.size
        if count == 0:
            ends[row] = written
            continue
        shift = leading_zeros(_U(max(count, 2) - 1))  # that leaves the bits of a cell's number
        bits = 64 - np.int64(shift)
        for cell in range(1 << bits):
            cells[cell] = 0
        for value in source:
            cells[value >> shift] += 1
        begin, longest_cell = 0, 0
        for cell in range(1 << bits):
            size = cells[cell]
            longest_cell = max(longest_cell, size)
            cells[cell] = begin
            begin += size
        for value in source:
            cell = value >> shift
            placed[_U(cells[cell])] = value
            cells[cell] += 1  # ends as where the cell ends
        if longest_cell > CELL:
            begin = 0
            for cell in range(1 << bits):
                end = cells[cell]
                if end - begin > CELL:
                    sort(placed[begin:end])
                begin = end
        # Neighbours are put in order by two vector loops first, so that few steps of the insertion are mispredicted.
        for first in range(2):
            here = placed[first : count - (count - first) % 2]
            for pair in range(here.size // 2):
                left, right = here[2 * pair], here[2 * pair + 1]
                here[2 * pair], here[2 * pair + 1] = min(left, right), max(left, right)
        highest = _U(0)
        for i in range(count):
            value = placed[i]
            if value < highest:
                j = i
                while room[j] > value:  # room[j] is placed[j - 1]
                    placed[j] = room[j]
                    j -= 1
                placed[j] = value
            else:
                highest = value
        out[written] = placed[0]
        written += 1
        for i in range(1, count):
            out[written] = placed[i]
            written += placed[i] != placed[i - 1]
        ends[row] = written


def unique_rows(rows: Fingerprints) -> Fingerprints:
    """Each row of contiguous arrays, sorted and without repeats."""
    out, offset = np.empty(rows.offset[-1] - rows.offset[0], np.uint64), np.zeros(len(rows.offset), np.int64)
    longest = int(rows.lengths.max(initial=0))
    cells, room = np.empty(2 * longest + 2, np.int64), np.empty(longest + 1, np.uint64)
    _unique_rows(rows.values, rows.offset, cells, room, out, offset[1:])
    return Fingerprints(out[: offset[-1]], offset)


def unique(threads: Threads, fingerprints: Fingerprints) -> Fingerprints:
    rows = fingerprints.moved(np.ascontiguousarray)
    return threads.rows(
        lambda start, stop: unique_rows(rows.slice(start, stop)), row_ranges(rows.offset, CHUNK_SHINGLES)
    )


@subroutine
def _prefetch_slots(values, place, shift, counts):
    """Bring the slot of a value after `place` to the cache, also of the next rows."""
    prefetch(counts.ctypes.data + np.int64(values[min(place + AHEAD, values.size - 1)] >> shift))


@kernel
def _count(values, shift, counts):
    for i in range(values.size):  # without a branch, which would wait for the table each time it is mistaken
        _prefetch_slots(values, i, shift, counts)
        slot = np.int64(values[i] >> shift)
        count = counts[slot]
        counts[slot] = count + (count < 255)


@kernel
def _prefix_rows(values, offset, shift, counts, lengths, all_below, tally, frequency, rare, out, ends):
    """A count of counts chooses all below one frequency, and of that frequency the smallest that still fit.

    All with a count less than `all_below` fit. Shingles that all documents share have the count 255: only the others
    are looked at, unless they are too few. `tally` [256] and, as long as the longest row, `frequency` and `rare` are
    room: a kernel that allocates makes a new process import all of Numba's array code, which takes longer than its
    work.
    """
    written, below = 0, np.uint8(all_below)
    for row in range(offset.size - 1):
        begin, end = offset[row], offset[row + 1]
        row_values = values[begin:end]
        for i in range(row_values.size):  # a loop of its own: the table is in no cache, so each place is read once
            _prefetch_slots(values, begin + i, shift, counts)
            frequency[i] = counts[np.int64(row_values[i] >> shift)]
        once, fewest = 0, 0
        for i in range(row_values.size):
            once += frequency[i] < _TWO
            fewest += frequency[i] < below
        left, last = max(lengths[row], fewest), 0
        if once >= left:  # no other document has any of the prefix
            ends[row] = written
            continue
        rares = 0
        for i in range(row_values.size):
            rare[rares] = i  # places of fingerprints with lower counts
            rares += frequency[i] < 255
        tally[:] = 0
        for k in range(rares):
            tally[frequency[rare[k]]] += 1
        while last < 255 and 0 < left >= tally[last]:
            left -= tally[last]
            last += 1
        if last == 255:
            rares = row_values.size
            for i in range(rares):
                rare[i] = i
        for k in range(rares):
            count = frequency[rare[k]]
            fits = (count == last) & (left > 0)
            left -= fits
            out[written] = row_values[rare[k]]
            written += ((count < last) | fits) & (count > 1)
        ends[row] = written


def _shift(counts: NDArray[np.uint8]) -> np.uint64:
    return _U(64 - (len(counts).bit_length() - 1))


def frequencies(fingerprints: Fingerprints, counts: NDArray[np.uint8]) -> NDArray[np.uint8]:
    values = own_values(fingerprints)
    _count(np.ascontiguousarray(values), _shift(counts), counts)
    return counts


def _prefixes(rows: Fingerprints, counts: NDArray[np.uint8], lengths: Numbers, rare: int) -> Fingerprints:
    most = int(lengths.sum()) if rare == 0 else total_size(rows)
    out = np.empty(most + 1, np.uint64)  # one more is written, and not counted
    offset = np.zeros(len(rows.offset), np.int64)
    longest = int(rows.lengths.max(initial=0))
    room = np.empty(256, np.int64), np.empty(longest, np.uint8), np.empty(longest, np.int64)
    _prefix_rows(rows.values, rows.offset, _shift(counts), counts, lengths, rare, *room, out, offset[1:])
    return Fingerprints(out[: offset[-1]].copy(), offset)


def prefixes(
    threads: Threads, fingerprints: Fingerprints, counts: NDArray[np.uint8], lengths: Numbers, rare: int = 0
) -> Fingerprints:
    rows = fingerprints.moved(np.ascontiguousarray)
    return threads.rows(
        lambda start, stop: _prefixes(rows.slice(start, stop), counts, lengths[start:stop], rare),
        row_ranges(rows.offset, CHUNK_SHINGLES),
    )
