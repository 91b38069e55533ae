"""Signatures to components: band_digests, collisions, candidates, components.

- band_digests: one sum of products per digest; hand-written vectors would gain nothing.
- collisions: most digests occur once, and a bit table filters them out. The others are uniform, so one distribution by
  their upper bits almost sorts them. Many digests are first distributed into partitions that fit a core's cache, by all
  threads at once, so the time per digest does not grow with their number.
- candidates: one document at a time. A bit for each neighbour shows repeats, so they need no sort.
- components: union-find that links the larger root to the smaller, so the root of a component is its smallest id.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Buckets, Numbers, Words
from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.rows import sort
from gpulsh.backends.cpu.threads import SCRATCH, Threads, ranges_of_size
from gpulsh.backends.cpu.vectors import leading_zeros, lowest_bit, mix64
from gpulsh.backends.hashing import place_keys
from gpulsh.params import BandShape
from gpulsh.ragged import offsets, row_ranges

CHUNK_DOCUMENTS = 4096
PARTITION_DOCUMENTS = 1 << 16  # up to which one partition takes the digests in place
PARTITION_BITS = 14  # log2 of the average digests of one of several partitions: 512 KB with their ids, twice
DIGESTS_AT_ONCE = 1 << 18  # counted or scattered by one thread
CELL = 24  # digests from which a cell is sorted by Shell's method
CHUNK_NEIGHBOURS = 1 << 18
WORDS_A_NEIGHBOUR = 16  # words of bits up to which neighbours are read from them rather than sorted

_U = np.uint64
_ZERO, _ONE, _LOW, _GOLDEN = _U(0), _U(1), _U(63), _U(protocol.GOLDEN)
_NO_DIGEST, _INSTEAD = _U(protocol.NO_DIGEST), _U(protocol.INSTEAD_OF_NO_DIGEST)


@kernel
def _band_digests(signatures, no_value, rows, keys, digests):
    for document in range(signatures.shape[0]):
        signature = signatures[document]
        empty = True
        for value in signature:
            if value != no_value:
                empty = False
                break
        for band in range(digests.shape[1]):
            digest = _U(band + 1) * _GOLDEN
            for place in range(rows):
                digest += keys[place] * _U(signature[band * rows + place])
            digest = mix64(digest)
            if digest == _NO_DIGEST:
                digest = _INSTEAD
            digests[document, band] = _NO_DIGEST if empty else digest


def band_digests(threads: Threads, signatures: NDArray[np.unsignedinteger], shape: BandShape) -> Words:
    signatures = np.ascontiguousarray(signatures)
    digests = np.empty((len(signatures), shape.bands), np.uint64)
    keys, no_value = place_keys(protocol.STREAM_BAND, shape.rows), ~signatures.dtype.type(0)
    threads.map(
        lambda start, stop: _band_digests(signatures[start:stop], no_value, shape.rows, keys, digests[start:stop]),
        ranges_of_size(len(signatures), CHUNK_DOCUMENTS),
    )
    return digests


@kernel
def _count_partitions(digests, shift, counts):
    for digest in digests:
        if digest != _NO_DIGEST:
            counts[np.int64(digest >> shift)] += 1


@kernel
def _scatter_digests(digests, ids, shift, places, to_digests, to_ids):
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

    All digests agree in their upper `skip` bits. The rest is room: `once` and `twice` uint64 [2^b], sixteen bits a
    digest, `cells` int64 [2^c + 1], one a digest, `kept`, `kept_ids` and `ordered` [n]. A kernel that allocates takes
    longer to compile.
    """
    shift = leading_zeros(_U(64 * once.size - 1))  # that leaves the bits of a place's number
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
    shift = leading_zeros(_U(max(count, 2) - 1))
    bits = 64 - np.int64(shift)
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
                for i in range(last - first):  # never to a later place
                    members[used + i] = members[first + i]
                sizes[buckets] = last - first
                used += last - first
                buckets += 1
            first = last
        begin = end
    return used, buckets


def collisions(threads: Threads, digests: Words, ids: Numbers) -> Buckets:
    if len(ids) > 1 and not bool((ids[1:] > ids[:-1]).all()):
        order = np.argsort(ids, kind="stable")
        digests, ids = digests[order], ids[order]
    digests, ids = np.ascontiguousarray(digests), np.ascontiguousarray(ids)
    partitions, ends = 1, np.array([len(ids)])
    if len(ids) > PARTITION_DOCUMENTS:
        partitions = 1 << max(1, len(ids).bit_length() - PARTITION_BITS)
        digests, ids, ends = _partitioned(digests, ids, partitions, threads)
    skip = _U(partitions.bit_length() - 1)

    def work(partition: int, _: int) -> tuple[Numbers, Numbers]:
        begin, end = (int(ends[partition - 1]) if partition else 0), int(ends[partition])
        count = end - begin
        digits = max(1, (count - 1).bit_length())
        once, twice = (SCRATCH.take(name, 1 << max(digits - 2, 0)) for name in ("once", "twice"))
        cells = SCRATCH.take("cells", (1 << digits) + 1).view(np.int64)
        kept, ordered = SCRATCH.take("kept", count), SCRATCH.take("ordered", count)
        kept_ids, members, sizes = (SCRATCH.take(name, count).view(np.int64) for name in ("ids", "members", "sizes"))
        given = digests[begin:end], ids[begin:end]
        for array in given:  # one type for the kernel, writable or not
            array.flags.writeable = False
        used, buckets = _collisions(*given, skip, once, twice, cells, kept, kept_ids, ordered, members, sizes)
        return members[:used].copy(), sizes[:buckets].copy()

    parts = threads.map(work, ranges_of_size(partitions, 1))
    offset = np.concatenate([np.zeros(1, np.int64), *(sizes for _, sizes in parts)])
    return Buckets(np.concatenate([members for members, _ in parts]), np.cumsum(offset))


def _partitioned(digests: Words, ids: Numbers, partitions: int, threads: Threads) -> tuple[Words, Numbers, Numbers]:
    """All digests except *no digest*, by partition, in order within each; and where each partition ends."""
    chunks, shift = ranges_of_size(len(ids), DIGESTS_AT_ONCE), _U(65 - partitions.bit_length())
    counts = np.zeros((len(chunks), partitions), np.int64)
    threads.map(
        lambda start, stop: _count_partitions(digests[start:stop], shift, counts[start // DIGESTS_AT_ONCE]), chunks
    )
    # Chunk after chunk within a partition, partition after partition.
    ends = np.cumsum(counts.T.reshape(-1))
    places = np.ascontiguousarray((ends - counts.T.reshape(-1)).reshape(partitions, -1).T)
    to_digests, to_ids = np.empty(int(ends[-1]), np.uint64), np.empty(int(ends[-1]), np.int64)

    def scatter(start: int, stop: int) -> None:
        chunk = slice(start, stop)
        _scatter_digests(digests[chunk], ids[chunk], shift, places[start // DIGESTS_AT_ONCE], to_digests, to_ids)

    threads.map(scatter, chunks)
    return to_digests, to_ids, ends[len(chunks) - 1 :: len(chunks)]


@kernel
def _positions(ids, offset, row_offset, filled, positions, ends, neighbours):
    """For each document its places in `ids`, the end of the bucket there, and how many neighbours follow it."""
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
    """Later neighbours of documents [start, stop), ascending, each once; how many of each. `bits` stays zero."""
    written = 0
    for document in range(start, stop):
        begin, own, its_bit = written, document >> 6, _ONE << (_U(document) & _LOW)
        bits[own] = its_bit  # a document is not its own neighbour
        for row in range(row_offset[document], row_offset[document + 1]):
            p = positions[row]
            for q in range(p + 1, ends[p]):
                other = ids[q]
                word = other >> 6
                before = bits[word]
                bits[word] = before | _ONE << (_U(other) & _LOW)
                found[written] = other
                written += bits[word] != before
        bits[own] ^= its_bit
        counts[document - start] = written - begin
        first, last = bits.size, -1
        for i in range(begin, written):
            first, last = min(first, found[i] >> 6), max(last, found[i] >> 6)
        if last - first < WORDS_A_NEIGHBOUR * (written - begin):  # reading the bits gives them in order
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
        if written - begin > 1:
            sort(found[begin:written])
    return written


def candidates(threads: Threads, buckets: Buckets, first: tuple[int, int] | None = None) -> Numbers:
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

    def work(start: int, stop: int) -> tuple[Numbers, Numbers]:
        found = np.empty(int(neighbours[stop] - neighbours[start]), np.int64)
        counts = np.empty(stop - start, np.int64)
        bits = np.zeros(count // 64 + 1, np.uint64)
        written = _pairs(start, stop, ids, row_offset, positions, ends, bits, found, counts)
        return counts, found[:written]

    chunks = list(row_ranges(neighbours[begin : end + 1], max(CHUNK_NEIGHBOURS, 4 * count)))
    parts = threads.map(work, [(begin + start, begin + stop) for start, stop in chunks])
    places = offsets([len(found) for _, found in parts])
    pairs = np.empty((places[-1], 2), np.int64)

    def fill(number: int, _: int) -> None:
        (start, stop), (counts, found), part = chunks[number], parts[number], slice(*places[number : number + 2])
        pairs[part, 0], pairs[part, 1] = np.repeat(np.arange(begin + start, begin + stop), counts), found

    threads.map(fill, ranges_of_size(len(chunks), 1))
    return pairs if known is None else known[pairs]


@kernel
def _components(pairs, labels):
    for pair in range(pairs.shape[0]):
        i, j = pairs[pair, 0], pairs[pair, 1]
        while labels[i] != i:
            labels[i] = labels[labels[i]]
            i = labels[i]
        while labels[j] != j:
            labels[j] = labels[labels[j]]
            j = labels[j]
        labels[max(i, j)] = min(i, j)
    for i in range(labels.size):  # a parent is smaller, so it has its final label already
        labels[i] = labels[labels[i]]


def components(count: int, pairs: Numbers) -> Numbers:
    labels = np.arange(count, dtype=np.int64)
    _components(np.ascontiguousarray(pairs), labels)
    return labels
