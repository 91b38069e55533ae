"""sha1: sixteen texts in the lanes of a vector, a block of each at a time.

The standard library hashes one text a call, of which most is the call where texts are tokens.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu.chunks import Threads, by_weight
from gpulsh.backends.cpu.kernel import inlined, kernel
from gpulsh.backends.cpu.lowered import lowered
from gpulsh.backends.cpu.vectors import I32, I64, all_of, byte, load, store

LANES = 16
CHUNK_BYTES = 1 << 16
BLOCK = 64  # bytes
TAIL = 8  # of the last block, with the length in bits
START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
ADDENDS = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)  # of twenty rounds each

_U, _U32 = np.uint64, np.uint32
_START = np.array(START, np.uint32)
_END = _U32(0x80)
_S8, _S24, _S29, _S32, _S3 = _U32(8), _U32(24), _U(29), _U(32), _U(3)

_lanes = ir.VectorType(I32, LANES)


def _rotated(builder: ir.IRBuilder, word: ir.Value, left: int) -> ir.Value:
    return builder.or_(builder.shl(word, all_of(left, _lanes)), builder.lshr(word, all_of(32 - left, _lanes)))


def _chosen(builder: ir.IRBuilder, twenty: int, b: ir.Value, c: ir.Value, d: ir.Value) -> ir.Value:
    if twenty == 0:
        return builder.xor(d, builder.and_(b, builder.xor(c, d)))
    if twenty == 2:
        return builder.or_(builder.and_(b, c), builder.and_(d, builder.or_(b, c)))
    return builder.xor(builder.xor(b, c), d)


@lowered(types.void(types.int64, types.int64))
def _add_block(builder: ir.IRBuilder, words_at: ir.Value, state_at: ir.Value) -> None:
    """Add 16 words, each of LANES texts, to their 5 words of state: the rounds of FIPS 180-4, section 6.1."""

    def at(place: ir.Value, number: int) -> ir.Value:
        return builder.add(place, ir.Constant(I64, 4 * LANES * number))

    words = [load(builder, at(words_at, i), _lanes) for i in range(16)]
    before = [load(builder, at(state_at, i), _lanes) for i in range(5)]
    a, b, c, d, e = before
    for number in range(80):
        if number >= 16:
            mixed = builder.xor(builder.xor(words[-3], words[-8]), builder.xor(words[-14], words[-16]))
            words.append(_rotated(builder, mixed, 1))
        added = builder.add(_chosen(builder, number // 20, b, c, d), all_of(ADDENDS[number // 20], _lanes))
        added = builder.add(builder.add(added, e), builder.add(words[number], _rotated(builder, a, 5)))
        a, b, c, d, e = added, a, _rotated(builder, b, 30), c, d
    for number, (old, new) in enumerate(zip(before, (a, b, c, d, e), strict=True)):
        store(builder, builder.add(old, new), at(state_at, number))


@lowered(types.uint32(types.int64))
def _big_endian(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """The word of 32 bits at an address, its first byte the highest."""
    return builder.bswap(load(builder, address, I32))


@inlined
def _swapped(word):
    """The bytes of a word of 32 bits in the other order; Numba shifts it as one of 64."""
    return _U32((word << _S24) | ((word & _U32(0xFF00)) << _S8) | ((word >> _S8) & _U32(0xFF00)) | (word >> _S24))


@kernel
def _heads(values, offset, words, state, heads):
    """`words` [16, LANES] and `state` [5, LANES], uint32, are room."""
    rows = offset.size - 1
    for first in range(0, rows, LANES):
        count, most = min(LANES, rows - first), 0
        for row in range(first, first + count):
            most = max(most, offset[row + 1] - offset[row])
        for i in range(5):
            for lane in range(LANES):
                state[i, lane] = _START[i]
        for start in range(0, most + TAIL + 1, BLOCK):
            for i in range(16):
                for lane in range(LANES):
                    words[i, lane] = _U32(0)
            for lane in range(count):
                begin, length = offset[first + lane], offset[first + lane + 1] - offset[first + lane]
                left = min(length - start, BLOCK)
                at = values.ctypes.data + begin + start
                for i in range(left >> 2):
                    words[i, lane] = _big_endian(at + 4 * i)
                if 0 <= left < BLOCK:
                    word = _U32(0)
                    for i in range(left & ~3, left):
                        word = word << _S8 | _U32(byte(at + i))
                    word = word << _S8 | _END
                    words[left >> 2, lane] = word << _U32(8 * (3 - (left & 3)))
                if length + TAIL < start + BLOCK:
                    words[14, lane] = _U32(_U(length) >> _S29)
                    words[15, lane] = _U32(_U(length) << _S3)
            _add_block(words.ctypes.data, state.ctypes.data)
            for lane in range(count):
                length = offset[first + lane + 1] - offset[first + lane]
                if start <= length + TAIL < start + BLOCK:
                    head = _U(_swapped(state[0, lane])) | _U(_swapped(state[1, lane])) << _S32
                    heads[first + lane] = head


def sha1(threads: Threads, text: TextBatch) -> NDArray[np.uint64]:
    values, offset = np.ascontiguousarray(text.values), np.ascontiguousarray(text.offset)
    heads = np.empty(len(text), np.uint64)

    def work(start: int, stop: int) -> None:
        words, state = np.empty((16, LANES), np.uint32), np.empty((5, LANES), np.uint32)
        _heads(values, offset[start : stop + 1], words, state, heads[start:stop])

    threads.map(work, by_weight(offset + np.arange(len(offset)) * 8, CHUNK_BYTES))
    return heads
