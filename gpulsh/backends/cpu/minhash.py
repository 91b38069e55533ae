"""minhash: eight functions at a time over a tile of shingles, the shingle loop innermost.

The inner loop is a multiply, an add and a minimum a lane, and eight running minima a register; a tile lies in the
first-level cache for all functions. It is padded with a repeat, which changes no minimum, so no loop has a tail.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.cpu.chunks import Threads, by_weight
from gpulsh.permutations import Coefficients

CHUNK_SHINGLES = 1 << 16
TILE = 2048  # shingles, 8 KB
LANES = 16  # the padding of a tile: 32-bit lanes of the widest vectors
TOGETHER = 8  # functions a pass

_U32 = np.uint32
_NO_VALUE = np.uint32(0xFFFFFFFF)
_UPPER = np.uint64(32)


@njit(nogil=True, cache=True, error_model="numpy")
def _minhash(values, offset, multiplier, addend, signatures):
    tile = np.empty(TILE + LANES, np.uint32)
    minima = np.empty(multiplier.size, np.uint32)
    for document in range(offset.size - 1):
        begin, end = offset[document], offset[document + 1]
        minima[:] = _NO_VALUE
        for first in range(begin, end, TILE):
            source = values[first : min(first + TILE, end)]
            count = source.size
            for i in range(count):
                tile[i] = _U32(source[i] >> _UPPER)
            padded = (count + LANES - 1) // LANES * LANES
            for i in range(count, padded):
                tile[i] = tile[0]
            for k in range(0, multiplier.size, TOGETHER):
                a0, a1, a2, a3 = multiplier[k], multiplier[k + 1], multiplier[k + 2], multiplier[k + 3]
                a4, a5, a6, a7 = multiplier[k + 4], multiplier[k + 5], multiplier[k + 6], multiplier[k + 7]
                b0, b1, b2, b3 = addend[k], addend[k + 1], addend[k + 2], addend[k + 3]
                b4, b5, b6, b7 = addend[k + 4], addend[k + 5], addend[k + 6], addend[k + 7]
                m0, m1, m2, m3 = minima[k], minima[k + 1], minima[k + 2], minima[k + 3]
                m4, m5, m6, m7 = minima[k + 4], minima[k + 5], minima[k + 6], minima[k + 7]
                for i in range(padded):
                    x = tile[i]
                    m0 = min(m0, _U32(a0 * x + b0))
                    m1 = min(m1, _U32(a1 * x + b1))
                    m2 = min(m2, _U32(a2 * x + b2))
                    m3 = min(m3, _U32(a3 * x + b3))
                    m4 = min(m4, _U32(a4 * x + b4))
                    m5 = min(m5, _U32(a5 * x + b5))
                    m6 = min(m6, _U32(a6 * x + b6))
                    m7 = min(m7, _U32(a7 * x + b7))
                minima[k], minima[k + 1], minima[k + 2], minima[k + 3] = m0, m1, m2, m3
                minima[k + 4], minima[k + 5], minima[k + 6], minima[k + 7] = m4, m5, m6, m7
        signatures[document] = minima[: signatures.shape[1]]


def minhash_rows(
    values: NDArray[np.uint64], offset: NDArray[np.int64], coefficients: Coefficients, out: NDArray[np.uint32]
) -> None:
    """Signatures of the rows `offset` [n + 1] of `values`, into `out` [n, num_perm]."""
    multiplier, addend = coefficients
    if len(multiplier) % TOGETHER:
        spare = -len(multiplier) % TOGETHER
        multiplier, addend = np.pad(multiplier, (0, spare), constant_values=1), np.pad(addend, (0, spare))
    _minhash(values, offset, multiplier, addend, out)


def minhash(fingerprints: Fingerprints, coefficients: Coefficients, threads: Threads) -> NDArray[np.uint32]:
    signatures = np.empty((len(fingerprints), len(coefficients.multiplier)), np.uint32)
    values, offset = np.ascontiguousarray(fingerprints.values), np.ascontiguousarray(fingerprints.offset)
    threads.map(
        lambda start, stop: minhash_rows(values, offset[start : stop + 1], coefficients, signatures[start:stop]),
        by_weight(offset, CHUNK_SHINGLES),
    )
    return signatures
