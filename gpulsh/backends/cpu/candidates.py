"""candidates: document after document, each later neighbour taken once by a mark, so that repeats cost no sort."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Buckets
from gpulsh.backends.cpu.chunks import Threads, by_weight
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.unique import sort

CHUNK_NEIGHBOURS = 1 << 18
SHORT = 24  # neighbours sorted by insertion
DENSE = 16  # neighbours among so many documents each are looked for rather than sorted


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
def _pairs(start, stop, ids, row_offset, positions, ends, mark, found, counts):
    """Later neighbours of the documents [start, stop), ascending and each once; how many there are of each."""
    written = 0
    for document in range(start, stop):
        begin, mark[document] = written, document  # it is no neighbour of its own
        for row in range(row_offset[document], row_offset[document + 1]):
            p = positions[row]
            for q in range(p + 1, ends[p]):
                other = ids[q]
                if mark[other] != document:
                    mark[other] = document
                    found[written] = other
                    written += 1
        if written - begin > SHORT:
            first, last = found[begin], found[begin]
            for i in range(begin + 1, written):
                first, last = min(first, found[i]), max(last, found[i])
            if last - first < DENSE * (written - begin):
                i = begin
                for other in range(first, last + 1):  # they are marked
                    if mark[other] == document:
                        found[i] = other
                        i += 1
            else:
                sort(found[begin:written])
        else:
            for i in range(begin + 1, written):
                other, j = found[i], i
                while j > begin and found[j - 1] > other:
                    found[j] = found[j - 1]
                    j -= 1
                found[j] = other
        counts[document - start] = written - begin
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

    def work(start: int, stop: int) -> NDArray[np.int64]:
        found = np.empty(int(neighbours[stop] - neighbours[start]), np.int64)
        counts = np.empty(stop - start, np.int64)
        mark = np.full(count, -1, np.int32 if count < 1 << 31 else np.int64)
        written = _pairs(start, stop, ids, row_offset, positions, ends, mark, found, counts)
        pairs = np.empty((written, 2), np.int64)
        pairs[:, 0], pairs[:, 1] = np.repeat(np.arange(start, stop), counts), found[:written]
        return pairs

    chunks = by_weight(neighbours[begin : end + 1], max(CHUNK_NEIGHBOURS, 4 * count))
    pairs = np.concatenate(threads.map(work, [(begin + start, begin + stop) for start, stop in chunks]))
    return pairs if known is None else known[pairs]
