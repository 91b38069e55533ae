"""collisions: most documents share no digest, which a table of bits tells; of the rest digests are all but sorted by
one distribution by their upper bits, since they are uniform.

Where they are many, they are distributed into partitions that fit a core's cache before that, all threads writing side
by side. So the time a digest takes does not grow with their number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Buckets
from gpulsh.backends import protocol
from gpulsh.backends.cpu.chunks import Threads, by_count
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.room import Scratch

CELL = 24
PARTITION_DOCUMENTS = 1 << 16  # up to which there is one partition, which takes their digests where they lie
PARTITION_BITS = 14  # log2 of the digests that one of several has on average: 512 KB with their ids, twice
DIGESTS_AT_ONCE = 1 << 18  # that one thread counts or scatters

_U = np.uint64
_ONE, _LOW = _U(1), _U(63)
_NO_DIGEST = np.uint64(protocol.NO_DIGEST)

_scratch = Scratch()


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


@kernel
def _collisions(digests, ids, skip, once, twice, cells, kept, kept_ids, ordered, members, sizes):
    """Fill `members` [n] and `sizes` [n] from digests with ascending ids; (members, buckets) used.

    All digests agree in their upper `skip` bits. The rest is room: `once` and `twice` uint64 [2^b] of sixteen bits a
    digest, `cells` int64 [2^c + 1] of one, `kept`, `kept_ids` and `ordered` [n]. It is given, because memory that a
    kernel takes makes it longer to compile.
    """
    bits = 0
    while (1 << bits) < 64 * once.size:
        bits += 1
    shift = _U(64 - bits)
    for word in range(once.size):
        once[word] = twice[word] = _U(0)
    for digest in digests:
        cell = (digest << skip) >> shift
        word, bit = cell >> _U(6), _ONE << (cell & _LOW)
        twice[word] |= once[word] & bit
        once[word] |= bit
    count = 0
    for i in range(digests.size):
        digest = digests[i]
        cell = (digest << skip) >> shift
        kept[count], kept_ids[count] = digest, ids[i]
        count += np.int64(twice[cell >> _U(6)] >> (cell & _LOW) & _ONE) & (digest != _NO_DIGEST)
    bits = 1
    while (1 << bits) < count:
        bits += 1
    shift = _U(64 - bits)
    for cell in range((1 << bits) + 1):
        cells[cell] = 0
    for i in range(count):
        cells[np.int64((kept[i] << skip) >> shift) + 1] += 1
    for cell in range(1 << bits):
        cells[cell + 1] += cells[cell]
    for i in range(count):  # stable, so ids ascend among equal digests
        cell = np.int64((kept[i] << skip) >> shift)
        ordered[cells[cell]] = kept[i]
        members[cells[cell]] = kept_ids[i]
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
                digest, document, j = ordered[i], members[i], i
                while j - gap >= begin and (
                    ordered[j - gap] > digest or (ordered[j - gap] == digest and members[j - gap] > document)
                ):
                    ordered[j], members[j] = ordered[j - gap], members[j - gap]
                    j -= gap
                ordered[j], members[j] = digest, document
            gap //= 3
        first = begin
        while first < end:
            last = first + 1
            while last < end and ordered[last] == ordered[first]:
                last += 1
            if last - first > 1:
                for i in range(last - first):  # never to behind where they stand
                    members[used + i] = members[first + i]
                sizes[buckets] = last - first
                used += last - first
                buckets += 1
            first = last
        begin = end
    return used, buckets


def collisions(threads: Threads, digests: NDArray[np.uint64], ids: NDArray[np.int64]) -> Buckets:
    if len(ids) > 1 and not bool((ids[1:] > ids[:-1]).all()):
        order = np.argsort(ids, kind="stable")
        digests, ids = digests[order], ids[order]
    digests, ids = np.ascontiguousarray(digests), np.ascontiguousarray(ids)
    partitions, ends = 1, np.array([len(ids)])
    if len(ids) > PARTITION_DOCUMENTS:
        partitions = 1 << max(1, len(ids).bit_length() - PARTITION_BITS)
        digests, ids, ends = _partitioned(digests, ids, partitions, threads)
    skip = _U(partitions.bit_length() - 1)

    def work(partition: int, _: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        begin, end = (int(ends[partition - 1]) if partition else 0), int(ends[partition])
        count = end - begin
        digits = max(1, (count - 1).bit_length())
        once, twice = (_scratch.take(name, 1 << max(digits - 2, 0)) for name in ("once", "twice"))
        cells = _scratch.take("cells", (1 << digits) + 1).view(np.int64)
        kept, ordered = _scratch.take("kept", count), _scratch.take("ordered", count)
        kept_ids, members, sizes = (_scratch.take(name, count).view(np.int64) for name in ("ids", "members", "sizes"))
        given = digests[begin:end], ids[begin:end]
        for array in given:  # of one type for the kernel, whoever may write to them
            array.flags.writeable = False
        used, buckets = _collisions(*given, skip, once, twice, cells, kept, kept_ids, ordered, members, sizes)
        return members[:used].copy(), sizes[:buckets].copy()

    parts = threads.map(work, by_count(partitions, 1))
    offset = np.concatenate([np.zeros(1, np.int64), *(sizes for _, sizes in parts)])
    return Buckets(np.concatenate([members for members, _ in parts]), np.cumsum(offset))


def _partitioned(
    digests: NDArray[np.uint64], ids: NDArray[np.int64], partitions: int, threads: Threads
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """All but *no digest*, by partition, in order within each; and where each partition ends."""
    chunks, shift = by_count(len(ids), DIGESTS_AT_ONCE), _U(65 - partitions.bit_length())
    counts = np.zeros((len(chunks), partitions), np.int64)
    threads.map(lambda start, stop: _counted(digests[start:stop], shift, counts[start // DIGESTS_AT_ONCE]), chunks)
    # Chunk after chunk within a partition, partition after partition.
    ends = np.cumsum(counts.T.reshape(-1))
    places = np.ascontiguousarray((ends - counts.T.reshape(-1)).reshape(partitions, -1).T)
    to_digests, to_ids = np.empty(int(ends[-1]), np.uint64), np.empty(int(ends[-1]), np.int64)

    def scatter(start: int, stop: int) -> None:
        chunk = slice(start, stop)
        _scattered(digests[chunk], ids[chunk], shift, places[start // DIGESTS_AT_ONCE], to_digests, to_ids)

    threads.map(scatter, chunks)
    return to_digests, to_ids, ends[len(chunks) - 1 :: len(chunks)]
