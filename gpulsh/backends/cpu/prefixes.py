"""frequencies and prefixes: a row's rarest shingles by a count of counts, in place of a sort of the row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.cpu.chunks import Threads, by_weight, joined
from gpulsh.backends.cpu.kernel import kernel

CHUNK_SHINGLES = 1 << 16

_U = np.uint64


@kernel
def _count(values, shift, counts):
    for value in values:  # without a branch, which would wait for the table each time it is mistaken
        slot = np.int64(value >> shift)
        count = counts[slot]
        counts[slot] = count + (count < 255)


@kernel
def _prefix_rows(values, offset, shift, counts, lengths, all_below, out, ends):
    """Chosen by a count of counts: all below one frequency, and of that one the smallest that still fit.

    Those counted less than `all_below` fit in any case.
    What all documents have in common is counted 255 times: only the rest is looked at, unless that is too little.
    """
    tally = np.empty(256, np.int64)
    longest = 0
    for row in range(offset.size - 1):
        longest = max(longest, offset[row + 1] - offset[row])
    frequency = np.empty(longest, np.uint8)  # of the row, so that the table, far from any cache, is asked once
    rare = np.empty(longest, np.int64)  # places of what is counted less often
    written = 0
    for row in range(offset.size - 1):
        begin, end = offset[row], offset[row + 1]
        tally[:] = 0
        row_values = values[begin:end]
        for i in range(row_values.size):  # a loop of its own: nothing in it waits for the table
            frequency[i] = counts[np.int64(row_values[i] >> shift)]
        rares = 0
        for i in range(row_values.size):
            rare[rares] = i
            rares += frequency[i] < 255
        for k in range(rares):
            tally[frequency[rare[k]]] += 1
        fewest = 0
        for below in range(all_below):
            fewest += tally[below]
        left, last = max(lengths[row], fewest), 0
        while last < 255 and 0 < left >= tally[last]:
            left -= tally[last]
            last += 1
        if last < 255:
            for k in range(rares):
                count = frequency[rare[k]]
                fits = (count == last) & (left > 0)
                left -= fits
                out[written] = row_values[rare[k]]
                written += ((count < last) | fits) & (count > 1)
        else:
            for i in range(row_values.size):
                count = frequency[i]
                fits = (count == 255) & (left > 0)
                left -= fits
                if ((count < 255) | fits) & (count > 1):
                    out[written] = row_values[i]
                    written += 1
        ends[row] = written


def _shift(counts: NDArray[np.uint8]) -> np.uint64:
    """Of a table of two slots or more: a shift by all 64 bits is undefined."""
    return _U(64 - (len(counts).bit_length() - 1))


def frequencies(fingerprints: Fingerprints, counts: NDArray[np.uint8]) -> NDArray[np.uint8]:
    values = fingerprints.values[fingerprints.offset[0] : fingerprints.offset[-1]]
    if len(counts) == 1:
        counts[0] = min(int(counts[0]) + len(values), 255)
    else:
        _count(np.ascontiguousarray(values), _shift(counts), counts)
    return counts


def prefix_rows(
    values: NDArray[np.uint64],
    offset: NDArray[np.int64],
    counts: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    all_below: int = 0,
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """(values, end positions [n]) of the prefixes of the rows `offset` [n + 1] of `values`."""
    most = int(lengths.sum()) if all_below == 0 else int(offset[-1] - offset[0])
    out = np.empty(most + 1, np.uint64)  # one more is written, and not counted
    ends = np.empty(len(offset) - 1, np.int64)
    counts = counts.repeat(2) if len(counts) == 1 else counts
    _prefix_rows(values, offset, _shift(counts), counts, lengths, all_below, out, ends)
    return out[: ends[-1] if len(ends) else 0].copy(), ends


def prefixes(
    fingerprints: Fingerprints, counts: NDArray[np.uint8], lengths: NDArray[np.int64], threads: Threads
) -> Fingerprints:
    values, offset = np.ascontiguousarray(fingerprints.values), np.ascontiguousarray(fingerprints.offset)

    def work(start: int, stop: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        return prefix_rows(values, offset[start : stop + 1], counts, lengths[start:stop])

    chunks = by_weight(offset, CHUNK_SHINGLES)
    return joined(chunks, threads.map(work, chunks), threads)
