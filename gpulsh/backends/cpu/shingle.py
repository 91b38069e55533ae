"""shingle and exact_hashes: one Numba kernel from UTF-8 to token hashes, fingerprints and exact hashes.

A word pass looks at 64 bytes at a time: two vector comparisons give a bit mask of ASCII word characters, token bounds
are its edges, and a token's hash is one vector product a piece of 8 characters, so that no branch is taken a byte.
Only a block with a non-ASCII character that belongs to a token is read code point by code point. Everything a cached
kernel calls stands in this file, because Numba's cache does not see changes elsewhere.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends import protocol
from gpulsh.backends.cpu.chunks import Scratch, Threads, by_weight, joined
from gpulsh.backends.cpu.unique import unique_rows
from gpulsh.backends.unicode_table import SEPARATOR, SINGLE, unicode_table
from gpulsh.params import Shingling

CHUNK_BYTES = 1 << 18  # text, tokens and fingerprints of a chunk stay in the second-level cache
KEYS = 64  # token places whose keys lie in a table; longer tokens compute theirs
BLOCK = 64  # bytes a mask
ROOM = BLOCK + 8  # bytes that may be read from a block's start on

_U = np.uint64
_MIX_1, _MIX_2 = _U(protocol.MIX_1), _U(protocol.MIX_2)
_GOLDEN, _LENGTH, _EXACT_2 = _U(protocol.GOLDEN), _U(protocol.LENGTH), _U(protocol.EXACT_2)
_STREAM_TOKEN = _U(protocol.STREAM_TOKEN)
_ZERO, _ONE, _S27, _S33, _S63 = _U(0), _U(1), _U(27), _U(33), _U(63)
_SPACE = _U(0x20)
_scratch = Scratch()

TILE = 512  # shingles of one document that are made together
_INVALID = 0x110000  # stands for a byte that is in no well-formed sequence

_i1, _i8, _i64 = ir.IntType(1), ir.IntType(8), ir.IntType(64)
_bytes64 = ir.VectorType(_i8, 64)


def _load(builder: Any, address: Any, kind: ir.Type) -> Any:
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 1
    return value


@intrinsic
def _word_mask(typing_context: Any, address: Any) -> Any:
    """Bit i: byte i of 64 is an ASCII letter or digit."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def all_of(byte: int) -> Any:
            return ir.Constant(_bytes64, [byte] * 64)

        text = _load(builder, arguments[0], _bytes64)
        letter = builder.sub(builder.or_(text, all_of(0x20)), all_of(ord("a")))
        digit = builder.sub(text, all_of(ord("0")))
        word = builder.or_(
            builder.icmp_unsigned("<", letter, all_of(26)), builder.icmp_unsigned("<", digit, all_of(10))
        )
        return builder.bitcast(word, _i64)

    return types.uint64(types.int64), generate


@intrinsic
def _high_mask(typing_context: Any, address: Any) -> Any:
    """Bit i: byte i of 64 is not ASCII."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        text = _load(builder, arguments[0], _bytes64)
        return builder.bitcast(builder.icmp_signed("<", text, ir.Constant(_bytes64, [0] * 64)), _i64)

    return types.uint64(types.int64), generate


@intrinsic
def _byte(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(_load(builder, arguments[0], _i8), _i64)

    return types.int64(types.int64), generate


@intrinsic
def _lowest_bit(typing_context: Any, mask: Any) -> Any:
    """The place of the lowest set bit of a mask that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(_i1, 1))

    return types.int64(types.uint64), generate


@intrinsic
def _ascii_terms(typing_context: Any, address: Any, length: Any, keys: Any) -> Any:
    """Sum of keys[i] * folded byte i over the first `length` of 8 ASCII letters and digits; 1 <= length <= 8."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.VectorType(_i64, 8)
        text = _load(builder, arguments[0], _i64)
        lower = builder.or_(text, ir.Constant(_i64, 0x2020202020202020))  # letters fold, digits have the bit
        unused = builder.sub(ir.Constant(_i64, 64), builder.shl(arguments[1], ir.Constant(_i64, 3)))
        lower = builder.and_(lower, builder.lshr(ir.Constant(_i64, 0xFFFFFFFFFFFFFFFF), unused))
        places = builder.zext(builder.bitcast(lower, ir.VectorType(_i8, 8)), wide)
        products = builder.mul(places, _load(builder, arguments[2], wide))
        add = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_i64, [wide]), "llvm.vector.reduce.add.v8i64"
        )
        return builder.call(add, [products])

    return types.uint64(types.int64, types.int64, types.int64), generate


@njit(inline="always")
def _mix64(x):
    x ^= x >> _S27
    x *= _MIX_1
    x ^= x >> _S33
    x *= _MIX_2
    return x ^ (x >> _S27)


@njit(inline="always")
def _key(place, keys):
    if place < KEYS:
        return keys[place]
    return _mix64(_STREAM_TOKEN + _U(place + 1) * _GOLDEN) | _ONE


@njit
def _decode(text, at, stop):
    """(code point, bytes) of the well-formed sequence at `at`, or (_INVALID, 1)."""
    lead = _byte(text + at)
    if lead < 0x80:
        return lead, 1
    if lead < 0xE0:
        if lead >= 0xC2 and at + 1 < stop:
            second = _byte(text + at + 1)
            if second & 0xC0 == 0x80:
                return (lead & 0x1F) << 6 | second & 0x3F, 2
        return _INVALID, 1
    if lead < 0xF0:
        if at + 2 < stop:
            second, third = _byte(text + at + 1), _byte(text + at + 2)
            point = (lead & 0x0F) << 12 | (second & 0x3F) << 6 | third & 0x3F
            if second & 0xC0 == 0x80 and third & 0xC0 == 0x80 and point >= 0x800 and point >> 11 != 0x1B:
                return point, 3
        return _INVALID, 1
    if lead < 0xF5 and at + 3 < stop:
        second, third, fourth = _byte(text + at + 1), _byte(text + at + 2), _byte(text + at + 3)
        point = (lead & 0x07) << 18 | (second & 0x3F) << 12 | (third & 0x3F) << 6 | fourth & 0x3F
        valid = second & 0xC0 == 0x80 and third & 0xC0 == 0x80 and fourth & 0xC0 == 0x80
        if valid and 0x10000 <= point <= 0x10FFFF:
            return point, 4
    return _INVALID, 1


@njit(inline="always")
def _entry(point, stage1, stage2):
    if point == _INVALID:
        return np.int64(SEPARATOR)
    return np.int64(stage2[np.int64(stage1[point >> 7]) << 7 | point & 127])


@njit
def _ascii_token(text, start, stop, keys, keys_address):
    """The sum of one token of ASCII letters and digits, its length mixed in."""
    length = stop - start
    total = _U(length) * _LENGTH + _ascii_terms(text + start, min(length, 8), keys_address)
    whole = min(length, KEYS)
    at = 8
    while at < whole:
        total += _ascii_terms(text + start + at, min(whole - at, 8), keys_address + 8 * at)
        at += 8
    for place in range(KEYS, length):
        byte = _byte(text + start + place)
        total += _key(place, keys) * _U(byte | 0x20)
    return total


@njit
def _words_by_code_point(text, at, stop, until, stage1, stage2, keys, sums, count):
    """Tokens from a token boundary on, up to the first separator at or behind `until`."""
    total, place = _ZERO, 0
    while at < stop:
        point, size = _decode(text, at, stop)
        entry = _entry(point, stage1, stage2)
        klass = entry & 3
        if klass == 1:
            total += _key(place, keys) * _U(point + (entry >> 2))
            place += 1
        else:
            if place > 0:
                sums[count] = total + _U(place) * _LENGTH
                count += 1
                total, place = _ZERO, 0
            if klass == SINGLE:
                sums[count] = keys[0] * _U(point + (entry >> 2)) + _LENGTH
                count += 1
            elif at >= until:
                return at, count
        at += size
    if place > 0:
        sums[count] = total + _U(place) * _LENGTH
        count += 1
    return at, count


@njit
def _belongs_to_token(text, at, high, stop, stage1, stage2):
    """Whether one of the non-ASCII characters that `high` marks in the block at `at` is part of a token."""
    while high != _ZERO:
        bit = _lowest_bit(high)
        point, size = _decode(text, at + bit, stop)
        if _entry(point, stage1, stage2) & 3 != SEPARATOR:
            return True
        high &= ~(((_ONE << _U(size)) - _ONE) << _U(bit))
    return False


@njit
def _words(text, stop, room, stage1, stage2, keys, keys_address, sums):
    """Sums of all word tokens of one document of `stop` bytes; `room` bytes may be read."""
    at, start, count = 0, 0, 0
    inside = _ZERO  # 1 while a token is open at the block's start; it began at `start`
    while at < stop:
        if at + ROOM > room:
            first = start if inside != _ZERO else at
            at, count = _words_by_code_point(text, first, stop, stop, stage1, stage2, keys, sums, count)
            inside = _ZERO
            continue
        word, high = _word_mask(text + at), _high_mask(text + at)
        if at + BLOCK > stop:
            valid = (_ONE << _U(stop - at)) - _ONE
            word, high = word & valid, high & valid
        if high != _ZERO and _belongs_to_token(text, at, high, stop, stage1, stage2):
            first = start if inside != _ZERO else at
            # Going on a while behind this block spares scripts other than Latin most changes of pace.
            at, count = _words_by_code_point(text, first, stop, at + BLOCK, stage1, stage2, keys, sums, count)
            inside = _ZERO
            continue
        before = word << _ONE | inside
        starts, ends = word & ~before, before & ~word
        while True:
            if inside == _ZERO:
                if starts == _ZERO:
                    break
                start = at + _lowest_bit(starts)
                starts &= starts - _ONE
                inside = _ONE
            if ends == _ZERO:
                break
            length = at + _lowest_bit(ends) - start
            if length <= 8:  # nearly every word, so it is spared a call
                sums[count] = _ascii_terms(text + start, length, keys_address) + _U(length) * _LENGTH
            else:
                sums[count] = _ascii_token(text, start, start + length, keys, keys_address)
            count += 1
            ends &= ends - _ONE
            inside = _ZERO
        at += BLOCK
    if inside != _ZERO:
        sums[count] = _ascii_token(text, start, stop, keys, keys_address)
        count += 1
    return count


@njit
def _characters(text, stop, stage1, stage2, keys, sums):
    """Sums of all char tokens of one document."""
    at, count = 0, 0
    gap = False
    while at < stop:
        point, size = _decode(text, at, stop)
        at += size
        entry = _entry(point, stage1, stage2)
        if entry & 3 == SEPARATOR:
            gap = True
            continue
        if gap and count > 0:
            sums[count] = keys[0] * _SPACE + _LENGTH
            count += 1
        sums[count] = keys[0] * _U(point + (entry >> 2)) + _LENGTH
        count += 1
        gap = False
    return count


@njit
def _exact_hash(tokens, count):
    one, two = _U(count) * _LENGTH, _U(count) * _LENGTH
    for i in range(count):
        mixed = _mix64(tokens[i] + _U(i + 1) * _GOLDEN)
        one += mixed
        two += _mix64(mixed ^ _EXACT_2)
    return _mix64(one), _mix64(two)


@njit
def _shingles(tokens, count, size, keys, out):
    """Fingerprints of a document of one token or more; place after place, so that each loop is a vector loop."""
    used = min(size, count)
    shingles = count - used + 1
    length = _U(used) * _LENGTH
    for begin in range(0, shingles, TILE):  # a tile stays in the first-level cache over all places
        # Slices, because Numba guards an index that it cannot see to be positive, and then builds no vector loop.
        tile = out[begin : min(begin + TILE, shingles)]
        tile[:] = length
        for place in range(used):
            key = keys[place]
            here = tokens[begin + place : begin + place + tile.size]
            for i in range(tile.size):
                tile[i] += key * here[i]
        for i in range(tile.size):
            tile[i] = _mix64(tile[i])
    return shingles


@njit(nogil=True, cache=True, error_model="numpy")
def _documents(
    address, room, offset, words, size, stage1, stage2, keys, keys_address, shingle_keys, tokens, values, ends, exact
):
    """All documents of a chunk: fingerprints end to end, their end positions, and exact hashes."""
    written = 0
    for document in range(offset.size - 1):
        begin, end = offset[document], offset[document + 1]
        text, stop = address + begin, end - begin
        if words:
            count = _words(text, stop, room - begin, stage1, stage2, keys, keys_address, tokens)
        else:
            count = _characters(text, stop, stage1, stage2, keys, tokens)
        for i in range(count):
            tokens[i] = _mix64(tokens[i])
        if exact.size > 0:
            exact[document, 0], exact[document, 1] = _exact_hash(tokens, count) if count > 0 else (_ZERO, _ZERO)
        if count > 0:
            written += _shingles(tokens, count, size, shingle_keys, values[written:])
        ends[document] = written


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ x >> _S27) * _MIX_1
    x = (x ^ x >> _S33) * _MIX_2
    return x ^ x >> _S27


@cache
def place_keys(stream: int, count: int) -> NDArray[np.uint64]:
    """key(stream, place) for the first `count` places."""
    places = np.arange(1, count + 1, dtype=np.uint64)
    return _mixed(places * _GOLDEN + np.full(count, stream, np.uint64)) | _ONE


def shingle_rows(
    text: TextBatch, start: int, stop: int, shingling: Shingling, *, exact_too: bool = False
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint64]]:
    """Documents [start, stop): fingerprints, end positions [documents], exact hashes [documents, 2] (or [0, 2]).

    The fingerprints lie in the thread's scratch memory, until its next call.
    """
    offset = np.ascontiguousarray(text.offset[start : stop + 1])
    words = shingling.unit == "word"
    # A word or a single needs two bytes with what separates it (singles have three), a character one.
    lengths = np.diff(offset) // 2 + 1 if words else np.diff(offset)
    table = unicode_table()
    keys = place_keys(protocol.STREAM_TOKEN, KEYS)
    if len(lengths) == 1 and lengths[0] > Scratch.KEPT:
        # A giant's fingerprints take the place of its tokens, a tile behind, so that none is written over unread.
        values = np.empty(int(lengths[0]) + TILE, np.uint64)
        tokens = values[TILE:]
    else:
        tokens = _scratch.take("tokens", int(lengths.max(initial=0)))
        values = _scratch.take("values", int(lengths.sum()))
    ends = np.empty(stop - start, np.int64)
    exact = np.empty((stop - start if exact_too else 0, 2), np.uint64)
    _documents(
        text.values.ctypes.data,
        len(text.values),
        offset,
        words,
        shingling.size,
        table.stage1,
        table.stage2,
        keys,
        keys.ctypes.data,
        place_keys(protocol.STREAM_SHINGLE, shingling.size),
        tokens,
        values,
        ends,
        exact,
    )
    return values[: ends[-1] if len(ends) else 0], ends, exact


def shingle(text: TextBatch, shingling: Shingling, threads: Threads) -> Fingerprints:
    chunks = by_weight(text.offset, CHUNK_BYTES)

    def work(start: int, stop: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        values, ends, _ = shingle_rows(text, start, stop, shingling)
        return values.copy(), ends

    return joined(chunks, threads.map(work, chunks), threads)


def shingle_sets(text: TextBatch, shingling: Shingling, threads: Threads) -> Fingerprints:
    chunks = by_weight(text.offset, CHUNK_BYTES)

    def work(start: int, stop: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        values, ends, _ = shingle_rows(text, start, stop, shingling)
        return unique_rows(values, np.concatenate([[0], ends]))

    return joined(chunks, threads.map(work, chunks), threads)


def exact_hashes(text: TextBatch, shingling: Shingling, threads: Threads) -> NDArray[np.uint64]:
    parts = threads.map(
        lambda start, stop: shingle_rows(text, start, stop, shingling, exact_too=True)[2],
        by_weight(text.offset, CHUNK_BYTES),
    )
    return np.concatenate([np.empty((0, 2), np.uint64), *parts])
