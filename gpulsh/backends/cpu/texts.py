"""Bytes of texts: gather, sha1, and byte strings of Python as texts.

gather copies memory, without a Python object a text. sha1 hashes sixteen texts in a vector's lanes: the standard
library hashes one text a call, and for tokens most of its time goes into calls. A kernel reads Python's byte strings
with functions of the C API's stable ABI: a loop in Python would take longer than to hash them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.vectors import I8, I32, I64, all_of, copy, everywhere, load, lowered, store
from gpulsh.errors import InputTypeError, ParameterError
from gpulsh.ragged import offsets


@kernel
def copy_rows(source, begin, target, offset):
    """Copies the bytes from address `source + begin[i]` on to `target + offset[i]`, up to `offset[i + 1]`."""
    for row in range(begin.size):
        copy(source + begin[row], target + offset[row], offset[row + 1] - offset[row])


def gather(values: NDArray[np.uint8], begin: Numbers, end: Numbers) -> TextBatch:
    values, begin, offset = np.ascontiguousarray(values), np.ascontiguousarray(begin), offsets(end - begin)
    if len(begin) and (int(begin.min()) < 0 or int(end.max()) > len(values) or bool((begin > end).any())):
        raise ParameterError(f"texts begin or end outside [0, {len(values)}]; give where each begins and ends in it")
    copied = np.empty(int(offset[-1]), np.uint8)
    copy_rows(values.ctypes.data, begin, copied.ctypes.data, offset)
    copied.flags.writeable = False  # as all texts are, which are of one type to the kernels
    return TextBatch(copied, offset)


TOKEN_BYTES = 64  # room a token at first; sets of longer tokens are copied twice
LANES = 16  # texts, and as many words are a block
BLOCK_SIZE = 64  # bytes
TAIL = 8  # of the last block, with the length in bits
START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
ADDENDS = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)  # of twenty rounds each

ROOM = LANES + len(START), LANES  # of 32-bit words, what `_heads` works in

_START = np.array(START, np.uint32)

_lanes, _bytes = ir.VectorType(I32, LANES), ir.VectorType(I8, BLOCK_SIZE)


def _swapped(builder: ir.IRBuilder, words: ir.Value) -> ir.Value:
    """Words of 32 bits with their bytes in the other order."""
    pieces, order = (
        builder.bitcast(words, _bytes),
        ir.Constant(ir.VectorType(I32, BLOCK_SIZE), [i ^ 3 for i in range(BLOCK_SIZE)]),
    )
    return builder.bitcast(builder.shuffle_vector(pieces, pieces, order), _lanes)


@lowered(types.void(types.int64, types.int64, types.int64, types.int64))
def _put_block(builder: ir.IRBuilder, text_at: ir.Value, left: ir.Value, bits: ir.Value, block_at: ir.Value) -> None:
    """Store 16 words: of the bytes at an address the first `left`, then the mark, then `bits` in the last two."""
    end, places = everywhere(builder, builder.trunc(left, I8), _bytes), ir.Constant(_bytes, list(range(BLOCK_SIZE)))
    mark = builder.select(builder.icmp_signed("==", places, end), all_of(0x80, _bytes), all_of(0, _bytes))
    text = builder.select(builder.icmp_signed("<", places, end), load(builder, text_at, _bytes), mark)
    ends = all_of(0, _lanes)
    for place, half in ((14, builder.lshr(bits, ir.Constant(I64, 32))), (15, bits)):
        ends = builder.insert_element(ends, builder.trunc(half, I32), ir.Constant(I32, place))
    store(builder, builder.or_(_swapped(builder, text), ends), block_at)


def _turned(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square of words. Each vector is a row."""
    for step in (8, 4, 2, 1):
        for i in range(LANES):
            if i & step == 0:  # the squares of `step` words beside the diagonal change places
                pair, own = (rows[i], rows[i + step]), [j if j & step == 0 else j - step + LANES for j in range(LANES)]
                for row, skip in ((i, 0), (i + step, step)):
                    rows[row] = builder.shuffle_vector(*pair, ir.Constant(_lanes, [j + skip for j in own]))
    return rows


def _rotated(builder: ir.IRBuilder, word: ir.Value, left: int) -> ir.Value:
    return builder.or_(builder.shl(word, all_of(left, _lanes)), builder.lshr(word, all_of(32 - left, _lanes)))


def _chosen(builder: ir.IRBuilder, twenty: int, b: ir.Value, c: ir.Value, d: ir.Value) -> ir.Value:
    if twenty == 0:
        return builder.xor(d, builder.and_(b, builder.xor(c, d)))
    if twenty == 2:
        return builder.or_(builder.and_(b, c), builder.and_(d, builder.or_(b, c)))
    return builder.xor(builder.xor(b, c), d)


@lowered(types.void(types.int64, types.int64))
def _add_blocks(builder: ir.IRBuilder, blocks_at: ir.Value, state_at: ir.Value) -> None:
    """Add a block of each of LANES texts to their 5 words of state: the rounds of FIPS 180-4, section 6.1."""

    def at(place: ir.Value, number: int) -> ir.Value:
        return builder.add(place, ir.Constant(I64, 4 * LANES * number))

    words = _turned(builder, [load(builder, at(blocks_at, lane), _lanes) for lane in range(LANES)])
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


@lowered(types.uint64(types.uint32, types.uint32))
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


def sha1(text: TextBatch) -> NDArray[np.uint64]:
    """uint64 [n]: the first 64 bits of each text's SHA-1 (FIPS 180-4), as a little-endian number."""
    values, offset = np.ascontiguousarray(text.values), np.ascontiguousarray(text.offset)
    heads, edge = np.empty(len(text), np.uint64), np.zeros(2 * BLOCK_SIZE, np.uint8)
    last = values[-BLOCK_SIZE:]
    edge[BLOCK_SIZE - len(last) : BLOCK_SIZE] = last
    _heads(values, offset, edge, np.empty(ROOM, np.uint32), heads)
    return heads


_length = types.ExternalFunction("PyList_Size", types.intp(types.intp))
_item = types.ExternalFunction("PyList_GetItem", types.intp(types.intp, types.intp))
_size = types.ExternalFunction("PyBytes_Size", types.intp(types.intp))
_text = types.ExternalFunction("PyBytes_AsString", types.intp(types.intp))  # 0 of an object of another type
_forget_error = types.ExternalFunction("PyErr_Clear", types.void())


@partial(kernel, nogil=False)
def _taken(sets, values, offset, begins):
    """The bytes of all tokens, copied into `values` as far as it has room. `sets` is the address of a list of lists.

    -1 if a token is not of `bytes`, or another thread has changed their number.
    """
    token, filled = 0, 0
    for number in range(begins.size - 1):
        one = _item(sets, number)
        count = _length(one)
        if token + count >= offset.size:
            return -1
        for place in range(count):
            held = _item(one, place)
            text = _text(held)
            if text == 0:
                _forget_error()
                return -1
            size = _size(held)
            if filled + size <= values.size:
                copy(text, values.ctypes.data + filled, size)
            filled += size
            token += 1
            offset[token] = filled
        begins[number + 1] = token
    return filled if token == offset.size - 1 else -1


def texts_of(sets: list[list[Any]]) -> tuple[TextBatch, Numbers]:
    """The bytes of every token, and where each of the `sets` begins: int64 [sets + 1].

    A token is of `bytes`, or of a type with their buffer. Raises InputTypeError for others.

    >>> texts, begins = texts_of([[b"a", bytearray(b"bc")], []])
    >>> texts.values.tobytes(), texts.offset.tolist(), begins.tolist()
    (b'abc', [0, 1, 3], [0, 2, 2])
    """
    tokens = sum(map(len, sets))
    values, offset = np.empty(TOKEN_BYTES * tokens, np.uint8), np.zeros(tokens + 1, np.int64)
    begins = np.zeros(len(sets) + 1, np.int64)
    while (size := _taken(id(sets), values, offset, begins)) > len(values):
        values = np.empty(size, np.uint8)
    if size < 0:
        return texts_of([[_as_bytes(token) for token in tokens] for tokens in sets])
    return TextBatch(values[:size], offset), begins


def _as_bytes(token: Any) -> bytes:
    try:
        return bytes(memoryview(token))
    except TypeError:
        raise InputTypeError(f"tokens hold a {type(token).__name__}; give bytes") from None
