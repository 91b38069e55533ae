"""bitmaps and overlap_bounds: a flipped bit a fingerprint, and a population count a word of a pair."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.cpu.chunks import Threads, by_count, by_weight
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.vectors import ones

CHUNK_SHINGLES = 1 << 18
CHUNK_PAIRS = 1 << 15
_U = np.uint64
_WORD_BITS, _ONE = np.uint64(63), np.uint64(1)


@kernel
def _bitmaps(values, offset, shift, out):
    for row in range(offset.size - 1):
        bits = out[row]
        bits[:] = _U(0)
        for value in values[offset[row] : offset[row + 1]]:
            bit = value >> shift
            bits[np.int64(bit >> _U(6))] ^= _ONE << (bit & _WORD_BITS)


@kernel
def _overlap_bounds(pairs, bitmaps, sizes, out):
    for pair in range(pairs.shape[0]):
        i, j = pairs[pair, 0], pairs[pair, 1]
        left, right = bitmaps[i], bitmaps[j]
        apart = np.int64(0)
        for word in range(bitmaps.shape[1]):
            apart += ones(left[word] ^ right[word])
        out[pair] = min(sizes[i], sizes[j], (sizes[i] + sizes[j] - apart) >> 1)


def bitmaps(threads: Threads, fingerprints: Fingerprints, words: int = 16) -> NDArray[np.uint64]:
    rows = fingerprints.moved(np.ascontiguousarray)
    out, shift = np.empty((len(rows), words), np.uint64), _U(65 - (64 * words).bit_length())
    threads.map(
        lambda start, stop: _bitmaps(rows.values, rows.offset[start : stop + 1], shift, out[start:stop]),
        by_weight(rows.offset, CHUNK_SHINGLES),
    )
    return out


def overlap_bounds(
    threads: Threads, pairs: NDArray[np.int64], bitmaps: NDArray[np.uint64], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    pairs, bitmaps, sizes = np.ascontiguousarray(pairs), np.ascontiguousarray(bitmaps), np.ascontiguousarray(sizes)
    bounds = np.empty(len(pairs), np.int64)
    threads.map(
        lambda start, stop: _overlap_bounds(pairs[start:stop], bitmaps, sizes, bounds[start:stop]),
        by_count(len(pairs), CHUNK_PAIRS),
    )
    return bounds
