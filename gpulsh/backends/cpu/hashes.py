"""Hashes of texts: SipHash-2-4 with 128 bits (Aumasson, Bernstein 2012), and SHA-1; and Bloom filters of hashes.

sha1 hashes sixteen texts in a vector's lanes: the standard library hashes one text per call, and for tokens most of its
time goes into calls. Filters are filled and queried in one pass; `gpulsh.index.filters` describes their contents.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from gpulsh.arrays import TextBatch, Words
from gpulsh.backends.cpu.kernel import kernel, subroutine
from gpulsh.backends.cpu.vectors import I8, I32, I64, broadcast, get_word, llvm, load, prefetch, put_word, splat, store
from gpulsh.backends.protocol import GOLDEN

LANES = 16  # texts at once; a block has as many words
BLOCK_SIZE = 64  # bytes
TAIL = 8  # of the last block, with the length in bits
START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
ADDENDS = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)  # of twenty rounds each

ROOM = LANES + len(START), LANES  # working memory of `_heads`, in 32-bit words

_START = np.array(START, np.uint32)

_lanes, _bytes = ir.VectorType(I32, LANES), ir.VectorType(I8, BLOCK_SIZE)

_V0, _V1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_V2, _V3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
_FIRST, _SECOND, _ZERO = np.uint64(0xEE), np.uint64(0xDD), np.uint64(0)
_8, _13, _16, _17, _21, _32 = (np.uint64(bits) for bits in (8, 13, 16, 17, 21, 32))
_43, _47, _48, _51, _56 = (np.uint64(bits) for bits in (43, 47, 48, 51, 56))


@subroutine
def _round(v0, v1, v2, v3):
    v0 += v1
    v2 += v3
    v1 = ((v1 << _13) | (v1 >> _51)) ^ v0
    v3 = ((v3 << _16) | (v3 >> _48)) ^ v2
    v0 = (v0 << _32) | (v0 >> _32)
    v2 += v1
    v0 += v3
    v1 = ((v1 << _17) | (v1 >> _47)) ^ v2
    v3 = ((v3 << _21) | (v3 >> _43)) ^ v0
    v2 = (v2 << _32) | (v2 >> _32)
    return v0, v1, v2, v3


@kernel
def hash_rows(values, offset, key_0, key_1, hashes):
    for row in range(offset.size - 1):
        at, stop = offset[row], offset[row + 1]
        v0, v1 = _V0 ^ key_0, _V1 ^ key_1 ^ _FIRST
        v2, v3 = _V2 ^ key_0, _V3 ^ key_1
        last = np.uint64(stop - at) << _56
        while at + 8 <= stop:
            word = get_word(values.ctypes.data + at)
            v3 ^= word
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= word
            at += 8
        shift = _ZERO
        for place in range(at, stop):
            last |= np.uint64(values[place]) << shift
            shift += _8
        v3 ^= last
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= last
        v2 ^= _FIRST
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        hashes[row, 0] = v0 ^ v1 ^ v2 ^ v3
        v1 ^= _SECOND
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        hashes[row, 1] = v0 ^ v1 ^ v2 ^ v3


def _swap_bytes(builder: ir.IRBuilder, words: ir.Value) -> ir.Value:
    """Words of 32 bits with their bytes in the other order."""
    pieces, order = (
        builder.bitcast(words, _bytes),
        ir.Constant(ir.VectorType(I32, BLOCK_SIZE), [i ^ 3 for i in range(BLOCK_SIZE)]),
    )
    return builder.bitcast(builder.shuffle_vector(pieces, pieces, order), _lanes)


@llvm(types.void(types.int64, types.int64, types.int64, types.int64))
def _put_block(builder: ir.IRBuilder, text_at: ir.Value, left: ir.Value, bits: ir.Value, block_at: ir.Value) -> None:
    """Store 16 words: of the bytes at an address the first `left`, then the mark, then `bits` in the last two."""
    end, places = broadcast(builder, builder.trunc(left, I8), _bytes), ir.Constant(_bytes, list(range(BLOCK_SIZE)))
    mark = builder.select(builder.icmp_signed("==", places, end), splat(0x80, _bytes), splat(0, _bytes))
    text = builder.select(builder.icmp_signed("<", places, end), load(builder, text_at, _bytes), mark)
    ends = splat(0, _lanes)
    for place, half in ((14, builder.lshr(bits, ir.Constant(I64, 32))), (15, bits)):
        ends = builder.insert_element(ends, builder.trunc(half, I32), ir.Constant(I32, place))
    store(builder, builder.or_(_swap_bytes(builder, text), ends), block_at)


def _transpose(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square of words. Each vector is a row."""
    for step in (8, 4, 2, 1):
        for i in range(LANES):
            if i & step == 0:  # swap the squares of `step` words next to the diagonal
                pair, own = (rows[i], rows[i + step]), [j if j & step == 0 else j - step + LANES for j in range(LANES)]
                for row, skip in ((i, 0), (i + step, step)):
                    rows[row] = builder.shuffle_vector(*pair, ir.Constant(_lanes, [j + skip for j in own]))
    return rows


def _rotate(builder: ir.IRBuilder, word: ir.Value, left: int) -> ir.Value:
    return builder.or_(builder.shl(word, splat(left, _lanes)), builder.lshr(word, splat(32 - left, _lanes)))


def _chosen(builder: ir.IRBuilder, twenty: int, b: ir.Value, c: ir.Value, d: ir.Value) -> ir.Value:
    if twenty == 0:
        return builder.xor(d, builder.and_(b, builder.xor(c, d)))
    if twenty == 2:
        return builder.or_(builder.and_(b, c), builder.and_(d, builder.or_(b, c)))
    return builder.xor(builder.xor(b, c), d)


@llvm(types.void(types.int64, types.int64))
def _add_blocks(builder: ir.IRBuilder, blocks_at: ir.Value, state_at: ir.Value) -> None:
    """Add a block of each of LANES texts to their 5 words of state: the rounds of FIPS 180-4, section 6.1."""

    def at(place: ir.Value, number: int) -> ir.Value:
        return builder.add(place, ir.Constant(I64, 4 * LANES * number))

    words = _transpose(builder, [load(builder, at(blocks_at, lane), _lanes) for lane in range(LANES)])
    before = [load(builder, at(state_at, i), _lanes) for i in range(5)]
    a, b, c, d, e = before
    for number in range(80):
        if number >= 16:
            mixed = builder.xor(builder.xor(words[-3], words[-8]), builder.xor(words[-14], words[-16]))
            words.append(_rotate(builder, mixed, 1))
        added = builder.add(_chosen(builder, number // 20, b, c, d), splat(ADDENDS[number // 20], _lanes))
        added = builder.add(builder.add(added, e), builder.add(words[number], _rotate(builder, a, 5)))
        a, b, c, d, e = added, a, _rotate(builder, b, 30), c, d
    for number, (old, new) in enumerate(zip(before, (a, b, c, d, e), strict=True)):
        store(builder, builder.add(old, new), at(state_at, number))


@llvm(types.uint64(types.uint32, types.uint32))
def _head(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """The first bytes of a digest as a little-endian number, of its first words."""
    low, high = (builder.zext(builder.bswap(word), I64) for word in (first, second))
    return builder.or_(low, builder.shl(high, ir.Constant(I64, 32)))


@kernel
def _heads(values, offset, edge, room, heads):
    """Reads whole blocks: where `values` ends within one, of `edge`, whose first half is the end of `values`."""
    rows, all_at, blocks_at, state = offset.size - 1, values.ctypes.data, room.ctypes.data, room[LANES:]
    for first in range(0, rows, LANES):
        begins, found, most = offset[first : first + LANES + 1], heads[first : first + LANES], 0
        for lane in range(found.size):
            most = max(most, begins[lane + 1] - begins[lane])
        for i in range(5):
            for lane in range(LANES):
                state[i, lane] = _START[i]
        for start in range(0, most + TAIL + 1, BLOCK_SIZE):
            for lane in range(found.size):
                begin = begins[lane] + start
                left = begins[lane + 1] - begin
                at = all_at + begin
                if begin + BLOCK_SIZE > values.size:
                    at = edge.ctypes.data + BLOCK_SIZE + min(begin - values.size, 0)
                bits = 8 * (start + left) if left + TAIL < BLOCK_SIZE else 0
                _put_block(at, max(min(left, BLOCK_SIZE), -1), bits, blocks_at + BLOCK_SIZE * lane)
            _add_blocks(blocks_at, state.ctypes.data)
            for lane in range(found.size):
                length = begins[lane + 1] - begins[lane]
                if start <= length + TAIL < start + BLOCK_SIZE:
                    found[lane] = _head(state[0, lane], state[1, lane])


def sha1(text: TextBatch) -> Words:
    """uint64 [n]: the first 64 bits of each text's SHA-1 (FIPS 180-4), as a little-endian number."""
    values, offset = np.ascontiguousarray(text.values), np.ascontiguousarray(text.offset)
    heads, edge = np.empty(len(text), np.uint64), np.zeros(2 * BLOCK_SIZE, np.uint8)
    last = values[-BLOCK_SIZE:]
    edge[BLOCK_SIZE - len(last) : BLOCK_SIZE] = last
    _heads(values, offset, edge, np.empty(ROOM, np.uint32), heads)
    return heads


AHEAD = 64  # hashes whose words are prefetched

_U = np.uint64
_GOLDEN, _NONE, _ONE, _LOW, _HALF, _EVEN = _U(GOLDEN), _U(0), _U(1), _U(63), _U(32), _U(6)
_S3, _S6, _S12, _S13, _S16, _S18, _S40 = _U(3), _U(6), _U(12), _U(13), _U(16), _U(18), _U(40)


@subroutine
def _word(value, words):
    """The number of the word of a hash, in a filter of so many."""
    return (value >> _HALF) * words >> _HALF


@subroutine
def _four_bits(chosen):
    """A word in which four bits are set, each chosen by six."""
    low = _ONE << (chosen & _LOW) | _ONE << (chosen >> _S6 & _LOW)
    return low | _ONE << (chosen >> _S12 & _LOW) | _ONE << (chosen >> _S18 & _LOW)


@subroutine
def _marks(value, word, together):
    """The bits that a hash sets in its word, the number of its other word, and the bits there."""
    if not together:
        return _four_bits(value), word, _NONE
    chosen = value * _GOLDEN
    return _four_bits(chosen >> _S16), word ^ (chosen >> _S13 & _EVEN | _ONE), _four_bits(chosen >> _S40)


@kernel
def fill(words, values, together):
    """Put the hashes `values` into the filter `words`, which is not empty."""
    length = _U(words.size)
    for value in values:
        word = _word(value, length)
        own, other, there = _marks(value, word, together)
        words[word] |= own
        words[other] |= there


@kernel
def passing_places(words, values, start, stop, together, places):
    """The places of `values[start:stop]` that pass the filter `words`, which is not empty; how many they are."""
    length, count, last = _U(words.size), 0, values.ctypes.data + 8 * (stop - 1)
    base, out = words.ctypes.data, places.ctypes.data
    for place in range(start, stop):
        at = values.ctypes.data + 8 * place
        prefetch(base + np.int64(_word(get_word(min(at + 8 * AHEAD, last)), length) << _S3))
        value = get_word(at)
        word = _word(value, length)
        own, other, there = _marks(value, word, together)
        missing = own & ~get_word(base + np.int64(word << _S3)) | there & ~get_word(base + np.int64(other << _S3))
        put_word(out + 8 * count, _U(place))
        count += missing == _NONE
    return count
