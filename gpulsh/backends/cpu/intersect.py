"""intersect: sorted rows compared eight values by eight, all 64 comparisons at once, where bit sets do not pay."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.cpu.bitsets import shared_by_bits
from gpulsh.backends.cpu.chunks import Threads, by_count
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.lowered import lowered
from gpulsh.backends.cpu.vectors import I8, I32, I64, LANES, load

CHUNK_PAIRS = 2048


@lowered(types.int64(types.int64, types.int64))
def _matches(builder: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    """How many of the 8 values at address `left` are among the 8 at `right`; values are distinct on each side."""
    sides = [load(builder, address) for address in (left, right)]
    found = builder.icmp_unsigned("==", sides[0], sides[1])
    for turn in range(1, LANES):
        places = ir.Constant(ir.VectorType(I32, LANES), [(i + turn) % LANES for i in range(LANES)])
        turned = builder.shuffle_vector(sides[1], sides[1], places)
        found = builder.or_(found, builder.icmp_unsigned("==", sides[0], turned))
    count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(I8, [I8]), "llvm.ctpop.i8")
    return builder.zext(builder.call(count, [builder.bitcast(found, I8)]), I64)


@kernel
def _intersections(pairs, values, address, offset, out):
    for pair in range(pairs.shape[0]):
        i, i_end = offset[pairs[pair, 0]], offset[pairs[pair, 0] + 1]
        j, j_end = offset[pairs[pair, 1]], offset[pairs[pair, 1] + 1]
        found = np.int64(0)
        while i + LANES <= i_end and j + LANES <= j_end:
            found += _matches(address + 8 * i, address + 8 * j)
            last_i, last_j = values[i + LANES - 1], values[j + LANES - 1]
            i += LANES * (last_i <= last_j)
            j += LANES * (last_j <= last_i)
        while i < i_end and j < j_end:
            a, b = values[i], values[j]
            found += a == b
            i += a <= b
            j += b <= a
        out[pair] = found


def intersect(
    threads: Threads, pairs: NDArray[np.int64], fingerprints: Fingerprints
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    pairs = np.ascontiguousarray(pairs)
    rows = fingerprints.moved(np.ascontiguousarray)
    sizes = rows.lengths
    chosen, shared = shared_by_bits(pairs, rows, threads)
    if len(chosen):
        both = np.empty(len(pairs), np.int64)
        both[chosen] = shared
        left = np.ones(len(pairs), bool)
        left[chosen] = False
        both[left] = _compared(pairs.compress(left, axis=0), rows, threads)
    else:
        both = _compared(pairs, rows, threads)
    return both, sizes[pairs[:, 0]] + sizes[pairs[:, 1]] - both


def _compared(pairs: NDArray[np.int64], rows: Fingerprints, threads: Threads) -> NDArray[np.int64]:
    both, (values, offset) = np.empty(len(pairs), np.int64), (rows.values, rows.offset)
    threads.map(
        lambda start, stop: _intersections(pairs[start:stop], values, values.ctypes.data, offset, both[start:stop]),
        by_count(len(pairs), CHUNK_PAIRS),
    )
    return both
