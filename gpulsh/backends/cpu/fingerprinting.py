"""Numba kernels from UTF-8 to token hashes, fingerprints and exact hashes: of a chunk of documents, or of a piece.

Public hashes and evidence differ in the keys alone, which every kernel is given.

A word pass looks at 64 bytes at a time: two vector comparisons give a bit mask of ASCII word characters, token bounds
are its edges. The first 8 bytes of each word are kept, which are its packed token where it is no longer; a run of them
is summed with a word in each lane of a vector, and what goes on is added to those few, so that no branch depends on the
length of a word. Only a block with a non-ASCII character that belongs to a token is read code point by code
point. Loops take whole vectors, for which arrays have room behind their last word.

A first run waits until all this is compiled, for each statement about as long. So vectors are written as such, which
spares the compiler its search for them, and most arrays are given as their address, which is one number where an array
is seven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache, reduce
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numpy.typing import NDArray

from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import inlined, kernel, subroutine
from gpulsh.backends.cpu.lowered import lowered
from gpulsh.backends.unicode_table import SEPARATOR, SINGLE, WORD, UnicodeTable, unicode_table
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
BLOCK = 64  # bytes a mask
WIDE = 32  # bytes of a longer word that are summed at once
ROOM = BLOCK + WIDE  # bytes that may be read from a block's start on

_U = np.uint64
_MIX_1, _MIX_2 = _U(protocol.MIX_1), _U(protocol.MIX_2)
_GOLDEN, _LENGTH = _U(protocol.GOLDEN), _U(protocol.LENGTH)
_STREAM_TOKEN = _U(protocol.STREAM_TOKEN)
_ZERO, _ONE, _S27, _S33 = _U(0), _U(1), _U(27), _U(33)
_SPACE, _ASCII = _U(0x20), _U(0x80)

LANES = 8  # of a vector of 64-bit words; so many may be written or read behind the last
RUN = 512  # words that are summed together
AHEAD = 1024  # bytes that are asked for before they are read: other work between blocks misleads the processor
ROW = RUN + BLOCK + LANES
RUN_WORDS = 2 * ROW  # of memory for a run
_START, _PLACE = _U(16), _U(0xFFFF)  # a word that goes on: where it starts above where it is in the run
# A literal has a type of its own, for which whatever it is given to is compiled once more.
_TOKEN_FAR, _EXACT_FAR, _OTHER_EXACT_FAR = map(np.int64, (TOKEN_FAR, EXACT_FAR, EXACT_FAR + LEVELS * DIGITS))
_INVALID = 0xFFFD  # stands for a byte that is in no well-formed sequence, and separates as it does

_i1, _i8, _i16, _i32, _i64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
_bytes64, _words8 = ir.VectorType(_i8, 64), ir.VectorType(_i64, LANES)


def _load(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type) -> ir.Value:
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 1
    return value


def _folded_ascii(builder: ir.IRBuilder, address: ir.Value, length: ir.Value) -> ir.Value:
    text = _load(builder, address, _i64)
    lower = builder.or_(text, ir.Constant(_i64, 0x2020202020202020))  # letters fold, digits have the bit
    unused = builder.sub(ir.Constant(_i64, 64), builder.shl(length, ir.Constant(_i64, 3)))
    return builder.and_(lower, builder.lshr(ir.Constant(_i64, 0xFFFFFFFFFFFFFFFF), unused))


@lowered(types.uint64(types.int64))
def _word_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Bit i: byte i of 64 is an ASCII letter or digit."""

    def all_of(byte: int) -> ir.Constant:
        return ir.Constant(_bytes64, [byte] * 64)

    text = _load(builder, address, _bytes64)
    letter = builder.sub(builder.or_(text, all_of(0x20)), all_of(ord("a")))
    digit = builder.sub(text, all_of(ord("0")))
    word = builder.or_(builder.icmp_unsigned("<", letter, all_of(26)), builder.icmp_unsigned("<", digit, all_of(10)))
    return builder.bitcast(word, _i64)


@lowered(types.uint64(types.int64))
def _high_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Bit i: byte i of 64 is not ASCII."""
    text = _load(builder, address, _bytes64)
    return builder.bitcast(builder.icmp_signed("<", text, ir.Constant(_bytes64, [0] * 64)), _i64)


@lowered(types.int64(types.int64))
def _byte(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.zext(_load(builder, address, _i8), _i64)


@lowered(types.void(types.int64, types.uint64))
def _put(builder: ir.IRBuilder, address: ir.Value, value: ir.Value) -> None:
    """Store a word at an address; an index into an array would cost a look at its sign."""
    store = builder.store(value, builder.inttoptr(address, _i64.as_pointer()))
    store.align = 1


@lowered(types.uint64(types.int64))
def _get(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """The word at an address."""
    return _load(builder, address, _i64)


@lowered(types.int64(types.int64, types.int64, types.int64))
def _entry(builder: ir.IRBuilder, point: ir.Value, stage1: ir.Value, stage2: ir.Value) -> ir.Value:
    """What the Unicode table holds of a code point."""

    def number(bits: int) -> ir.Constant:
        return ir.Constant(_i64, bits)

    block = _load(builder, builder.add(stage1, builder.shl(builder.lshr(point, number(7)), number(1))), _i16)
    place = builder.or_(builder.shl(builder.zext(block, _i64), number(7)), builder.and_(point, number(127)))
    return builder.sext(_load(builder, builder.add(stage2, builder.shl(place, number(2))), _i32), _i64)


@lowered(types.void(types.int64))
def _ask(builder: ir.IRBuilder, address: ir.Value) -> None:
    """Have what lies at an address, which need not be anybody's, brought to the cache."""
    kind = ir.FunctionType(ir.VoidType(), [_i8.as_pointer(), _i32, _i32, _i32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    place = builder.inttoptr(address, _i8.as_pointer())
    builder.call(prefetch, [place, *(ir.Constant(_i32, number) for number in (0, 3, 1))])


@lowered(types.int64(types.uint64))
def _lowest_bit(builder: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """The place of the lowest set bit of a mask, 64 where there is none."""
    return builder.cttz(mask, ir.Constant(_i1, 0))


@lowered(types.int64(types.uint64))
def _ones_above(builder: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """How many bits of a mask are set above its highest that is not."""
    return builder.ctlz(builder.not_(mask), ir.Constant(_i1, 0))


@lowered(types.uint64(types.int64, types.int64, types.int64))
def _ascii_terms(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, keys: ir.Value) -> ir.Value:
    """Sum of keys[i] * folded byte i over the first `length` of 8 ASCII letters and digits; 1 <= length <= 8."""
    wide = ir.VectorType(_i64, 8)
    lower = _folded_ascii(builder, address, length)
    places = builder.zext(builder.bitcast(lower, ir.VectorType(_i8, 8)), wide)
    products = builder.mul(places, _load(builder, keys, wide))
    add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_i64, [wide]), "llvm.vector.reduce.add.v8i64")
    return builder.call(add, [products])


def _folded_vector(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, size: int) -> Iterator[ir.Value]:
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


def _summed(builder: ir.IRBuilder, vectors: Iterable[ir.Value]) -> ir.Value:
    kind = ir.VectorType(_i64, 8)
    total = reduce(builder.add, vectors)
    add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_i64, [kind]), "llvm.vector.reduce.add.v8i64")
    return builder.call(add, [total])


def _terms_of(size: int) -> Callable[..., object]:
    """Sum of keys[i] * folded byte i over the first `length` of `size` ASCII letters and digits."""

    @lowered(types.uint64(types.int64, types.int64, types.int64))
    def terms(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, keys: ir.Value) -> ir.Value:
        products = []
        for number, places in enumerate(_folded_vector(builder, address, length, size)):
            key = builder.add(keys, ir.Constant(_i64, 64 * number))
            products.append(builder.mul(places, _load(builder, key, ir.VectorType(_i64, 8))))
        return _summed(builder, products)

    return terms


_wide_terms, _block_terms = _terms_of(WIDE), _terms_of(BLOCK)


@lowered(types.uint64(types.int64, types.int64, types.int64))
def _computed_terms(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, place: ir.Value) -> ir.Value:
    """Sum key * folded byte over `length` of 64 bytes, under public keys computed for the places from `place` on."""
    first = _everywhere(builder, place)
    products = []
    for number, places in enumerate(_folded_vector(builder, address, length, BLOCK)):
        x = builder.add(first, ir.Constant(_words8, [8 * number + lane + 1 for lane in range(8)]))
        x = builder.add(builder.mul(x, _all_of(protocol.GOLDEN)), _all_of(protocol.STREAM_TOKEN))
        products.append(builder.mul(places, builder.or_(_mixed_vector(builder, x), _all_of(1))))
    return _summed(builder, products)


@lowered(types.uint64(types.int64, types.int64))
def _packed_ascii(builder: ir.IRBuilder, address: ir.Value, length: ir.Value) -> ir.Value:
    """The first `length` of 8 ASCII letters and digits, folded, the first lowest, zeros behind; 1 <= length <= 8."""
    return _folded_ascii(builder, address, length)


def _all_of(number: int) -> ir.Constant:
    return ir.Constant(_words8, [number] * LANES)


def _everywhere(builder: ir.IRBuilder, word: ir.Value) -> ir.Value:
    one = builder.insert_element(ir.Constant(_words8, ir.Undefined), word, ir.Constant(_i32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_i32, LANES), [0] * LANES))


def _store(builder: ir.IRBuilder, vector: ir.Value, address: ir.Value) -> None:
    builder.store(vector, builder.inttoptr(address, _words8.as_pointer())).align = 1


def _mixed_vector(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    for shift, factor in ((27, protocol.MIX_1), (33, protocol.MIX_2)):
        x = builder.mul(builder.xor(x, builder.lshr(x, _all_of(shift))), _all_of(factor))
    return builder.xor(x, builder.lshr(x, _all_of(27)))


@lowered(types.void(types.int64))
def _mix_vector(builder: ir.IRBuilder, address: ir.Value) -> None:
    """Mix 8 words where they lie."""
    _store(builder, _mixed_vector(builder, _load(builder, address, _words8)), address)


@lowered(types.void(types.int64, types.int64, types.int64, types.int64))
def _sum_heads(builder: ir.IRBuilder, heads: ir.Value, lengths: ir.Value, keys: ir.Value, sums: ir.Value) -> None:
    """Of 8 words, one in each lane: the sum of keys[i] * byte i of the first 8 bytes, and what the length adds."""
    head = _load(builder, heads, _words8)
    totals = [builder.mul(_load(builder, lengths, _words8), _all_of(protocol.LENGTH)), _all_of(0)]
    for place in range(8):
        byte = builder.and_(builder.lshr(head, _all_of(8 * place)), _all_of(0xFF))
        key = _load(builder, builder.add(keys, ir.Constant(_i64, 8 * place)), _i64)
        totals[place % 2] = builder.add(totals[place % 2], builder.mul(byte, _everywhere(builder, key)))
    _store(builder, builder.add(*totals), sums)


@lowered(types.uint64(types.int64, types.int64, types.int64, types.uint64))
def _exact_terms(
    builder: ir.IRBuilder, packed: ir.Value, count: ir.Value, keys: ir.Value, spread: ir.Value
) -> ir.Value:
    """Sum of keys[i] * the bytes, reversed, of spread * packed[i], for `count` packed tokens."""
    total = cgutils.alloca_once_value(builder, _all_of(0))
    spreads = _everywhere(builder, spread)
    swap = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_words8, [_words8]), "llvm.bswap.v8i64")
    lanes = ir.Constant(_words8, list(range(LANES)))
    with cgutils.for_range_slice(builder, ir.Constant(_i64, 0), count, ir.Constant(_i64, LANES)) as (i, _):
        skip = builder.shl(i, ir.Constant(_i64, 3))
        spreaded = builder.mul(_load(builder, builder.add(packed, skip), _words8), spreads)
        term = builder.mul(builder.call(swap, [spreaded]), _load(builder, builder.add(keys, skip), _words8))
        used = builder.icmp_signed("<", lanes, _everywhere(builder, builder.sub(count, i)))
        builder.store(builder.add(builder.load(total), builder.select(used, term, _all_of(0))), total)
    return _summed(builder, [builder.load(total)])


@lowered(types.void(types.int64, types.int64, types.int64, types.int64))
def _shingle_vector(builder: ir.IRBuilder, tokens: ir.Value, size: ir.Value, keys: ir.Value, out: ir.Value) -> None:
    """8 shingles of `size` tokens, the first of them at `tokens`, the second a token farther on."""
    length = builder.mul(size, ir.Constant(_i64, protocol.LENGTH))
    total = cgutils.alloca_once_value(builder, _everywhere(builder, length))
    with cgutils.for_range(builder, size) as places:
        skip = builder.shl(places.index, ir.Constant(_i64, 3))
        key = _everywhere(builder, _load(builder, builder.add(keys, skip), _i64))
        term = builder.mul(key, _load(builder, builder.add(tokens, skip), _words8))
        builder.store(builder.add(builder.load(total), term), total)
    _store(builder, _mixed_vector(builder, builder.load(total)), out)


@inlined
def _packing(value):
    """Where, before a place's key, lies what a folded code point is multiplied by in its packed token."""
    return 8 * KEYS * np.int64(value >= _ASCII) - 16 * KEYS


@subroutine
def _far(number, keys, far):
    """What the near secret keys are multiplied by, of the tables at `far`; 1 for the number 0."""
    low, middle, high = number & DIGIT, number >> BITS & DIGIT, number >> 2 * BITS
    tables = keys + 8 * far
    return _get(tables + 8 * low) * _get(tables + 8 * (DIGITS + middle)) * _get(tables + 8 * (2 * DIGITS + high))


@subroutine
def _far_key(place, keys, secret):
    """The key of a place for which none lies in the table."""
    if secret:
        return _get(keys + 8 * (place % KEYS)) * _far(place // KEYS, keys, _TOKEN_FAR)
    x = _STREAM_TOKEN + _U(place + 1) * _GOLDEN
    x = (x ^ x >> _S27) * _MIX_1
    x = (x ^ x >> _S33) * _MIX_2
    return (x ^ x >> _S27) | _ONE


@subroutine
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


@subroutine
def _ascii_sum(text, start, end, keys, secret):
    """The sum of one token of ASCII letters and digits, without its length; whole blocks may be read."""
    total = _block_terms(text + start, min(end - start, BLOCK), keys)
    for place in range(BLOCK, end - start, BLOCK):
        at, size = text + start + place, min(end - start - place, BLOCK)
        if secret:
            total += _block_terms(at, size, keys) * _far(place // KEYS, keys, _TOKEN_FAR)
        else:
            total += _computed_terms(at, size, place)
    return total


@subroutine
def _words_by_code_point(text, at, stop, until, stage1, stage2, keys, secret, proof, proves, sums, packed, count):
    """Tokens from a token boundary on, up to the first separator at or behind `until`."""
    total, pack, place = _ZERO, _ZERO, np.int64(0)
    while True:
        point, size, entry = 0, 0, SEPARATOR
        if at < stop:
            point, size = _byte(text + at), 1
            if point >= 0x80:
                point, size = _decode(text, at, stop)
            entry = _entry(point, stage1, stage2)
        klass, value = entry & 3, _U(point + (entry >> 2))
        if klass == WORD:
            if place < KEYS:
                total += _get(keys + 8 * place) * value
                pack += _get(proof + 8 * place + _packing(value)) * value
            else:
                total += _far_key(place, keys, secret) * value
                pack += _far_key(place, proof, proves) * value
            place += 1
            at += size
            continue
        if place > 0:
            _put(sums + 8 * count, total + _U(place) * _LENGTH)
            _put(packed + 8 * count, pack)
            count += 1
            total, pack, place = _ZERO, _ZERO, np.int64(0)
        if klass == SINGLE:
            _put(sums + 8 * count, _get(keys) * value + _LENGTH)
            _put(packed + 8 * count, _get(proof) * value)
            count += 1
        elif at >= until or at >= stop:
            return at, count
        at += size


@subroutine
def _belongs_to_token(text, at, high, stop, stage1, stage2):
    """Whether one of the non-ASCII characters that `high` marks in the block at `at` is part of a token."""
    while high != _ZERO:
        bit = _lowest_bit(high)
        point, size = _decode(text, at + bit, stop)
        if _entry(point, stage1, stage2) & 3 != SEPARATOR:
            return True
        high &= ~(((_ONE << _U(size)) - _ONE) << _U(bit))
    return False


@subroutine
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


@subroutine
def _finish(text, keys, proof, proves, sums, packed, found, lengths, longer, long):
    """Sums of the words [found] whose first 8 bytes are in `packed`; `longer` [long] are those that go on."""
    for i in range(0, found, LANES):
        _sum_heads(packed + 8 * i, lengths + 8 * i, keys, sums + 8 * i)
    for i in range(long):
        word = _get(longer + 8 * i)
        place, start = 8 * np.int64(word & _PLACE), np.int64(word >> _START)
        rest, size = text + start + 8, np.int64(_get(lengths + place)) - 8
        total, pack = _get(sums + place), _get(packed + place)
        if size <= 8:
            total += _ascii_terms(rest, size, keys + 64)
            if proves:
                pack += _ascii_terms(rest, size, proof + 64)
        else:
            for at in range(0, size, WIDE):
                total += _wide_terms(rest + at, size - at, keys + 64 + 8 * at)
                if proves:
                    pack += _wide_terms(rest + at, size - at, proof + 64 + 8 * at)
        _put(sums + place, total)
        _put(packed + place, pack)


@subroutine
def _words(text, stop, room, stage1, stage2, keys, secret, proof, proves, sums, packed, run):
    """Sums of all word tokens of one document of `stop` bytes; `room` bytes may be read.

    The first 8 bytes of each word are kept, and its length, until there is a run of them.
    """
    lengths, longer = run, run + 8 * ROW
    at, count = np.int64(0), np.int64(0)
    found, long = np.int64(0), np.int64(0)
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
            _finish(text, keys, proof, proves, sums + 8 * count, packed + 8 * count, found, lengths, longer, long)
            count += found
            found, long = np.int64(0), np.int64(0)
            if by_code_point:
                at, count = _words_by_code_point(
                    text, at, stop, until, stage1, stage2, keys, secret, proof, proves, sums, packed, count
                )
                continue
            if end >= 0:
                _put(sums + 8 * count, _ascii_sum(text, at, end, keys, secret) + _U(end - at) * _LENGTH)
                if proves:
                    head = _packed_ascii(text + at, 8) - _ascii_terms(text + at, 8, proof)
                    _put(packed + 8 * count, _ascii_sum(text, at, end, proof, proves) + head)
                count += 1
                at = end
                continue
        before = word << _ONE
        starts, ends = word & ~before, before & ~word
        while ends != _ZERO:
            start = _lowest_bit(starts)
            length = _lowest_bit(ends) - start
            _put(packed + 8 * (count + found), _packed_ascii(text + at + start, min(length, 8)))
            _put(lengths + 8 * found, _U(length))
            _put(longer + 8 * long, _U(at + start) << _START | _U(found))
            long += np.int64(length > 8)
            starts &= starts - _ONE
            ends &= ends - _ONE
            found += 1
        at += BLOCK - _ones_above(word)
    _finish(text, keys, proof, proves, sums + 8 * count, packed + 8 * count, found, lengths, longer, long)
    return count + found


@subroutine
def _characters(text, stop, stage1, stage2, keys, proof, sums, packed, begun, gap):
    """Sums of char tokens, and whether separators stand behind the last; `begun` and `gap`: tokens and those before."""
    at, count = np.int64(0), np.int64(0)
    while at < stop:
        point, size = _decode(text, at, stop)
        at += size
        entry = _entry(point, stage1, stage2)
        if entry & 3 == SEPARATOR:
            gap = True
            continue
        if gap and begun:
            _put(sums + 8 * count, _get(keys) * _SPACE + _LENGTH)
            _put(packed + 8 * count, _SPACE)
            count += 1
        value = _U(point + (entry >> 2))
        _put(sums + 8 * count, _get(keys) * value + _LENGTH)
        _put(packed + 8 * count, _get(proof + _packing(value)) * value)
        count += 1
        begun, gap = True, False
    return count, gap


@subroutine
def _exact_sums(packed, count, before, proof):
    """The two halves of an exact hash over `count` tokens that `before` others precede."""
    one, two = _ZERO, _ZERO
    spread, other_spread = _get(proof + 8 * EXACT_SPREAD), _get(proof + 8 * (EXACT_SPREAD + 1))
    done = 0
    while done < count:  # once, but for long documents
        number, begin = (before + done) // EXACT_PLACES, (before + done) % EXACT_PLACES
        here, size = packed + 8 * done, min(EXACT_PLACES - begin, count - done)
        keys = proof + 8 * (EXACT + begin)
        one += _exact_terms(here, size, keys, spread) * _far(number, proof, _EXACT_FAR)
        other_keys = keys + 8 * EXACT_PLACES
        two += _exact_terms(here, size, other_keys, other_spread) * _far(number, proof, _OTHER_EXACT_FAR)
        done += size
    return one, two


@subroutine
def _mix_tokens(sums, count):
    """Make token hashes of sums, where they lie."""
    for i in range(0, count, LANES):
        _mix_vector(sums + 8 * i)


@subroutine
def _shingles(tokens, count, size, keys, out):
    """Fingerprints of a document of one token or more."""
    used = min(size, count)
    shingles = count - used + 1
    for i in range(0, shingles, LANES):
        _shingle_vector(tokens + 8 * i, used, keys + 8 * SHINGLE, out + 8 * i)
    return shingles


@subroutine
def _fingerprints(document, count, size, keys, proof, proves, tokens, packed, out, exact):
    """Fingerprints of a document whose `count` tokens are summed and packed, and its exact hash; how many they are."""
    _mix_tokens(tokens, count)
    if proves:
        exact[document, 0], exact[document, 1] = _exact_sums(packed, count, np.int64(0), proof)
    return _shingles(tokens, count, size, keys, out) if count > 0 else 0


@kernel
def fingerprint_words(
    address,
    room,
    offset,
    size,
    stage1,
    stage2,
    keys,
    secret,
    proof,
    proves,
    tokens,
    packed,
    values,
    run,
    ends,
    exact,
):
    """All documents of a chunk: fingerprints under `keys` end to end, their end positions, exact hashes under `proof`.

    No exact hash unless it `proves`. All but `offset`, `ends` and `exact` are numbers, or addresses of arrays.
    """
    written = 0
    for document in range(offset.size - 1):
        begin, end = offset[document], offset[document + 1]
        text, stop, out = address + begin, end - begin, values + 8 * written
        count = _words(text, stop, room - begin, stage1, stage2, keys, secret, proof, proves, tokens, packed, run)
        written += _fingerprints(document, count, size, keys, proof, proves, tokens, packed, out, exact)
        ends[document] = written


@kernel
def fingerprint_characters(
    address, offset, size, stage1, stage2, keys, secret, proof, proves, tokens, packed, values, ends, exact
):
    """Fingerprint all documents of a chunk with characters for tokens."""
    written = 0
    for document in range(offset.size - 1):
        begin, end = offset[document], offset[document + 1]
        text, stop, out = address + begin, end - begin, values + 8 * written
        count, _ = _characters(text, stop, stage1, stage2, keys, proof, tokens, packed, False, False)
        written += _fingerprints(document, count, size, keys, proof, proves, tokens, packed, out, exact)
        ends[document] = written


@kernel
def hash_tokens(address, room, offset, words, stage1, stage2, keys, secret, tokens, packed, run, ends):
    """All documents of a chunk: hashes of their tokens under `keys` end to end, and their end positions.

    All but `offset` and `ends` are numbers, or addresses of arrays.
    """
    written = 0
    for document in range(offset.size - 1):
        begin, end = offset[document], offset[document + 1]
        text, stop, out = address + begin, end - begin, tokens + 8 * written
        if words:
            count = _words(text, stop, room - begin, stage1, stage2, keys, secret, keys, False, out, packed, run)
        else:
            count, _ = _characters(text, stop, stage1, stage2, keys, keys, out, packed, False, False)
        _mix_tokens(out, count)
        written += count
        ends[document] = written


@kernel
def shingle_tokens(tokens, offset, size, keys, values, ends):
    """All rows of tokens: their fingerprints under `keys` end to end, and their end positions."""
    written = 0
    for row in range(offset.size - 1):
        count = offset[row + 1] - offset[row]
        if count > 0:
            written += _shingles(tokens + 8 * offset[row], count, size, keys, values + 8 * written)
        ends[row] = written


@subroutine
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


@subroutine
def _long_token(text, at, stop, stage1, stage2, keys, secret, proof, proves, sums, packed):
    """(end, tokens) of a word from which `_cut` found no way out, and of a single that may stand before it."""
    total, pack, place, count = _ZERO, _ZERO, np.int64(0), np.int64(0)
    while at < stop:
        point, size = _decode(text, at, stop)
        entry = _entry(point, stage1, stage2)
        klass = entry & 3
        value = _U(point + (entry >> 2))
        if klass == WORD:
            if place < KEYS:
                total += _get(keys + 8 * place) * value
                pack += _get(proof + 8 * place + _packing(value)) * value
            else:
                total += _far_key(place, keys, secret) * value
                pack += _far_key(place, proof, proves) * value
            place += 1
        elif place > 0:
            break
        elif klass == SINGLE:
            _put(sums, _get(keys) * value + _LENGTH)
            _put(packed, _get(proof) * value)
            count = 1
        at += size
    if place > 0:
        _put(sums + 8 * count, total + _U(place) * _LENGTH)
        _put(packed + 8 * count, pack)
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
    secret,
    proof,
    proves,
    state,
    sums,
    carried,
    tokens,
    packed,
    values,
    run,
):
    """The shingles that end in the next piece of one document of `stop` bytes, into `values`; how many they are.

    Between pieces are kept: `state` int64 [4], the place in the text, the tokens before it, whether separators stand
    there and how many tokens are carried; `sums` uint64 [2], which are the exact hash in the end where it `proves`;
    `carried` uint64 [size], the last size - 1 tokens.
    """
    at, before, gap, held = state[0], state[1], state[2] != 0, state[3]
    for i in range(held):
        _put(tokens + 8 * i, carried[i])
    fresh = tokens + 8 * held
    end = _cut(text, at, piece, stop, words, stage1, stage2)
    if not words:
        count, gap = _characters(text + at, end - at, stage1, stage2, keys, proof, fresh, packed, before > 0, gap)
    elif end > at:
        count = _words(text + at, end - at, room - at, stage1, stage2, keys, secret, proof, proves, fresh, packed, run)
    else:
        end, count = _long_token(text, at, stop, stage1, stage2, keys, secret, proof, proves, fresh, packed)
    _mix_tokens(fresh, count)
    if proves:
        one, two = _exact_sums(packed, count, before, proof)
        sums[0], sums[1] = sums[0] + one, sums[1] + two
    before += count
    count += held
    held = min(count, size - 1)
    for i in range(held):
        carried[i] = _get(tokens + 8 * (count - held + i))
    state[0], state[1], state[2], state[3] = end, before, gap, held
    if count >= size or (end == stop and 0 < before < size):
        return _shingles(tokens, count, size, keys, values)
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


class KernelTable(NamedTuple):
    """The Unicode table as kernels take it, its stages by their addresses; whoever calls one holds `table`.

    Nobody else need do so: of threads that make it at the same time, all but one are given a table of their own.
    """

    table: UnicodeTable
    at: tuple[int, int]


@cache
def kernel_table() -> KernelTable:
    """The shipped table."""
    table = unicode_table()
    return KernelTable(table, (table.stage1.ctypes.data, table.stage2.ctypes.data))


class KernelKeys(NamedTuple):
    """Keys as kernels take them; whoever calls one holds `words`.

    Before `address` lie 2 * KEYS of what a folded code point is multiplied by in its packed token, by its place: those
    of ASCII, then those of the others.
    """

    words: NDArray[np.uint64]
    address: int
    secret: bool


@lru_cache(maxsize=8)
def kernel_keys(keys: EvidenceKeys | None) -> KernelKeys:
    """The keys of evidence, or the public ones, of which there are fewer."""
    if keys is None:
        near, shingle = place_keys(protocol.STREAM_TOKEN, KEYS), place_keys(protocol.STREAM_SHINGLE, LONGEST_SHINGLE)
        words = np.concatenate([near, shingle])
    else:
        words = keys.words
    packing = np.concatenate([words[:KEYS], words[:KEYS]])
    packing[:8] = _ONE << np.arange(0, 64, 8, dtype=np.uint64)  # the first 8 bytes of a word lie side by side
    words = np.concatenate([packing, words])
    return KernelKeys(words, words.ctypes.data + packing.nbytes, keys is not None)
