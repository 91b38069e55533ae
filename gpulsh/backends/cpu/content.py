"""A keyed hash of content as it stands, byte for byte: what two readings of one file are compared by.

NH of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway 1999): of 64-bit words whose halves, each plus a key modulo 2^32,
are multiplied, the sum modulo 2^64. Two different blocks have the same sum under at most one in 2^32 keys; each block
is summed twice, under keys of four places farther on, so at most one in 2^64. Whoever does not know the keys cannot
look for two that do. CRC-32 is about as fast and can be forged; SHA-256 and BLAKE2b took 5 % of a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from gpulsh.backends.cpu.kernel import kernel

BLOCK = 1024  # bytes that are summed together
SHIFT = 16  # bytes of keys that the second sum is behind the first
KEY_BYTES = BLOCK + SHIFT

_STEP = 64
_U = np.uint64
_i32, _i64 = ir.IntType(32), ir.IntType(64)
_halves, _words = ir.VectorType(_i32, 16), ir.VectorType(_i64, 8)


def _loaded(builder: Any, address: Any, step: int) -> Any:
    place = builder.add(address, ir.Constant(_i64, _STEP * step))
    value = builder.load(builder.inttoptr(place, _halves.as_pointer()))
    value.align = 1
    return value


def _sum_of(steps: int) -> Any:
    """A sum over so many steps of 64 bytes, at any addresses."""

    @intrinsic
    def summed(typing_context: Any, address: Any, keys: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            low, half = ir.Constant(_words, [0xFFFFFFFF] * 8), ir.Constant(_words, [32] * 8)
            total = ir.Constant(_words, [0] * 8)
            for step in range(steps):
                both = builder.add(*(_loaded(builder, place, step) for place in arguments))
                words = builder.bitcast(both, _words)
                total = builder.add(total, builder.mul(builder.and_(words, low), builder.lshr(words, half)))
            add = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(_i64, [_words]), "llvm.vector.reduce.add.v8i64"
            )
            return builder.call(add, [total])

        return types.uint64(types.int64, types.int64), generate

    return summed


_step_sum, _block_sum = _sum_of(1), _sum_of(BLOCK // _STEP)


@kernel
def _sums(values, offset, keys, out):
    data, first = values.ctypes.data, keys.ctypes.data
    second = first + SHIFT
    last = np.empty(_STEP, np.uint8)
    filled = last.ctypes.data
    block = 0
    for row in range(offset.size - 1):
        start, stop = offset[row], offset[row + 1]
        while True:
            size = min(stop - start, BLOCK)
            place = data + start
            if size == BLOCK:
                one, two = _block_sum(place, first), _block_sum(place, second)
            else:
                one, two, at = _U(0), _U(0), 0
                while size - at >= _STEP:
                    one += _step_sum(place + at, first + at)
                    two += _step_sum(place + at, second + at)
                    at += _STEP
                if at < size:
                    last[:] = 0
                    for i in range(size - at):  # a slice would have Numba compile how it tells of lengths that differ
                        last[i] = values[start + at + i]
                    one += _step_sum(filled, first + at)
                    two += _step_sum(filled, second + at)
            # What is left of the row tells zeros at its end from nothing, and where rows begin.
            out[block, 0], out[block, 1] = one + _U(stop - start), two
            block += 1
            start += size
            if start >= stop:
                break
    return last[0]  # which must not be freed before


def content_sums(values: NDArray[np.uint8], offset: NDArray[np.int64], keys: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """uint8 [blocks * 16]: the sums of each block of rows `values[offset[i] : offset[i + 1]]`, of at least one a row.

    `keys` are KEY_BYTES of a secret. A block holds at most BLOCK bytes of one row.
    """
    blocks = int(np.maximum(-(-np.diff(offset) // BLOCK), 1).sum())
    out = np.empty((blocks, 2), np.uint64)
    _sums(_alike(values), _alike(offset), keys, out)
    return out.reshape(-1).view(np.uint8)


def _alike(values: NDArray[Any]) -> NDArray[Any]:
    """The same as a compiler of array types knows it."""
    seen = np.ascontiguousarray(values).view()
    seen.flags.writeable = False
    return seen
