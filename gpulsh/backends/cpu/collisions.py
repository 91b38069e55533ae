"""collisions: digests are uniform, so one distribution by their upper bits all but sorts them."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpulsh.arrays import Buckets
from gpulsh.backends import protocol

CELL = 24

_U = np.uint64
_NO_DIGEST = np.uint64(protocol.NO_DIGEST)


@njit(nogil=True, cache=True, error_model="numpy")
def _collisions(digests, ids, members, offset):
    """Fill `members` [n] and `offset` [n // 2 + 1] from digests with ascending ids; (members, buckets) used."""
    count = digests.size
    bits = 1
    while (1 << bits) < count:
        bits += 1
    shift = _U(64 - bits)
    cells = np.zeros((1 << bits) + 1, np.int64)
    for digest in digests:
        cells[np.int64(digest >> shift) + 1] += 1
    for cell in range(1 << bits):
        cells[cell + 1] += cells[cell]
    sorted_digests = np.empty(count, np.uint64)
    sorted_ids = np.empty(count, np.int64)
    for i in range(count):  # stable, so ids ascend among equal digests
        cell = np.int64(digests[i] >> shift)
        sorted_digests[cells[cell]] = digests[i]
        sorted_ids[cells[cell]] = ids[i]
        cells[cell] += 1
    used, buckets, begin = 0, 0, 0
    offset[0] = 0
    for cell in range(1 << bits):
        end = cells[cell]
        if end - begin > CELL:
            order = np.argsort(sorted_digests[begin:end], kind="mergesort")
            sorted_ids[begin:end] = sorted_ids[begin:end][order]
            sorted_digests[begin:end] = sorted_digests[begin:end][order]
        else:
            for i in range(begin + 1, end):
                digest, document, j = sorted_digests[i], sorted_ids[i], i
                while j > begin and sorted_digests[j - 1] > digest:
                    sorted_digests[j], sorted_ids[j] = sorted_digests[j - 1], sorted_ids[j - 1]
                    j -= 1
                sorted_digests[j], sorted_ids[j] = digest, document
        first = begin
        while first < end:
            last = first + 1
            while last < end and sorted_digests[last] == sorted_digests[first]:
                last += 1
            if last - first > 1 and sorted_digests[first] != _NO_DIGEST:
                members[used : used + last - first] = sorted_ids[first:last]
                used += last - first
                buckets += 1
                offset[buckets] = used
            first = last
        begin = end
    return used, buckets


def collisions(digests: NDArray[np.uint64], ids: NDArray[np.int64]) -> Buckets:
    if len(ids) > 1 and not bool((ids[1:] > ids[:-1]).all()):
        order = np.argsort(ids, kind="stable")
        digests, ids = digests[order], ids[order]
    members = np.empty(len(digests), np.int64)
    offset = np.empty(len(digests) // 2 + 1, np.int64)
    used, buckets = _collisions(np.ascontiguousarray(digests), np.ascontiguousarray(ids), members, offset)
    return Buckets(members[:used].copy(), offset[: buckets + 1].copy())
