"""bitmaps and overlap_bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.cpu.chunks import Threads, by_count, by_weight

CHUNK_SHINGLES = 1 << 18
CHUNK_PAIRS = 1 << 15
WORDS = 16

_U = np.uint64
_BIT, _WORD_BITS, _ONE = np.uint64(54), np.uint64(63), np.uint64(1)


@intrinsic
def _ones(typing_context: Any, word: Any) -> Any:
    """How many bits are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(64)
        count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(wide, [wide]), "llvm.ctpop.i64")
        return builder.call(count, [arguments[0]])

    return types.int64(types.uint64), generate


@njit(nogil=True, cache=True, error_model="numpy")
def _bitmaps(values, offset, out):
    for row in range(offset.size - 1):
        bits = out[row]
        bits[:] = _U(0)
        for value in values[offset[row] : offset[row + 1]]:
            bit = value >> _BIT
            bits[np.int64(bit >> _U(6))] |= _ONE << (bit & _WORD_BITS)


@njit(nogil=True, cache=True, error_model="numpy")
def _overlap_bounds(pairs, bitmaps, spare, out):
    for pair in range(pairs.shape[0]):
        i, j = pairs[pair, 0], pairs[pair, 1]
        left, right = bitmaps[i], bitmaps[j]
        common = np.int64(0)
        for word in range(WORDS):
            common += _ones(left[word] & right[word])
        out[pair] = common + min(spare[i], spare[j])


@njit(nogil=True, cache=True, error_model="numpy")
def _spare(bitmaps, sizes, out):
    for row in range(bitmaps.shape[0]):
        bits = np.int64(0)
        for word in range(WORDS):
            bits += _ones(bitmaps[row, word])
        out[row] = sizes[row] - bits


def bitmaps(fingerprints: Fingerprints, threads: Threads) -> NDArray[np.uint64]:
    values, offset = np.ascontiguousarray(fingerprints.values), np.ascontiguousarray(fingerprints.offset)
    out = np.empty((len(fingerprints), WORDS), np.uint64)
    threads.map(
        lambda start, stop: _bitmaps(values, offset[start : stop + 1], out[start:stop]),
        by_weight(offset, CHUNK_SHINGLES),
    )
    return out


def overlap_bounds(
    pairs: NDArray[np.int64], bitmaps: NDArray[np.uint64], sizes: NDArray[np.int64], threads: Threads
) -> NDArray[np.int64]:
    pairs = np.ascontiguousarray(pairs)
    spare, bounds = np.empty(len(bitmaps), np.int64), np.empty(len(pairs), np.int64)
    _spare(bitmaps, sizes, spare)
    threads.map(
        lambda start, stop: _overlap_bounds(pairs[start:stop], bitmaps, spare, bounds[start:stop]),
        by_count(len(pairs), CHUNK_PAIRS),
    )
    return bounds
