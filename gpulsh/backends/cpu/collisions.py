"""collisions: digests are uniform, so one distribution by their upper bits all but sorts them.

It is done twice: into partitions that fit a core's cache, all threads writing side by side, then within each partition.
So the time a digest takes does not grow with their number.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpulsh.arrays import Buckets
from gpulsh.backends import protocol
from gpulsh.backends.cpu.chunks import Threads, by_count
from gpulsh.backends.cpu.kernel import kernel

CELL = 24
PARTITION_BITS = 14  # log2 of the digests a partition has on average: 512 KB with their ids, twice
DIGESTS_AT_ONCE = 1 << 18  # that one thread counts or scatters

_U = np.uint64
_NO_DIGEST = np.uint64(protocol.NO_DIGEST)


@kernel
def _counted(digests, shift, counts):
    for digest in digests:
        if digest != _NO_DIGEST:
            counts[np.int64(digest >> shift)] += 1


@kernel
def _scattered(digests, ids, shift, places, to_digests, to_ids):
    """`places` [partitions]: where this chunk's digests of each partition begin."""
    for i in range(digests.size):
        digest = digests[i]
        if digest != _NO_DIGEST:
            partition = np.int64(digest >> shift)
            to_digests[places[partition]] = digest
            to_ids[places[partition]] = ids[i]
            places[partition] += 1


@njit
def _met(digests, ids, skip):
    """Those that are not alone in one of four cells a digest: most documents share no digest, and need no order."""
    bits = 1
    while (1 << bits) < 4 * digests.size:
        bits += 1
    shift = _U(64 - bits)
    cells = np.zeros(1 << bits, np.uint8)
    for digest in digests:
        cell = (digest << skip) >> shift
        cells[cell] = min(cells[cell] + 1, 2)
    met_digests, met_ids = np.empty(digests.size, np.uint64), np.empty(digests.size, np.int64)
    met = 0
    for i in range(digests.size):
        met_digests[met], met_ids[met] = digests[i], ids[i]
        met += cells[(digests[i] << skip) >> shift] == 2
    return met_digests[:met], met_ids[:met]


@kernel
def _collisions(digests, ids, skip, members, sizes):
    """Fill `members` [n] and `sizes` [n // 2] from digests with ascending ids; (members, buckets) used.

    All digests agree in their upper `skip` bits.
    """
    met, met_ids = _met(digests, ids, skip)
    count = met.size
    bits = 1
    while (1 << bits) < count:
        bits += 1
    shift = _U(64 - bits)
    cells = np.empty((1 << bits) + 1, np.int64)
    cells[:] = 0  # np.zeros takes longer to compile
    for digest in met:
        cells[np.int64((digest << skip) >> shift) + 1] += 1
    for cell in range(1 << bits):
        cells[cell + 1] += cells[cell]
    sorted_digests = np.empty(count, np.uint64)
    sorted_ids = np.empty(count, np.int64)
    for i in range(count):  # stable, so ids ascend among equal digests
        cell = np.int64((met[i] << skip) >> shift)
        sorted_digests[cells[cell]] = met[i]
        sorted_ids[cells[cell]] = met_ids[i]
        cells[cell] += 1
    used, buckets, begin = 0, 0, 0
    for cell in range(1 << bits):
        end = cells[cell]
        # Insertion or, of many, Shell's method, which mixes equal digests: their ids decide. np.argsort would take
        # longer to compile than all the rest here.
        gap = 1
        while gap < (end - begin) // CELL:
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(begin + gap, end):
                digest, document, j = sorted_digests[i], sorted_ids[i], i
                while j - gap >= begin and (
                    sorted_digests[j - gap] > digest
                    or (sorted_digests[j - gap] == digest and sorted_ids[j - gap] > document)
                ):
                    sorted_digests[j], sorted_ids[j] = sorted_digests[j - gap], sorted_ids[j - gap]
                    j -= gap
                sorted_digests[j], sorted_ids[j] = digest, document
            gap //= 3
        first = begin
        while first < end:
            last = first + 1
            while last < end and sorted_digests[last] == sorted_digests[first]:
                last += 1
            if last - first > 1:
                for i in range(last - first):  # a slice would have Numba compile how it tells of lengths that differ
                    members[used + i] = sorted_ids[first + i]
                sizes[buckets] = last - first
                used += last - first
                buckets += 1
            first = last
        begin = end
    return used, buckets


def collisions(digests: NDArray[np.uint64], ids: NDArray[np.int64], threads: Threads) -> Buckets:
    if len(ids) > 1 and not bool((ids[1:] > ids[:-1]).all()):
        order = np.argsort(ids, kind="stable")
        digests, ids = digests[order], ids[order]
    digests, ids = np.ascontiguousarray(digests), np.ascontiguousarray(ids)
    partitions = 1 << max(1, len(ids).bit_length() - PARTITION_BITS)
    skip = _U(partitions.bit_length() - 1)
    digests, ids, ends = _partitioned(digests, ids, partitions, _U(64) - skip, threads)
    members = np.empty(len(ids), np.int64)
    sizes = np.empty(len(ids), np.int64)

    def work(partition: int, _: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        begin, end = (int(ends[partition - 1]) if partition else 0), int(ends[partition])
        part = slice(begin, end)
        used, buckets = _collisions(digests[part], ids[part], skip, members[part], sizes[part])
        return members[begin : begin + used], sizes[begin : begin + buckets]

    parts = threads.map(work, by_count(partitions, 1))
    offset = np.concatenate([np.zeros(1, np.int64), *(sizes for _, sizes in parts)])
    return Buckets(np.concatenate([members for members, _ in parts]), np.cumsum(offset))


def _partitioned(
    digests: NDArray[np.uint64], ids: NDArray[np.int64], partitions: int, shift: np.uint64, threads: Threads
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """All but *no digest*, by partition, in order within each; and where each partition ends."""
    chunks = by_count(len(ids), DIGESTS_AT_ONCE)
    counts = np.zeros((len(chunks), partitions), np.int64)
    threads.map(lambda start, stop: _counted(digests[start:stop], shift, counts[start // DIGESTS_AT_ONCE]), chunks)
    # Chunk after chunk within a partition, partition after partition.
    ends = np.cumsum(counts.T.reshape(-1)) if len(chunks) else np.zeros(partitions, np.int64)
    places = np.ascontiguousarray((ends - counts.T.reshape(-1)).reshape(partitions, -1).T) if len(chunks) else counts
    to_digests, to_ids = np.empty(int(ends[-1]), np.uint64), np.empty(int(ends[-1]), np.int64)

    def scatter(start: int, stop: int) -> None:
        chunk = slice(start, stop)
        _scattered(digests[chunk], ids[chunk], shift, places[start // DIGESTS_AT_ONCE], to_digests, to_ids)

    threads.map(scatter, chunks)
    return to_digests, to_ids, ends[max(len(chunks), 1) - 1 :: max(len(chunks), 1)]
