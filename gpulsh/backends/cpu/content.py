"""A keyed hash of content as it stands, byte for byte: what two readings of one file are compared by.

NH of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway 1999): of 64-bit words whose halves, each plus a key modulo 2^32,
are multiplied, the sum modulo 2^64. Two different blocks have the same sum under at most one in 2^32 keys; each block
is summed twice, under keys of four places farther on, so at most one in 2^64. Whoever does not know the keys cannot
look for two that do. CRC-32 is about as fast and can be forged; SHA-256 and BLAKE2b took 5 % of a run.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numpy.typing import NDArray

from gpulsh.arrays import Values
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.lowered import lowered
from gpulsh.backends.cpu.vectors import I32, I64, WORDS, all_of, load, summed

BLOCK = 1024  # bytes that are summed together
SHIFT = 16  # bytes of keys that the second sum is behind the first
KEY_BYTES = BLOCK + SHIFT

_STEP = 64
_U = np.uint64
_halves = ir.VectorType(I32, 16)


@lowered(types.UniTuple(types.uint64, 2)(types.int64, types.int64, types.int64))
def _summed(builder: ir.IRBuilder, address: ir.Value, steps: ir.Value, keys: ir.Value) -> list[ir.Value]:
    """Both sums over `steps` times 64 bytes, at any addresses."""
    totals = [cgutils.alloca_once_value(builder, all_of(0)) for _ in range(2)]
    with cgutils.for_range(builder, steps) as step:
        skip = builder.mul(step.index, ir.Constant(I64, _STEP))
        content = load(builder, builder.add(address, skip), _halves)
        for number, total in enumerate(totals):
            key = load(builder, builder.add(keys, builder.add(skip, ir.Constant(I64, SHIFT * number))), _halves)
            both = builder.bitcast(builder.add(content, key), WORDS)
            product = builder.mul(builder.and_(both, all_of(0xFFFFFFFF)), builder.lshr(both, all_of(32)))
            builder.store(builder.add(builder.load(total), product), total)
    return [summed(builder, [builder.load(total)]) for total in totals]


@kernel
def _sums(values, data, offset, keys, last, filled, out):
    """`data`, `keys` and `filled` are where `values`, the keys and `last` uint8 [_STEP] lie."""
    block = 0
    for row in range(offset.size - 1):
        start, stop = offset[row], offset[row + 1]
        while True:
            size = min(stop - start, BLOCK)
            steps = size // _STEP
            one, two = _summed(data + start, steps, keys)
            at = steps * _STEP
            if at < size:
                for i in range(_STEP):
                    last[i] = 0
                for i in range(size - at):  # a slice would have Numba compile how it tells of lengths that differ
                    last[i] = values[start + at + i]
                more, other = _summed(filled, 1, keys + at)
                one, two = one + more, two + other
            # What is left of the row tells zeros at its end from nothing, and where rows begin.
            out[block, 0], out[block, 1] = one + _U(stop - start), two
            block += 1
            start += size
            if start >= stop:
                break


def content_sums(values: NDArray[np.uint8], offset: NDArray[np.int64], keys: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """uint8 [blocks * 16]: the sums of each block of rows `values[offset[i] : offset[i + 1]]`, of at least one a row.

    `keys` are KEY_BYTES of a secret. A block holds at most BLOCK bytes of one row.
    """
    blocks = int(np.maximum(-(-np.diff(offset) // BLOCK), 1).sum())
    out = np.empty((blocks, 2), np.uint64)
    values, last = _alike(values), np.empty(_STEP, np.uint8)
    _sums(values, values.ctypes.data, _alike(offset), keys.ctypes.data, last, last.ctypes.data, out)
    return out.reshape(-1).view(np.uint8)


def _alike(values: Values) -> Values:
    """Return the array as a type that is compiled already."""
    seen = np.ascontiguousarray(values).view()
    seen.flags.writeable = False
    return seen
