"""candidates: document after document, each later neighbour taken once by its bit, so that repeats cost no sort."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Buckets
from gpulsh.backends.cpu.chunks import Threads, by_count, by_weight
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.unique import sort
from gpulsh.backends.cpu.vectors import lowest_bit
from gpulsh.ragged import offsets

CHUNK_NEIGHBOURS = 1 << 18
SHORT = 24  # neighbours sorted by insertion
DENSE = 16  # words of bits a neighbour up to which they are looked for rather than sorted

_U = np.uint64
_ZERO, _ONE, _LOW = _U(0), _U(1), _U(63)


@kernel
def _positions(ids, offset, row_offset, filled, positions, ends, neighbours):
    """For each document where it stands in `ids`, the end of the bucket there, and how many neighbours follow it."""
    for bucket in range(offset.size - 1):
        for p in range(offset[bucket], offset[bucket + 1]):
            ends[p] = offset[bucket + 1]
            row_offset[ids[p] + 1] += 1
    for document in range(row_offset.size - 1):
        filled[document] = row_offset[document]
        row_offset[document + 1] += row_offset[document]
    for p in range(offset[0], offset[offset.size - 1]):
        document = ids[p]
        positions[filled[document]] = p
        filled[document] += 1
        neighbours[document + 1] += ends[p] - p - 1
    for document in range(neighbours.size - 1):
        neighbours[document + 1] += neighbours[document]


@kernel
def _pairs(start, stop, ids, row_offset, positions, ends, bits, found, counts):
    """Later neighbours of the documents [start, stop), ascending and each once; how many there are of each.

    `bits` [documents / 64 + 1] is zero, and is left so.
    """
    written = 0
    for document in range(start, stop):
        begin, first, last = written, np.int64(bits.size), np.int64(0)
        own, its_bit = document >> 6, _ONE << (_U(document) & _LOW)
        bits[own] = its_bit  # it is no neighbour of its own
        for row in range(row_offset[document], row_offset[document + 1]):
            p = positions[row]
            for q in range(p + 1, ends[p]):
                other = ids[q]
                word = other >> 6
                before = bits[word]
                bits[word] = before | _ONE << (_U(other) & _LOW)
                found[written] = other
                written += bits[word] != before
                first, last = min(first, word), max(last, word)
        bits[own] ^= its_bit
        counts[document - start] = written - begin
        if last - first < DENSE * (written - begin):
            i = begin
            for word in range(first, last + 1):
                left = bits[word]
                while left != _ZERO:
                    found[i] = word << 6 | lowest_bit(left)
                    left &= left - _ONE
                    i += 1
                bits[word] = _ZERO
            continue
        for i in range(begin, written):
            bits[found[i] >> 6] = _ZERO
        if written - begin > SHORT:
            sort(found[begin:written])
            continue
        for i in range(begin + 1, written):
            other, j = found[i], i
            while j > begin and found[j - 1] > other:
                found[j] = found[j - 1]
                j -= 1
            found[j] = other
    return written


def candidates(threads: Threads, buckets: Buckets, first: tuple[int, int] | None = None) -> NDArray[np.int64]:
    ids, offset = np.ascontiguousarray(buckets.ids), np.ascontiguousarray(buckets.offset)
    if len(ids) == 0 or (first is not None and first[0] >= first[1]):
        return np.empty((0, 2), np.int64)
    known = None
    if ids.max() > 1 << 20 and ids.max() > 8 * len(ids):  # sparse ids go by their place among the distinct ones
        known, ids = np.unique(ids, return_inverse=True)
        if first is not None:
            first = int(np.searchsorted(known, first[0])), int(np.searchsorted(known, first[1]))
    count = int(ids.max()) + 1
    begin, end = (0, count) if first is None else (min(max(bound, 0), count) for bound in first)
    if begin >= end:
        return np.empty((0, 2), np.int64)
    row_offset, neighbours = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    positions, ends = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    _positions(ids, offset, row_offset, np.empty(count, np.int64), positions, ends, neighbours)

    def work(start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        found = np.empty(int(neighbours[stop] - neighbours[start]), np.int64)
        counts = np.empty(stop - start, np.int64)
        bits = np.zeros(count // 64 + 1, np.uint64)
        written = _pairs(start, stop, ids, row_offset, positions, ends, bits, found, counts)
        return counts, found[:written]

    chunks = by_weight(neighbours[begin : end + 1], max(CHUNK_NEIGHBOURS, 4 * count))
    parts = threads.map(work, [(begin + start, begin + stop) for start, stop in chunks])
    places = offsets([len(found) for _, found in parts])
    pairs = np.empty((places[-1], 2), np.int64)

    def fill(number: int, _: int) -> None:
        (start, stop), (counts, found), part = chunks[number], parts[number], slice(*places[number : number + 2])
        pairs[part, 0], pairs[part, 1] = np.repeat(np.arange(begin + start, begin + stop), counts), found

    threads.map(fill, by_count(len(chunks), 1))
    return pairs if known is None else known[pairs]
