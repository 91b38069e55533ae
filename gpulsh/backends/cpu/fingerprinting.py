"""Numba kernels from UTF-8 to token hashes, fingerprints and exact hashes: of a chunk of documents, or of a piece.

Public hashes and evidence differ in the keys alone, which every kernel is given.

A word pass looks at 64 bytes at a time: two vector comparisons give a bit mask of ASCII word characters, token bounds
are its edges. The first 8 bytes of each word are kept, which are its packed token where it is no longer; a run of them
is summed by a vector loop with a word in each lane, and what goes on is added to those few, so that no branch depends
on the length of a word. Only a block with a non-ASCII character that belongs to a token is read code point by code
point. Loops take whole vectors, for which arrays have room behind their last word. Everything a cached kernel calls
stands in this file, because Numba's cache does not see changes elsewhere.
"""

from __future__ import annotations

from functools import cache, lru_cache, reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.unicode_table import SEPARATOR, SINGLE, WORD
from gpulsh.secret import (
    DIGITS,
    EXACT,
    EXACT_FAR,
    EXACT_PLACES,
    EXACT_SPREAD,
    LEVELS,
    LONGEST_SHINGLE,
    PLACES,
    SHINGLE,
    TOKEN_FAR,
    EvidenceKeys,
)

KEYS = PLACES  # token places whose keys lie in a table; longer tokens compute theirs. As many as a block has bytes
BITS = DIGITS.bit_length() - 1  # of a digit of a far place
DIGIT = DIGITS - 1
PUBLIC = TOKEN_FAR  # public keys are as many: places farther on compute theirs
BLOCK = 64  # bytes a mask
WIDE = 32  # bytes of a longer word that are summed at once
ROOM = BLOCK + WIDE  # bytes that may be read from a block's start on

_U = np.uint64
_MIX_1, _MIX_2 = _U(protocol.MIX_1), _U(protocol.MIX_2)
_GOLDEN, _LENGTH = _U(protocol.GOLDEN), _U(protocol.LENGTH)
_STREAM_TOKEN = _U(protocol.STREAM_TOKEN)
_ZERO, _ONE, _S27, _S33, _S63 = _U(0), _U(1), _U(27), _U(33), _U(63)
_SPACE, _BYTE = _U(0x20), _U(0xFF)

VECTORS = 32  # words of the vectors that a loop takes at once; so many may be written or read behind the last
RUN = 512  # words that are summed together
STEP = 4  # words that are looked for without a look at whether there are as many
AHEAD = 1024  # bytes that are asked for before they are read: other work between blocks misleads the processor
ROW = RUN + BLOCK + VECTORS
_START, _PLACE = _U(16), _U(0xFFFF)  # a word that goes on: where it starts above where it is in the run
TILE = 512  # shingles of one document that are made together
_INVALID = 0x110000  # stands for a byte that is in no well-formed sequence

_i1, _i8, _i32, _i64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_bytes64 = ir.VectorType(_i8, 64)


def _load(builder: Any, address: Any, kind: ir.Type) -> Any:
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 1
    return value


def _folded_ascii(builder: Any, address: Any, length: Any) -> Any:
    text = _load(builder, address, _i64)
    lower = builder.or_(text, ir.Constant(_i64, 0x2020202020202020))  # letters fold, digits have the bit
    unused = builder.sub(ir.Constant(_i64, 64), builder.shl(length, ir.Constant(_i64, 3)))
    return builder.and_(lower, builder.lshr(ir.Constant(_i64, 0xFFFFFFFFFFFFFFFF), unused))


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
def _put(typing_context: Any, address: Any, value: Any) -> Any:
    """Store a word at an address; an index into an array would cost a look at its sign."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        store = builder.store(arguments[1], builder.inttoptr(arguments[0], _i64.as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], _i64.as_pointer())

    return types.CPointer(types.uint64)(types.int64), generate


@njit(inline="always")
def _borrowed(words):
    """The same array without a count of its users, which each slice would raise and lower atomically."""
    return carray(_pointer(words.ctypes.data), words.size)


@intrinsic
def _ask(typing_context: Any, address: Any) -> Any:
    """Have what lies at an address, which need not be anybody's, brought to the cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_i8.as_pointer(), _i32, _i32, _i32])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        place = builder.inttoptr(arguments[0], _i8.as_pointer())
        builder.call(prefetch, [place, *(ir.Constant(_i32, number) for number in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def _lowest_bit(typing_context: Any, mask: Any) -> Any:
    """The place of the lowest set bit of a mask, 64 where there is none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(_i1, 0))

    return types.int64(types.uint64), generate


@intrinsic
def _ones(typing_context: Any, mask: Any) -> Any:
    """How many bits of a mask are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@intrinsic
def _ones_above(typing_context: Any, mask: Any) -> Any:
    """How many bits of a mask are set above its highest that is not."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(builder.not_(arguments[0]), ir.Constant(_i1, 0))

    return types.int64(types.uint64), generate


@intrinsic
def _ascii_terms(typing_context: Any, address: Any, length: Any, keys: Any) -> Any:
    """Sum of keys[i] * folded byte i over the first `length` of 8 ASCII letters and digits; 1 <= length <= 8."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.VectorType(_i64, 8)
        lower = _folded_ascii(builder, arguments[0], arguments[1])
        places = builder.zext(builder.bitcast(lower, ir.VectorType(_i8, 8)), wide)
        products = builder.mul(places, _load(builder, arguments[2], wide))
        add = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_i64, [wide]), "llvm.vector.reduce.add.v8i64"
        )
        return builder.call(add, [products])

    return types.uint64(types.int64, types.int64, types.int64), generate


def _folded_vector(builder: Any, address: Any, length: Any, size: int) -> Any:
    """The first `length` of `size` ASCII letters and digits, folded, in 64 bits each, 8 a vector, zeros behind."""
    kind = ir.VectorType(_i8, size)
    lower = builder.or_(_load(builder, address, kind), ir.Constant(kind, [0x20] * size))
    count = builder.insert_element(ir.Constant(kind, ir.Undefined), builder.trunc(length, _i8), ir.Constant(_i32, 0))
    counts = builder.shuffle_vector(count, count, ir.Constant(ir.VectorType(_i32, size), [0] * size))
    used = builder.icmp_unsigned("<", ir.Constant(kind, list(range(size))), counts)
    lower = builder.select(used, lower, ir.Constant(kind, [0] * size))
    for first in range(0, size, 8):
        places = ir.Constant(ir.VectorType(_i32, 8), list(range(first, first + 8)))
        yield builder.zext(builder.shuffle_vector(lower, lower, places), ir.VectorType(_i64, 8))


def _summed(builder: Any, vectors: Any) -> Any:
    kind = ir.VectorType(_i64, 8)
    total = reduce(builder.add, vectors)
    add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_i64, [kind]), "llvm.vector.reduce.add.v8i64")
    return builder.call(add, [total])


def _terms_of(size: int) -> Any:
    """Sum of keys[i] * folded byte i over the first `length` of `size` ASCII letters and digits."""

    @intrinsic
    def terms(typing_context: Any, address: Any, length: Any, keys: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            products = []
            for number, places in enumerate(_folded_vector(builder, arguments[0], arguments[1], size)):
                key = builder.add(arguments[2], ir.Constant(_i64, 64 * number))
                products.append(builder.mul(places, _load(builder, key, ir.VectorType(_i64, 8))))
            return _summed(builder, products)

        return types.uint64(types.int64, types.int64, types.int64), generate

    return terms


_wide_terms, _block_terms = _terms_of(WIDE), _terms_of(BLOCK)


@intrinsic
def _computed_terms(typing_context: Any, address: Any, length: Any, place: Any) -> Any:
    """The same of 64 under the public keys of the places from `place` on, which are computed."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(_i64, 8)

        def all_of(number: int) -> Any:
            return ir.Constant(kind, [number] * 8)

        def moved(x: Any, bits: int) -> Any:
            return builder.xor(x, builder.lshr(x, all_of(bits)))

        one = builder.insert_element(ir.Constant(kind, ir.Undefined), arguments[2], ir.Constant(_i32, 0))
        first = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_i32, 8), [0] * 8))
        products = []
        for number, places in enumerate(_folded_vector(builder, arguments[0], arguments[1], BLOCK)):
            x = builder.add(first, ir.Constant(kind, [8 * number + lane + 1 for lane in range(8)]))
            x = builder.add(builder.mul(x, all_of(protocol.GOLDEN)), all_of(protocol.STREAM_TOKEN))
            x = moved(builder.mul(moved(x, 27), all_of(protocol.MIX_1)), 33)
            x = moved(builder.mul(x, all_of(protocol.MIX_2)), 27)
            products.append(builder.mul(places, builder.or_(x, all_of(1))))
        return _summed(builder, products)

    return types.uint64(types.int64, types.int64, types.int64), generate


@intrinsic
def _packed_ascii(typing_context: Any, address: Any, length: Any) -> Any:
    """The first `length` of 8 ASCII letters and digits, folded, the first lowest, zeros behind; 1 <= length <= 8."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _folded_ascii(builder, arguments[0], arguments[1])

    return types.uint64(types.int64, types.int64), generate


@intrinsic
def _reversed_bytes(typing_context: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), generate


@njit(inline="always")
def _mix64(x):
    x ^= x >> _S27
    x *= _MIX_1
    x ^= x >> _S33
    x *= _MIX_2
    return x ^ (x >> _S27)


@njit(inline="always")
def _far(number, keys, far):
    """What the near secret keys are multiplied by, of the tables at `far`; 1 for the number 0."""
    low, middle, high = number & DIGIT, number >> BITS & DIGIT, number >> 2 * BITS
    return keys[far + low] * keys[far + DIGITS + middle] * keys[far + 2 * DIGITS + high]


@njit(inline="always")
def _key(place, keys):
    if place < KEYS:
        return keys[place]
    if keys.size == PUBLIC:
        return _mix64(_STREAM_TOKEN + _U(place + 1) * _GOLDEN) | _ONE
    return keys[place % KEYS] * _far(place // KEYS, keys, TOKEN_FAR)


@njit(inline="always")
def _packed(place, value, keys):
    """The share of a folded code point in its packed token."""
    if place < 8 and value < 0x80:
        return _U(value) << _U(8 * place)
    return _key(place, keys) * _U(value)


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
def _ascii_sum(text, start, end, keys, address):
    """The sum of one token of ASCII letters and digits, without its length; whole blocks may be read."""
    total = _block_terms(text + start, min(end - start, BLOCK), address)
    for place in range(BLOCK, end - start, BLOCK):
        at, size = text + start + place, min(end - start - place, BLOCK)
        if keys.size == PUBLIC:
            total += _computed_terms(at, size, place)
        else:
            total += _block_terms(at, size, address) * _far(place // KEYS, keys, TOKEN_FAR)
    return total


@njit
def _words_by_code_point(text, at, stop, until, stage1, stage2, keys, proof, sums, packed, count):
    """Tokens from a token boundary on, up to the first separator at or behind `until`."""
    total, pack, place = _ZERO, _ZERO, 0
    proves = packed.size > 0
    while at < stop:
        point, size = _decode(text, at, stop)
        entry = _entry(point, stage1, stage2)
        klass = entry & 3
        if klass == 1:
            value = point + (entry >> 2)
            total += _key(place, keys) * _U(value)
            if proves:
                pack += _packed(place, value, proof)
            place += 1
        else:
            if place > 0:
                sums[count] = total + _U(place) * _LENGTH
                if proves:
                    packed[count] = pack
                count += 1
                total, pack, place = _ZERO, _ZERO, 0
            if klass == SINGLE:
                value = point + (entry >> 2)
                sums[count] = keys[0] * _U(value) + _LENGTH
                if proves:
                    packed[count] = _packed(0, value, proof)
                count += 1
            elif at >= until:
                return at, count
        at += size
    if place > 0:
        sums[count] = total + _U(place) * _LENGTH
        if proves:
            packed[count] = pack
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


@njit(inline="always")
def _whole(count):
    """A count of words in whole vectors, for what a loop does one by one is many times as slow."""
    return (count + (VECTORS - 1)) & -VECTORS


@njit
def _long_end(text, at, stop, room):
    """Where a token of ASCII letters and digits that goes on at `at` ends; -1 where other characters may go on."""
    while at + ROOM <= room and at < stop:
        word = _word_mask(text + at)
        if at + BLOCK > stop:
            word &= (_ONE << _U(stop - at)) - _ONE
        if ~word != _ZERO:
            at += _lowest_bit(~word)
            return -1 if at < stop and _byte(text + at) >= 0x80 else at
        at += BLOCK
    return at if at == stop else -1


@njit
def _finish(text, keys, keys_address, proof, proof_address, sums, packed, count, found, heads, lengths, longer, long):
    """Add the sums of the words of `heads` [found] to the `count` before; `longer` [long] are those that go on.

    A vector loop with a word in each lane: the sum of keys[i] * byte i.
    """
    key_0, key_1, key_2, key_3 = keys[0], keys[1], keys[2], keys[3]
    key_4, key_5, key_6, key_7 = keys[4], keys[5], keys[6], keys[7]
    here = sums[count : count + _whole(found)]
    for i in range(here.size):
        head = heads[i]
        even = key_0 * (head & _BYTE) + key_2 * (head >> _U(16) & _BYTE)
        odd = key_1 * (head >> _U(8) & _BYTE) + key_3 * (head >> _U(24) & _BYTE)
        even += key_4 * (head >> _U(32) & _BYTE) + key_6 * (head >> _U(48) & _BYTE)
        odd += key_5 * (head >> _U(40) & _BYTE) + key_7 * (head >> _U(56))
        here[i] = even + odd + lengths[i] * _LENGTH
    proves = packed.size > 0
    if proves:
        there = packed[count : count + _whole(found)]
        for i in range(there.size):
            there[i] = heads[i]
    for i in range(long):
        place, start = np.int64(longer[i] & _PLACE), np.int64(longer[i] >> _START)
        length = np.int64(lengths[place])
        rest, size = text + start + 8, length - 8
        if size <= 8:
            sums[count + place] += _ascii_terms(rest, size, keys_address + 64)
            if proves:
                packed[count + place] += _ascii_terms(rest, size, proof_address + 64)
            continue
        for at in range(0, size, WIDE):
            sums[count + place] += _wide_terms(rest + at, size - at, keys_address + 64 + 8 * at)
            if proves:
                packed[count + place] += _wide_terms(rest + at, size - at, proof_address + 64 + 8 * at)
    return count + found


@njit
def _words(text, stop, room, stage1, stage2, keys, keys_address, proof, proof_address, sums, packed, run):
    """Sums of all word tokens of one document of `stop` bytes; `room` bytes may be read.

    The first 8 bytes of each word are kept, and its length, until there is a run of them.
    """
    heads, lengths, longer = run[:ROW], run[ROW : 2 * ROW], run[2 * ROW :]
    heads_address, lengths_address, longer_address = heads.ctypes.data, lengths.ctypes.data, longer.ctypes.data
    at, count = np.int64(0), np.int64(0)  # a literal has a type of its own, for which all below is compiled once more
    found, long = 0, 0
    while at < stop:  # no token is open at `at`
        by_code_point, until, end = at + ROOM > room, stop, -1
        word = _ZERO
        if not by_code_point:
            _ask(text + at + AHEAD)
            word, high = _word_mask(text + at), _high_mask(text + at)
            if at + BLOCK > stop:
                valid = (_ONE << _U(stop - at)) - _ONE
                word, high = word & valid, high & valid
            # Going on a while behind this block spares scripts other than Latin most changes of pace.
            until = at + BLOCK
            if ~word == _ZERO:
                end = _long_end(text, at + BLOCK, stop, room)
                by_code_point = end < 0
            elif high != _ZERO:
                by_code_point = _belongs_to_token(text, at, high, stop, stage1, stage2)
        if by_code_point or end >= 0 or found > RUN:
            count = _finish(
                *(text, keys, keys_address, proof, proof_address, sums, packed),
                *(count, found, heads, lengths, longer, long),
            )
            found, long = 0, 0
            if by_code_point:
                at, count = _words_by_code_point(
                    text, at, stop, until, stage1, stage2, keys, proof, sums, packed, count
                )
                continue
            if end >= 0:
                sums[count] = _ascii_sum(text, at, end, keys, keys_address) + _U(end - at) * _LENGTH
                if packed.size > 0:
                    head = _packed_ascii(text + at, 8) - _ascii_terms(text + at, 8, proof_address)
                    packed[count] = _ascii_sum(text, at, end, proof, proof_address) + head
                count += 1
                at = end
                continue
        before = word << _ONE
        starts, ends = word & ~before, before & ~word
        ended = _ones(ends)
        done = 0
        while done < ended:
            for _ in range(STEP):
                start = _lowest_bit(starts)
                length = _lowest_bit(ends) - start
                _put(heads_address + 8 * (found + done), _packed_ascii(text + at + start, min(length, 8)))
                _put(lengths_address + 8 * (found + done), _U(length))
                _put(longer_address + 8 * long, _U(at + start) << _START | _U(found + done))
                long += np.int64((length > 8) & (ends != _ZERO))
                starts &= starts - _ONE
                ends &= ends - _ONE
                done += 1
        found += ended
        at += BLOCK - _ones_above(word)
    return _finish(
        *(text, keys, keys_address, proof, proof_address, sums, packed),
        *(count, found, heads, lengths, longer, long),
    )


@njit
def _characters(text, stop, stage1, stage2, keys, proof, sums, packed, begun, gap):
    """Sums of char tokens, and whether separators stand behind the last; `begun` and `gap`: tokens and those before."""
    at, count = np.int64(0), 0
    proves = packed.size > 0
    while at < stop:
        point, size = _decode(text, at, stop)
        at += size
        entry = _entry(point, stage1, stage2)
        if entry & 3 == SEPARATOR:
            gap = True
            continue
        if gap and begun:
            sums[count] = keys[0] * _SPACE + _LENGTH
            if proves:
                packed[count] = _SPACE
            count += 1
        value = point + (entry >> 2)
        sums[count] = keys[0] * _U(value) + _LENGTH
        if proves:
            packed[count] = _packed(0, value, proof)
        count += 1
        begun, gap = True, False
    return count, gap


@njit
def _exact_sums(packed, count, before, proof):
    """The two halves of an exact hash over `count` tokens that `before` others precede."""
    one, two = _ZERO, _ZERO
    spread, other_spread = proof[EXACT_SPREAD], proof[EXACT_SPREAD + 1]
    packed[count : count + VECTORS] = _ZERO  # which add nothing
    done = 0
    while done < count:  # once, but for long documents
        number, begin = (before + done) // EXACT_PLACES, (before + done) % EXACT_PLACES
        here = packed[done : min(done + EXACT_PLACES - begin, done + _whole(count - done))]
        keys = proof[EXACT + begin : EXACT + begin + here.size]
        other_keys = proof[EXACT + EXACT_PLACES + begin : EXACT + EXACT_PLACES + begin + here.size]
        total, other = _ZERO, _ZERO
        for i in range(here.size):
            total += keys[i] * _reversed_bytes(here[i] * spread)
            other += other_keys[i] * _reversed_bytes(here[i] * other_spread)
        one += total * _far(number, proof, EXACT_FAR)
        two += other * _far(number, proof, EXACT_FAR + LEVELS * DIGITS)
        done += here.size
    return one, two


@njit
def _shingles(tokens, count, size, keys, out):
    """Fingerprints of a document of one token or more; place after place, so that each loop is a vector loop."""
    used = min(size, count)
    shingles = count - used + 1
    length = _U(used) * _LENGTH
    for begin in range(0, shingles, TILE):  # a tile stays in the first-level cache over all places
        # Slices, because Numba guards an index that it cannot see to be positive, and then builds no vector loop.
        tile = out[begin : begin + min(TILE, _whole(shingles - begin))]
        tile[:] = length
        for place in range(used):
            key = keys[place]
            here = tokens[begin + place : begin + place + tile.size]
            for i in range(tile.size):
                tile[i] += key * here[i]
        for i in range(tile.size):
            tile[i] = _mix64(tile[i])
    return shingles


@kernel
def fingerprint_documents(
    address,
    room,
    offset,
    words,
    size,
    stage1,
    stage2,
    keys,
    keys_address,
    proof,
    proof_address,
    tokens,
    packed,
    values,
    ends,
    exact,
):
    """All documents of a chunk: fingerprints under `keys` end to end, their end positions, exact hashes under `proof`.

    No exact hash where `exact` and `packed` have no room.
    """
    held = np.empty(3 * ROW, np.uint64)
    run, tokens, packed, values = _borrowed(held), _borrowed(tokens), _borrowed(packed), _borrowed(values)
    keys, proof = _borrowed(keys), _borrowed(proof)
    written = 0
    for document in range(offset.size - 1):
        begin, end = offset[document], offset[document + 1]
        text, stop = address + begin, end - begin
        if words:
            count = _words(
                *(text, stop, room - begin, stage1, stage2, keys, keys_address),
                *(proof, proof_address, tokens, packed, run),
            )
        else:
            count, _ = _characters(text, stop, stage1, stage2, keys, proof, tokens, packed, False, False)
        here = tokens[: _whole(count)]
        for i in range(here.size):
            here[i] = _mix64(here[i])
        if exact.size > 0:
            exact[document, 0], exact[document, 1] = _exact_sums(packed, count, 0, proof)
        if count > 0:
            written += _shingles(tokens, count, size, keys[SHINGLE:], values[written:])
        ends[document] = written
    return held[0]  # which must not be freed before


@njit
def _cut(text, start, size, stop, words, stage1, stage2):
    """The end of a piece of `size` bytes: between characters, and between tokens where these are words.

    `start` where no token is known to end within the piece. Bytes that can only go on with a character are in no cut,
    so a piece may be longer by a tail of them, which makes no token more.
    """
    at = start + size
    while at < stop and _byte(text + at) & 0xC0 == 0x80:
        at += 1
    if at >= stop:
        return stop
    if not words:
        return at
    while at > start:
        if _byte(text + at) & 0xC0 != 0x80:
            point, _ = _decode(text, at, stop)
            if _entry(point, stage1, stage2) & 3 != WORD:
                return at
        at -= 1
    return start


@njit
def _long_token(text, at, stop, stage1, stage2, keys, proof, sums, packed):
    """(end, tokens) of a word from which `_cut` found no way out, and of a single that may stand before it."""
    total, pack, place, count = _ZERO, _ZERO, 0, 0
    proves = packed.size > 0
    while at < stop:
        point, size = _decode(text, at, stop)
        entry = _entry(point, stage1, stage2)
        klass = entry & 3
        value = point + (entry >> 2)
        if klass == WORD:
            total += _key(place, keys) * _U(value)
            if proves:
                pack += _packed(place, value, proof)
            place += 1
        elif place > 0:
            break
        elif klass == SINGLE:
            sums[count] = keys[0] * _U(value) + _LENGTH
            if proves:
                packed[count] = _packed(0, value, proof)
            count += 1
        at += size
    if place > 0:
        sums[count] = total + _U(place) * _LENGTH
        if proves:
            packed[count] = pack
        count += 1
    return at, count


@kernel
def fingerprint_piece(
    text,
    room,
    stop,
    piece,
    words,
    size,
    stage1,
    stage2,
    keys,
    keys_address,
    proof,
    proof_address,
    state,
    sums,
    carried,
    tokens,
    packed,
    values,
):
    """The shingles that end in the next piece of one document of `stop` bytes, into `values`; how many they are.

    Between pieces are kept: `state` int64 [4], the place in the text, the tokens before it, whether separators stand
    there and how many tokens are carried; `sums` uint64 [2], or [0], which are the exact hash in the end; `carried`
    uint64 [size], the last size - 1 tokens.
    """
    at, before, gap, held = state[0], state[1], state[2] != 0, state[3]
    for i in range(held):  # a slice would have Numba compile how it tells of lengths that differ
        tokens[i] = carried[i]
    fresh = tokens[held:]
    end = _cut(text, at, piece, stop, words, stage1, stage2)
    if not words:
        count, gap = _characters(text + at, end - at, stage1, stage2, keys, proof, fresh, packed, before > 0, gap)
    elif end > at:
        run = np.empty(3 * ROW, np.uint64)
        count = _words(
            *(text + at, end - at, room - at, stage1, stage2, keys, keys_address),
            *(proof, proof_address, fresh, packed, run),
        )
    else:
        end, count = _long_token(text, at, stop, stage1, stage2, keys, proof, fresh, packed)
    here = fresh[: _whole(count)]
    for i in range(here.size):
        here[i] = _mix64(here[i])
    if sums.size > 0:
        one, two = _exact_sums(packed, count, before, proof)
        sums[0], sums[1] = sums[0] + one, sums[1] + two
    before += count
    count += held
    held = min(count, size - 1)
    for i in range(held):
        carried[i] = tokens[count - held + i]
    state[0], state[1], state[2], state[3] = end, before, gap, held
    if count >= size or (end == stop and 0 < before < size):
        return _shingles(tokens, count, size, keys[SHINGLE:], values)
    return 0


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ x >> _S27) * _MIX_1
    x = (x ^ x >> _S33) * _MIX_2
    return x ^ x >> _S27


@cache
def place_keys(stream: int, count: int) -> NDArray[np.uint64]:
    """key(stream, place) for the first `count` places."""
    places = np.arange(1, count + 1, dtype=np.uint64)
    return _mixed(places * _GOLDEN + np.full(count, stream, np.uint64)) | _ONE


@lru_cache(maxsize=8)
def kernel_keys(keys: EvidenceKeys | None) -> tuple[NDArray[np.uint64], int]:
    """The keys of evidence, or the public ones, of which there are fewer; and where they lie."""
    if keys is None:
        near, shingle = place_keys(protocol.STREAM_TOKEN, KEYS), place_keys(protocol.STREAM_SHINGLE, LONGEST_SHINGLE)
        words = np.concatenate([near, shingle])
    else:
        words = keys.words
    return words, words.ctypes.data
