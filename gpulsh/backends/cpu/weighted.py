"""occurrences and weighted_overlap: sorted rows, and pairs of rows merged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, WeightedFingerprints
from gpulsh.backends.cpu.chunks import Threads, by_count, by_weight
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.unique import unique

CHUNK_SHINGLES = 1 << 16
CHUNK_PAIRS = 2048


@kernel
def _count(values, offset, unique_values, unique_offset, weight):
    """Each value is found among its row's distinct ones by halving."""
    for row in range(offset.size - 1):
        begin, end = unique_offset[row], unique_offset[row + 1]
        for i in range(offset[row], offset[row + 1]):
            low, high = begin, end
            while high - low > 1:
                middle = (low + high) >> 1
                if unique_values[middle] <= values[i]:
                    low = middle
                else:
                    high = middle
            weight[low] += 1.0


def occurrences(fingerprints: Fingerprints, threads: Threads) -> WeightedFingerprints:
    values, offset = np.ascontiguousarray(fingerprints.values), np.ascontiguousarray(fingerprints.offset)
    rows = unique(threads, Fingerprints(values, offset))
    weight = np.zeros(len(rows.values))
    threads.map(
        lambda start, stop: _count(
            values, offset[start : stop + 1], rows.values, rows.offset[start : stop + 1], weight
        ),
        by_weight(offset, CHUNK_SHINGLES),
    )
    return WeightedFingerprints(rows.values, weight, rows.offset)


@kernel
def _overlap(pairs, values, weight, offset, share, least, greatest):
    """`share` float64 [2] is 0 and 1; LLVM would make a branch of a product with a truth value, save for AVX-512."""
    for pair in range(pairs.shape[0]):
        i, i_end = offset[pairs[pair, 0]], offset[pairs[pair, 0] + 1]
        j, j_end = offset[pairs[pair, 1]], offset[pairs[pair, 1] + 1]
        low, high = 0.0, 0.0
        while i < i_end and j < j_end:
            a, b = values[i], values[j]
            # No branch: a processor cannot guess which is less.
            x, y = weight[i] * share[np.uint64(a <= b)], weight[j] * share[np.uint64(b <= a)]
            low += min(x, y)
            high += max(x, y)
            i += a <= b
            j += b <= a
        for rest in range(i, i_end):
            high += weight[rest]
        for rest in range(j, j_end):
            high += weight[rest]
        least[pair], greatest[pair] = low, high


def weighted_overlap(
    pairs: NDArray[np.int64], rows: WeightedFingerprints, threads: Threads
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    pairs, least, greatest = np.ascontiguousarray(pairs), np.empty(len(pairs)), np.empty(len(pairs))
    values, weight = np.ascontiguousarray(rows.values), np.ascontiguousarray(rows.weight)
    offset, share = np.ascontiguousarray(rows.offset), np.array([0.0, 1.0])
    threads.map(
        lambda start, stop: _overlap(
            pairs[start:stop], values, weight, offset, share, least[start:stop], greatest[start:stop]
        ),
        by_count(len(pairs), CHUNK_PAIRS),
    )
    return least, greatest
